"""Mistakes of a user that must not cost anything: a terminal, a file, a pair, or the wrong advice."""

from __future__ import annotations

import errno
import os
import pty
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import weft as package
from commands import Weft, refused
from conftest import SMALL, made_up_pairs
from weft import api
from weft.api import Run
from weft.cli import demo
from weft.core.errors import Interrupted, UserError
from weft.core.pair import Pair
from weft.data import prepare
from weft.data.prepare import Files, Prepared, keep_given
from weft.data.sides.sides import Sides
from weft.runs import train as training
from weft.runs.folder import RunFolder
from weft.runs.job import Job
from weft.runs.report import Quiet

HIDE_CURSOR, SHOW_CURSOR = b"\x1b[?25l", b"\x1b[?25h"


def on_a_terminal(*arguments: object) -> bytes:
    """What `weft` writes to a terminal."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-m", "weft", *map(str, arguments)]
    started = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    said = b""
    try:
        while read := os.read(leader, 65536):
            said += read
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(leader)
        started.wait()
    return said


@pytest.mark.parametrize("mistake", [["--set", "decoder.cell=lsmt"], ["--budget", "soon"], ["--config", "no.yaml"]])
def test_a_mistake_leaves_the_cursor_of_a_terminal_as_it_was(tiny_pairs: Path, mistake: list[str]) -> None:
    said = on_a_terminal("train", tiny_pairs, *mistake)
    assert b"error: " in said
    assert HIDE_CURSOR not in said


def test_training_on_a_terminal_gives_the_cursor_back(tiny_pairs: Path, tmp_path: Path) -> None:
    said = on_a_terminal("train", tiny_pairs, "--out", tmp_path / "run", "--steps", 2, "--set", "encoder.width=8")
    assert b"training" in said
    assert 0 <= said.rfind(HIDE_CURSOR) < said.rfind(SHOW_CURSOR)


# pairs in memory -----------------------------------------------------------------------------------------------------


def train(pairs: Any, tmp_path: Path, **more: Any) -> dict[str, Any]:
    """The facts about the data of a run of one step."""
    done = package.train(pairs, out=tmp_path / "run", steps=1, settings=SMALL, reporter=Quiet(), **more)
    return done.folder.read_facts()


def test_pairs_that_can_be_gone_through_only_once_are_all_there(tmp_path: Path, tiny_run: Run) -> None:
    pairs = made_up_pairs(40)
    assert train(zip(*zip(*pairs)), tmp_path)["training_pairs"] == 40
    assert tiny_run.evaluate(iter(pairs[:7])).n == 7


def test_files_that_can_be_gone_through_only_once_are_all_there(tmp_path: Path, tiny_pairs: Path) -> None:
    assert train((path for path in [tiny_pairs]), tmp_path)["pairs"] == [str(tiny_pairs)]


def test_validation_pairs_may_be_a_list_where_the_pairs_are(tmp_path: Path, tiny_pairs: Path) -> None:
    pairs = made_up_pairs(60)
    facts = train(pairs[:40], tmp_path, valid=[Pair(*pair) for pair in pairs[40:]])
    assert (facts["training_pairs"], facts["valid_pairs"]) == (40, 20)
    with pytest.raises(UserError, match="validation pairs are given as a list, but the training pairs as files"):
        package.train(tiny_pairs, valid=pairs)


@pytest.mark.parametrize("wrong", ["test.tsv", "ab", ("only one",), (1, 2), None])
def test_what_is_no_pair_is_refused_with_its_place(tiny_run: Run, wrong: Any) -> None:
    with pytest.raises(UserError, match="is not a pair") as caught:
        tiny_run.evaluate([("a", "b"), wrong])
    assert caught.value.where == "item 2 of the list"


# stdin ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["train", "data"])
def test_validation_pairs_do_not_come_by_stdin(weft: Weft, tiny_pairs: Path, command: str) -> None:
    done = weft(command, tiny_pairs, "--valid", "-")
    refused(done, "read several times", "--valid -", "as a file")


def test_several_processes_do_not_share_one_stdin(tmp_path: Path) -> None:
    job = Job(pairs=("-",), out=tmp_path / "run")
    with pytest.raises(UserError, match="cannot share one stdin"):
        training._check_start(job, RunFolder(tmp_path / "run"), SimpleNamespace(size=2))
    training._check_start(job, RunFolder(tmp_path / "run"), SimpleNamespace(size=1))


# lines that cannot be used -------------------------------------------------------------------------------------------


def test_every_line_has_its_output_so_none_is_left_out(weft: Weft, tiny_run: Run, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"abc\n\xff\n")
    refused(weft("predict", tiny_run.path, "in.txt", "--on-bad-line", "skip"), "cannot skip lines")


def test_data_stops_at_a_bad_line_where_that_is_asked_for(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\nonly one\n", encoding="utf-8")
    assert weft("data", "a.tsv").code == 0
    refused(weft("data", "a.tsv", "--on-bad-line", "stop"), "a.tsv:2", "1 column")


# the cache -----------------------------------------------------------------------------------------------------------


def test_a_cache_that_is_full_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    made = Prepared(Files((keep_given([Pair(*pair) for pair in made_up_pairs(60)]),)))
    tokenisers = made.tokenisers(("characters", 0), ("characters", 0), shared=False)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(prepare, "write_blocks", full)
    with pytest.raises(UserError, match="the cache cannot be written: No space left") as caught:
        made.corpus(Sides(*tokenisers))
    assert caught.value.where.startswith(str(tmp_path / "cache"))
    assert "WEFT_CACHE" in caught.value.todo


def test_a_cache_that_cannot_be_made_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="the cache cannot be written") as caught:
        keep_given([Pair("a", "b")])
    assert "WEFT_CACHE" in caught.value.todo


# the demo ------------------------------------------------------------------------------------------------------------


def test_a_demo_that_is_stopped_says_how_to_go_on(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise Interrupted("stopped at step 3 as asked; everything is saved", "mine", "continue with --resume")

    monkeypatch.setattr(api, "train", stopped)
    monkeypatch.setattr(demo, "PAIRS", 300)
    done = weft("demo", "--out", "mine")
    assert done.code == 130
    assert "resume it with `weft train --out mine --resume`" in done.err
