"""The command line: help, exit codes, results on stdout alone, and every mistake told in three parts."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pytest
import typer.main
import yaml

from commands import Done, Weft, refused
from weft import __version__, api
from weft.api import Run
from weft.cli import demo
from weft.cli.main import app, hoist, main, spins
from weft.core.errors import UserError
from weft.core.stopping import note_signal
from weft.runs.folder import RunFolder

SMALL = ["--set", "encoder.width=32", "--set", "decoder.width=32", "--set", "embed.width=32"]
ROOT = typer.main.get_command(app)
COMMANDS = {
    (*path, name): command
    for path, group in (((), ROOT), (("config",), ROOT.commands["config"]))
    for name, command in group.commands.items()
    if not hasattr(command, "commands")
}


@pytest.fixture
def pairs(tmp_path: Path, tiny_pairs: Path) -> Path:
    """Good pairs of this test's own."""
    return Path(shutil.copy(tiny_pairs, tmp_path / "pairs.tsv"))


@pytest.fixture
def copied(tmp_path: Path, tiny_run: Run) -> Path:
    """A run of this test's own, to damage."""
    return Path(shutil.copytree(tiny_run.path, tmp_path / "copied", symlinks=True))


def put(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


# help ----------------------------------------------------------------------------------------------------------------


def test_every_command_of_the_design_that_is_built_is_there() -> None:
    names = {" ".join(command) for command in COMMANDS}
    assert names >= {"train", "predict", "evaluate", "data", "demo", "config show", "config check"}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_works(weft: Weft, command: tuple[str, ...]) -> None:
    done = weft(*command, "--help")
    assert done.code == 0
    assert done.err == ""
    assert "Usage: weft " + " ".join(command) in done.out
    assert weft(*command, "-h").out == done.out


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_shows_indented_examples(weft: Weft, command: tuple[str, ...]) -> None:
    out = weft(*command, "--help").out
    assert "\n Examples" in out
    assert f"\n   weft {' '.join(command)} " in out.partition("\n Examples")[2]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_has_more_than_eighteen_options(command: tuple[str, ...]) -> None:
    options = [p for p in COMMANDS[command].params if p.param_type_name == "option"]
    assert len(options) <= 18
    assert all(p.help for p in options)  # and each says what it is


def test_weft_alone_shows_the_commands(weft: Weft) -> None:
    assert all(name in weft("--help").out for name in ("train", "predict", "evaluate", "data", "config", "demo"))


def test_weft_says_its_version(weft: Weft) -> None:
    done = weft("--version")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"weft {__version__} (torch ")
    assert "compiled code: " in done.out


def test_common_options_may_stand_anywhere_but_after_two_dashes() -> None:
    assert hoist(["train", "a", "--on-bad-line", "skip", "--debug", "--seed", "1"]) == [
        "--on-bad-line", "skip", "--debug", "train", "a", "--seed", "1",
    ]  # fmt: skip
    assert hoist(["train", "--on-bad-line=skip", "a"]) == ["--on-bad-line=skip", "train", "a"]
    assert hoist(["predict", "--", "--debug"]) == ["predict", "--", "--debug"]
    assert hoist(["predict", "a", "--threads", "1"]) == ["--threads", "1", "predict", "a"]


@pytest.mark.parametrize(("content", "wanted"), [
    ("0.10 0.20 0.30 1/77 123", 20_000),
    ("0.10 0.20 0.30 3/77 123", 1000),
    ("what", 1000),
    (None, 1000),
])  # fmt: skip
def test_threads_wait_awake_only_where_nobody_else_wants_the_cores(
    content: str | None, wanted: int, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "loadavg").write_text(content, encoding="utf-8")
    assert spins(tmp_path / "loadavg") == wanted


def test_threads_may_be_limited(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    said: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", said.append)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert weft("config", "show", "--threads", "3").code == 0
    assert (said, os.environ["OMP_NUM_THREADS"]) == ([3], "3")


@pytest.mark.parametrize(("arguments", "said"), [
    (["trian"], ["no such command 'trian'", "see weft --help"]),
    (["config", "shwo"], ["no such command 'shwo'", "see weft config --help"]),
    (["train", "--stepz", "5"], ["no such option: --stepz", "see weft train --help"]),
    (["train", "--steps", "many"], ["'--steps'", "valid integer", "see weft train --help"]),
    (["train", "--steps"], ["--steps", "requires an argument"]),
    (["predict", "RUN", "--format", "xml"], ["--format: 'xml' is not one of text, tsv, jsonl"]),
    (["predict", "RUN", "--nbest", "0"], ["'--nbest'", "see weft predict --help"]),
    (["predict", "RUN", "a.txt", "b.txt"], ["unexpected extra argument", "b.txt"]),
    (["predict"], ["missing argument 'RUN'", "see weft predict --help"]),
    (["data"], ["missing argument 'PAIRS…'", "see weft data --help"]),
    (["train", "x.tsv", "--on-bad-line", "jump"], ["--on-bad-line: 'jump' is not one of stop, skip"]),
    (["train", "x.tsv", "--threads", "0"], ["'--threads'", "see weft --help"]),
    (["train", "x.tsv", "--on-bad-line"], ["--on-bad-line: '' is not one of stop, skip", "see weft --help"]),
], ids=lambda value: " ".join(value))  # fmt: skip
def test_wrong_usage_is_told_in_three_parts(weft: Weft, arguments: list[str], said: list[str]) -> None:
    refused(weft(*arguments), "where: the command line", *said)


@pytest.mark.parametrize("arguments", [[], ["config"]], ids=["weft", "weft config"])
def test_a_command_that_needs_another_shows_its_help_and_no_empty_error(weft: Weft, arguments: list[str]) -> None:
    done = weft(*arguments)
    assert (done.code, done.err) == (2, "")
    assert done.out.strip() == weft(*arguments, "--help").out.strip()


# training: bad data --------------------------------------------------------------------------------------------------

GOOD = "".join(f"{word}\t{word[::-1]}\n" for word in ("abc", "bcd", "cde", "def", "efg"))
BAD_FILES: dict[str, tuple[str | bytes, list[str]]] = {
    "empty": ("", ["the file is empty", "bad.tsv"]),
    "only blank lines": ("\n\n\n", ["the file is empty"]),
    "one column only": (
        "abc\nbcd\n",
        ["there is only one column, but source<TAB>target is expected", "bad.tsv:1", "put a tab"],
    ),
    "too few columns": (f"{GOOD}xyz\n{GOOD}", ["this row has 1 column, but the first row has 2", "bad.tsv:6"]),
    "too many columns": (f"{GOOD}x\ty\tz\n", ["this row has 3 columns, but the first row has 2", "bad.tsv:6"]),
    "not UTF-8": (GOOD.encode() + b"caf\xe9\tx\n", ["(0xe9) is not UTF-8", "bad.tsv:6", "iconv -f LATIN1"]),
    "an empty target": (f"{GOOD}xyz\t\n", ["the target is empty", "bad.tsv:6"]),
    "an empty source": (f"{GOOD}  \txyz\n", ["the source is empty", "bad.tsv:6"]),
    "a million characters": (
        f"{GOOD}{'x' * 10**6}\ty\n",
        ["1,000,000 characters, but the limit is 20,000", "bad.tsv:6"],
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_data_are_refused_with_their_place_and_leave_no_folder(weft: Weft, name: str) -> None:
    content, said = BAD_FILES[name]
    refused(weft("train", put("bad.tsv", content), "--out", "run", "--steps", 2), *said)
    assert not Path("run").exists()


@pytest.mark.parametrize("name", [name for name in BAD_FILES if "bad.tsv:6" in BAD_FILES[name][1]])
def test_a_bad_row_is_said_to_be_avoidable(weft: Weft, name: str) -> None:
    refused(weft("train", put("bad.tsv", BAD_FILES[name][0]), "--steps", 2), "--on-bad-line skip")


def test_bad_validation_data_are_refused_too(weft: Weft, pairs: Path) -> None:
    done = weft("train", pairs, "--valid", put("dev.tsv", f"{GOOD}xyz\n"), "--out", "run", "--steps", 2)
    refused(done, "this row has 1 column", "dev.tsv:6")
    assert not Path("run").exists()


def test_a_missing_file_is_refused_with_the_nearest_name(weft: Weft, pairs: Path) -> None:
    done = weft("train", "pair.tsv", "--steps", 2)
    refused(done, "there is no such file", "pair.tsv", "check the name; did you mean 'pairs.tsv'?")
    refused(weft("train", "nowhere/pairs.tsv", "--steps", 2), "its folder does not exist")
    refused(weft("train", pairs, "--valid", "dev.tsv", "--steps", 2), "there is no such file", "dev.tsv")


def test_a_folder_in_the_place_of_a_file_is_refused(weft: Weft, tmp_path: Path) -> None:
    refused(weft("train", tmp_path, "--out", "run", "--steps", 2), "this is a folder, not a file")


def test_parallel_files_of_different_length_are_refused(weft: Weft) -> None:
    put("a.en", "one\ntwo\nthree\n")
    put("a.de", "eins\nzwei\n")
    done = weft("train", "a.en:a.de", "--steps", 2)
    refused(done, "the parallel files differ in length: 3 and 2 lines", "a.en:a.de", "wc -l")


def test_a_column_that_is_not_there_is_refused(weft: Weft, pairs: Path) -> None:
    refused(weft("train", pairs, "--features", 3, "--steps", 2), "the features should be in column 3", "pairs.tsv:1")
    put("named.csv", "word,phones\nabc,x\n")
    done = weft("train", "named.csv", "--source", "wrod", "--target", "phones", "--steps", 2)
    refused(done, "there is no column 'wrod'", "did you mean 'word'?")


def test_no_pairs_at_all_are_refused(weft: Weft) -> None:
    refused(weft("train"), "no pairs are given", "weft train pairs.tsv")
    refused(weft("train", "--resume"), "--resume needs --out RUN", "weft train --out RUN --resume")


# training: wrong settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "said"), [
    (["--set", "decoder.cel=gru"], ["decoder.cel: there is no such setting", "did you mean 'cell'?"]),
    (["--set", "decoder.cell=lsmt"], ["'lsmt' is not known; did you mean 'lstm'?", "(from flag)"]),
    (["--set", "decoder.cell"], ["'decoder.cell' is not of the form key=value", "write key=value"]),
    (["--set", "encoder.heads=7", "--set", "encoder.width=64", "--steps", "2"], ["width=64 cannot be divided"]),
    (["--set", "encoder.width=33", "--steps", "2"], ["encoder.width=33 is odd"]),
    (["--budget", "-5m"], ["'-5m' is not a time", "--budget", "10m"]),
    (["--budget", "0s"], ["the budget must be a positive time"]),
    (["--budget", "10"], ["the budget 10 has no unit", "10s, 10m or 10h"]),
    (["--budget", "soon"], ["'soon' is not a time"]),
    (["--steps", "0"], ["train.steps must be at least 1, but it is 0"]),
    (["--steps", "-3"], ["train.steps", "but it is -3"]),
    (["--epochs", "-1"], ["train.epochs", "greater than 0"]),
    (["--steps", "5", "--epochs", "2"], ["train.steps and train.epochs cannot be given together", "keep one"]),
    (["--budget", "5m", "--steps", "2"], ["train.budget_seconds and train.steps cannot be given together"]),
    (["--seed", "-1"], ["train.seed"]),
    (["--config", "no.yaml"], ["cannot read the settings file", "no.yaml", "check the file's name"]),
    (["--source", "0"], ["0 is not the number of a column", "data.source"]),
    (["--features", "2", "--steps", "2"], ["target and features would both be column 2", "pairs.tsv:1", "--features"]),
    (["--init", "nowhere", "--steps", "2"], ["there is no such run folder", "nowhere"]),
    (["--set", "data.repeat_power=2"], ["data.repeat_power", "at most 1", "(from flag)"]),
    (["--set", "data.longest=3", "--steps", "2"], ["characters, but the limit is 3", "pairs.tsv:1"]),
], ids=lambda value: " ".join(value) if isinstance(value, list) else value)  # fmt: skip
def test_wrong_settings_are_refused_before_a_folder_is_made(
    weft: Weft, pairs: Path, arguments: list[str], said: list[str]
) -> None:
    refused(weft("train", pairs, "--out", "run", *arguments), *said)
    assert not Path("run").exists()


def test_a_model_that_no_memory_holds_is_refused_with_its_widths(weft: Weft, pairs: Path) -> None:
    done = weft("train", pairs, "--out", "run", "--steps", 2, "--set", "encoder.width=100000")
    refused(done, "GB of memory to train, but there are only ", "encoder.width=100000", "smaller widths", after_notes=6)
    assert weft("train", pairs, "--out", "run", "--steps", 2, *SMALL).code == 0  # the folder is free


def test_a_wrong_settings_file_is_refused_as_its_own(weft: Weft, pairs: Path) -> None:
    done = weft("train", pairs, "--config", put("a.yaml", "decoder: {cell: lsmt}\n"))
    refused(done, "decoder.cell: 'lsmt' is not known", "(from file)")
    refused(weft("train", pairs, "--config", put("b.yaml", "a: [")), "not valid YAML", "b.yaml")


def test_a_train_branch_that_is_no_branch_is_refused(weft: Weft, pairs: Path) -> None:
    refused(weft("train", pairs, "--out", "run", "--set", "train=5"), "train must be ", "but it is 5", "(from flag)")
    assert not Path("run").exists()


def test_settings_that_take_the_length_of_training_away_are_refused(weft: Weft, pairs: Path) -> None:
    config = put("a.yaml", "train: {steps: 2}\n")
    done = weft("train", pairs, "--out", "run", "--config", config, *SMALL, "--set", "train.steps=null")
    refused(
        done,
        "the settings do not say how long to train",
        "settings train\n",
        "give --budget 10m, --steps N or --epochs N",
    )
    assert not Path("run").exists()


def test_how_long_the_command_says_goes_before_a_settings_file(weft: Weft, pairs: Path) -> None:
    config = put("a.yaml", "train: {budget_seconds: 600}\n")
    done = weft("train", pairs, "--out", "run", "--config", config, *SMALL, "--steps", 2)
    assert done.code == 0, done.err
    shown = weft("config", "show", "run")
    assert row_of(shown, "train.steps")[:2] == ["2", "flag"]
    assert row_of(shown, "train.budget_seconds")[1] == "default"


def test_a_branch_left_blank_in_a_settings_file_says_nothing(weft: Weft, pairs: Path) -> None:
    blank = put("blank.yaml", "train:\ndecoder:\n")
    done = weft("train", pairs, "--out", "run", "--config", blank, "--steps", 2, *SMALL)
    assert done.code == 0, done.err


@pytest.mark.parametrize("key", ["encoder.heads=2", "decoder.kind=transformer"])
def test_what_the_autopilot_must_add_to_a_setting_is_not_asked_of_the_user(weft: Weft, pairs: Path, key: str) -> None:
    done = weft("train", pairs, "--out", "run", "--steps", 2, *SMALL, "--set", key)
    assert done.code == 0, done.err
    done = weft("train", "--out", "run", "--resume", "--set", key)
    assert done.code == 0, done.err


def test_a_setting_whose_value_is_not_yaml_is_refused(weft: Weft, pairs: Path) -> None:
    done = weft("train", pairs, "--out", "run", "--steps", 2, "--set", "train.rate=[1")
    refused(done, "'[1' is not a value", "--set train.rate=[1")
    assert not Path("run").exists()


def test_a_hold_out_of_nearly_everything_leaves_half_to_train_on(weft: Weft, pairs: Path) -> None:
    done = weft("train", pairs, "--set", "data.hold_out=0.99", "--steps", 2, *SMALL, "--out", "run")
    assert done.code == 0, done.err
    facts = json.loads(Path("run/data.json").read_text(encoding="utf-8"))
    assert (facts["training_pairs"], facts["valid_pairs"]) == (100, 100)


def test_few_pairs_are_trained_and_validated_on_with_a_note(weft: Weft) -> None:
    done = weft("train", put("few.tsv", GOOD * 2), "--steps", 2, *SMALL, "--out", "run")
    assert done.code == 0, done.err
    assert "note: only 10 pairs: nothing is held out, so the run is validated on its training pairs" in done.err
    assert "10 training pairs (none are held out)" in done.out
    card = Path("run/README.md").read_text(encoding="utf-8")
    assert "10 pairs of the training data: none are held out" in card
    assert "on 10 of 10 training pairs (there are too few to hold some out; expect worse scores on new data):" in card


def test_a_column_that_nobody_uses_is_told_once(weft: Weft) -> None:
    rows = "".join(f"{line}\tN\n" for line in GOOD.splitlines())
    done = weft("train", put("a.tsv", rows), "--valid", put("dev.tsv", rows), "--steps", 1, *SMALL, "--out", "run")
    assert done.code == 0, done.err
    assert done.err.count("; column 3 is not used") == 1
    assert "--features 3 or --tag 3" in done.err


# training: the output folder -----------------------------------------------------------------------------------------


def test_an_output_folder_that_holds_a_run_is_refused(weft: Weft, pairs: Path, tiny_run: Run) -> None:
    before = sorted(p.name for p in tiny_run.path.iterdir())
    refused(weft("train", pairs, "--out", tiny_run.path, "--steps", 2), "already holds a run", "--resume")
    assert sorted(p.name for p in tiny_run.path.iterdir()) == before


def test_an_output_folder_that_is_a_file_is_refused(weft: Weft, pairs: Path) -> None:
    refused(weft("train", pairs, "--out", put("out", "precious"), "--steps", 2), "the output folder is a file")
    assert Path("out").read_text() == "precious"


def test_an_output_folder_with_other_files_is_refused(weft: Weft, pairs: Path) -> None:
    Path("out").mkdir()
    put("out/thesis.tex", "precious")
    done = weft("train", pairs, "--out", "out", "--steps", 2)
    refused(done, "not empty (it holds thesis.tex)", "choose a new or empty folder")
    assert [p.name for p in Path("out").iterdir()] == ["thesis.tex"]


def test_an_output_folder_below_a_file_is_refused(weft: Weft, pairs: Path) -> None:
    put("file", "x")
    refused(weft("train", pairs, "--out", "file/run", "--steps", 2), "cannot be used: Not a directory", "file/run")


def test_an_output_folder_where_nothing_can_be_made_is_refused(weft: Weft, pairs: Path) -> None:
    done = weft("train", pairs, "--out", "/proc/no-such/run", "--steps", 2, *SMALL)
    assert (done.code, done.out) == (2, "")
    assert "error: the output folder cannot be used: " in done.err
    assert "  where: /proc/no-such/run" in done.err


# training: what is said ----------------------------------------------------------------------------------------------


def test_training_ends_with_a_summary_on_stdout_and_the_rest_on_stderr(weft: Weft, pairs: Path) -> None:
    text = pairs.read_text(encoding="utf-8")
    pairs.write_text("word\tpronunciation\n" + text + "broken\n", encoding="utf-8")
    put("dev.tsv", "".join(text.splitlines(keepends=True)[:3]) + "new\twen\n")
    done = weft("train", pairs, "--valid", "dev.tsv", "--on-bad-line", "skip", "--out", "run", "--steps", 2, *SMALL)
    assert done.code == 0
    for said in ("exact", "loss", "4 validation pairs", "parameters", "run/README.md", "run/curves.png"):
        assert said in done.out
    assert "next:  weft predict run FILE" in done.out
    assert f"note: bad training rows left out: 1; the first is {pairs}:202: this row has 1 column" in done.err
    assert f"note: {pairs}: source is column 1, word (" in done.err
    assert f"{pairs}:1: the first line (word, pronunciation) is taken as the header; if it is data" in done.err
    assert "note: 3 of 4 validation pairs are also training pairs: scores will be optimistic" in done.err
    assert "note: chose source.tokens = characters: " in done.err
    assert "validation at step" in done.err
    folder = {p.name for p in Path("run").iterdir()}
    assert folder >= {"spec.yaml", "source.json", "target.json", "log.jsonl", "checkpoints", "best", "last"}
    assert folder >= {"README.md", "curves.png"}
    assert "weft train" in Path("run/README.md").read_text(encoding="utf-8")


def test_a_header_that_says_source_and_target_is_taken_as_one(weft: Weft) -> None:
    done = weft("data", put("a.tsv", f"source\ttarget\n{GOOD}"))
    assert "note: a.tsv:1: the first line (source, target) is taken as the header; if it is data, add" in done.err
    assert done.lines[0] == "5 good rows, 0 bad rows, 0 blank lines"


# resuming ------------------------------------------------------------------------------------------------------------


def test_resuming_a_finished_run_shows_it_again_and_changes_no_weights(weft: Weft, copied: Path) -> None:
    weights = (copied / "best" / "weights.safetensors").read_bytes()
    done = weft("train", "--out", copied, "--resume")
    assert done.code == 0
    assert "next:  weft predict" in done.out
    assert (copied / "best" / "weights.safetensors").read_bytes() == weights


def test_resuming_with_a_changed_setting_is_refused_with_the_difference(weft: Weft, copied: Path) -> None:
    done = weft("train", "--out", copied, "--resume", "--set", "train.rate=0.5", "--seed", 7)
    refused(done, "train.rate: 0.002 → 0.5", "train.seed: 1 → 7", "spec.yaml", "leave them out to resume")


def test_resuming_with_the_same_settings_file_is_not_refused(weft: Weft, copied: Path) -> None:
    done = weft("train", "--out", copied, "--resume", "--config", put("a.yaml", "train: {rate: 2e-3}\n"))
    assert done.code == 0, done.err


def test_resuming_with_a_misspelt_setting_is_told_so(weft: Weft, copied: Path) -> None:
    done = weft("train", "--out", copied, "--resume", "--set", "decoder.cel=gru")
    refused(done, "decoder.cel: there is no such setting", "did you mean 'cell'?")


def test_resuming_with_another_family_is_refused_with_the_difference(weft: Weft, copied: Path) -> None:
    done = weft("train", "--out", copied, "--resume", "--set", "decoder.heads=2")
    refused(done, "decoder.kind: recurrent → transformer", "leave them out to resume")


def test_resuming_with_changed_data_is_refused_with_the_difference(weft: Weft, copied: Path) -> None:
    done = weft("train", put("other.tsv", GOOD * 4), "--out", copied, "--resume")
    refused(
        done,
        "the data differ from those that the run was started with",
        "fingerprint: ",
        " → ",
        "other.tsv",
        "pairs.tsv",
    )


@pytest.mark.parametrize("content", [None, "{", "[]", '{"pairs": []}', b"\xff"], ids=str)
def test_resuming_without_the_facts_about_the_data_is_refused(
    weft: Weft, copied: Path, content: str | bytes | None
) -> None:
    (copied / "data.json").unlink() if content is None else put(str(copied / "data.json"), content)
    done = weft("train", "--out", copied, "--resume")
    refused(done, "the facts about the data of this run cannot be read: ", "data.json", "restore the file")


@pytest.mark.parametrize("arguments", [["--resume"], []])
def test_a_run_whose_settings_are_gone_is_not_taken_for_a_new_one(
    weft: Weft, copied: Path, pairs: Path, arguments: list[str]
) -> None:
    (copied / "spec.yaml").unlink()
    for given in ([pairs], []):
        done = weft("train", *given, "--out", copied, *arguments)
        refused(done, "this folder holds a run whose spec.yaml is missing", "restore spec.yaml from a copy")


@pytest.mark.parametrize("content", ["a: [", "a: 2024-99-99", b"\xff"], ids=str)
def test_resuming_with_damaged_settings_is_refused(weft: Weft, copied: Path, content: str | bytes) -> None:
    put(str(copied / "spec.yaml"), content)
    (copied / "manifest.json").unlink()
    done = weft("train", "--out", copied, "--resume")
    refused(done, "the settings of this run cannot be read: ", "spec.yaml", "restore the file")


def test_the_last_of_several_runs_is_resumed_where_none_is_named(weft: Weft, pairs: Path) -> None:
    for _ in range(2):
        assert weft("train", pairs, "--steps", 2, *SMALL).code == 0
    first, second = Path(f"{pairs.stem}-run"), Path(f"{pairs.stem}-run-2")
    before = (first / "log.jsonl").stat().st_mtime_ns
    (second / "best").unlink()
    assert weft("train", pairs, "--steps", 2, "--resume", *SMALL).code == 0
    assert (first / "log.jsonl").stat().st_mtime_ns == before
    assert not Path(f"{pairs.stem}-run-3").exists()


def test_a_run_whose_pairs_came_from_a_pipe_asks_for_them_again(weft: Weft) -> None:
    lines = GOOD * 4
    assert weft("train", "-", "--out", "run", "--steps", 2, *SMALL, stdin=lines).code == 0
    refused(weft("train", "--out", "run", "--resume"), "came from stdin", "weft train - --out run --resume")
    done = weft("train", "-", "--out", "run", "--resume", stdin=lines)
    assert done.code == 0, done.err


def test_several_models_learn_from_pairs_that_are_piped_in(weft: Weft) -> None:
    settings = [*SMALL, "--set", "train.members=2", "--set", "train.side_by_side=2"]
    done = weft("train", "-", "--out", "run", "--steps", 2, *settings, stdin=GOOD * 12)
    assert done.code == 0, done.err
    assert len(list(Path("run/members/2/checkpoints").iterdir())) > 0


def test_the_settings_of_a_finished_run_are_a_settings_file(weft: Weft, pairs: Path) -> None:
    assert weft("train", pairs, "--out", "run", "--steps", 2, *SMALL).code == 0
    done = weft("train", pairs, "--out", "other", "--config", "run/spec.yaml")
    assert done.code == 0, done.err


def test_a_run_on_other_pairs_than_its_settings_file_names_can_be_resumed(weft: Weft, pairs: Path) -> None:
    named = {"data": {"pairs": [os.path.abspath("theirs.tsv")], "valid": [os.path.abspath(put("dev.tsv", GOOD * 4))]}}
    config = put("a.yaml", yaml.safe_dump(named))
    assert weft("train", pairs, "--out", "run", "--config", config, "--steps", 2, *SMALL).code == 0
    done = weft("train", "--out", "run", "--resume")
    assert done.code == 0, done.err


def test_resuming_nothing_without_pairs_is_refused(weft: Weft) -> None:
    refused(weft("train", "--out", "nowhere", "--resume"), "there is no run to resume")


# predicting: refusals ------------------------------------------------------------------------------------------------


def test_predicting_with_a_missing_run_is_refused(weft: Weft) -> None:
    refused(weft("predict", "nowhere", stdin="abc\n"), "there is no such run folder", "nowhere")


def test_predicting_with_a_folder_that_is_no_run_is_refused(weft: Weft, tmp_path: Path) -> None:
    refused(weft("predict", tmp_path, stdin="abc\n"), "this is not a run folder: it has no spec.yaml", "weft train")


def test_a_run_of_a_newer_format_is_refused(weft: Weft, copied: Path) -> None:
    spec = yaml.safe_load((copied / "spec.yaml").read_text(encoding="utf-8"))
    (copied / "spec.yaml").write_text(yaml.safe_dump({**spec, "format": 99}), encoding="utf-8")
    (copied / "manifest.json").unlink()
    done = weft("predict", copied, stdin="abc\n")
    refused(done, "newer version of Weft (format 99; this version reads formats up to 2)", "spec.yaml", "update Weft")


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_damaged_best_checkpoint_is_told_and_another_one_predicts(weft: Weft, copied: Path) -> None:
    assert len(list((copied / "checkpoints").iterdir())) > 1
    damage(copied / "best" / "weights.safetensors")
    done = weft("predict", copied, stdin="abc\n")
    assert done.code == 0
    assert done.out.count("\n") == 1
    assert "is damaged: weights.safetensors does not match its checksum" in done.err
    assert "is used instead" in done.err


def test_a_run_whose_checkpoints_are_all_damaged_is_refused(weft: Weft, copied: Path) -> None:
    for path in (copied / "checkpoints").iterdir():
        (path / "weights.safetensors").write_bytes((path / "weights.safetensors").read_bytes()[:100])
    refused(weft("predict", copied, stdin="abc\n"), "every checkpoint of this run is damaged", "checkpoints")


def test_a_run_without_a_tokeniser_is_refused(weft: Weft, copied: Path) -> None:
    (copied / "target.json").unlink()
    refused(weft("predict", copied, stdin="abc\n"), "target.json is missing from this run", "target.json")


@pytest.mark.parametrize("name", ["source.json", "target.json"])
def test_a_tokeniser_that_was_changed_is_refused(weft: Weft, copied: Path, name: str) -> None:
    path = copied / name
    path.write_text(path.read_text(encoding="utf-8").replace('"a"', '"z"'), encoding="utf-8")
    refused(weft("predict", copied, stdin="abc\n"), "its checksum does not match", name, "restore the file")
    refused(weft("train", "--out", copied, "--resume"), "its checksum does not match", name)


@pytest.mark.parametrize("facts", ["without sums", "none"])
def test_a_run_without_sums_of_its_tokenisers_predicts_all_the_same(weft: Weft, copied: Path, facts: str) -> None:
    path = copied / "data.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert "sums" not in content  # which earlier versions wrote, and the last of them no more
    (copied / "manifest.json").unlink()
    path.unlink() if facts == "none" else put(str(path), json.dumps(content))
    assert weft("predict", copied, stdin="abc\n").code == 0
    put(str(copied / "source.json"), b"\xff")
    refused(weft("predict", copied, stdin="abc\n"), "not a tokeniser that Weft wrote", "source.json")


@pytest.mark.parametrize(("arguments", "said"), [
    (["--nbest", "3"], ["--format text prints only one output per line", "--format tsv or --format jsonl"]),
    (["--beam", "3", "--greedy"], ["--beam and --greedy exclude each other", "keep one"]),
    (["--sample", "--greedy"], ["--greedy and --sample exclude each other"]),
    (["--temperature", "0.5"], ["--temperature has an effect only with --sample", "add --sample"]),
    (["--top-k", "5"], ["--top-k has an effect only with --sample"]),
    (["--seed", "5", "--greedy"], ["--seed has an effect only with --sample"]),
    (["no-such-file.txt"], ["there is no such file", "no-such-file.txt"]),
], ids=lambda value: " ".join(value))  # fmt: skip
def test_wrong_ways_to_predict_are_refused(weft: Weft, tiny_run: Run, arguments: list[str], said: list[str]) -> None:
    refused(weft("predict", tiny_run.path, *arguments, stdin="abc\n"), *said)


@pytest.mark.parametrize(("arguments", "key", "values"), [
    (["--beam", "0"], "width", "a whole number from 1 to 1,000"), (["--beam", "-1"], "width", "a whole number"),
    (["--beam", "5000"], "width", "a whole number from 1 to 1,000"),
    (["--sample", "--temperature", "0"], "temperature", "a number from 0.001 to 1,000"),
    (["--sample", "--top-p", "2"], "top_p", "a number greater than 0 and at most 1"),
    (["--sample", "--top-k", "-1"], "top_k", "a whole number from 0"),
    (["--sample", "--seed", "-1"], "seed", "a whole"),
    (["--length", "0"], "length", "a whole number from 1 to 1,000,000"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else value)  # fmt: skip
def test_impossible_searches_are_refused_by_flag_on_the_command_line_and_by_setting_in_python(
    weft: Weft, tiny_run: Run, arguments: list[str], key: str, values: str
) -> None:
    flag, value = arguments[-2:]
    done = weft("predict", tiny_run.path, *arguments, stdin="abc\n")
    refused(done, f"error: {flag} must be ", f"but it is {value}", f"where: {flag}\n", f"give {flag} {values}")
    with pytest.raises(UserError, match=f"search.{key} must be ") as caught:
        tiny_run.predict(["abc"], search={"kind": "sample", key: float(value)})
    assert caught.value.where == f"setting search.{key}"
    assert "--" not in str(caught.value)


def test_wrong_arguments_are_told_as_arguments_in_python_and_as_flags_on_the_command_line(
    weft: Weft, tiny_run: Run
) -> None:
    wrong: list[tuple[str, object]] = [("prefix", "Ж"), ("engine", "gpu"), ("engine", "ctranslate2")]
    for name, value in wrong:
        with pytest.raises(UserError) as caught:
            tiny_run.predict(["abc"], **{name: value})
        assert caught.value.where.partition("=")[0] == name
        assert "--" not in str(caught.value)
        done = weft("predict", tiny_run.path, f"--{name}", value, stdin="abc\n")
        refused(done, caught.value.what, f"where: --{name}", caught.value.todo)


@pytest.mark.parametrize(("bad", "said"), [
    (b"\xff", "is not UTF-8"), (b"x" * 20_001, "20,001 characters, but the limit is 20,000"),
], ids=["not UTF-8", "too long"])  # fmt: skip
def test_a_line_that_cannot_be_read_is_refused_after_the_outputs_of_those_before_it(
    weft: Weft, tiny_run: Run, bad: bytes, said: str
) -> None:
    done = weft("predict", tiny_run.path, stdin=b"abcd\n\ndcba\n" + bad + b"\nabcd\n")
    refused(done, said, "<stdin>:4", after_lines=3)
    assert done.lines == [p.text for p in tiny_run.predict(["abcd", "", "dcba"])]


@pytest.mark.parametrize("prefix", ["Ж", "abЖ"])
def test_a_prefix_that_the_model_cannot_write_is_refused(weft: Weft, tiny_run: Run, prefix: str) -> None:
    done = weft("predict", tiny_run.path, "--prefix", prefix, stdin="abc\n")
    refused(
        done, f"the prefix '{prefix}' has tokens that never occur in the training targets", "--prefix", "target.json"
    )


@pytest.mark.parametrize("said_by", ["flag", "run"])
def test_more_outputs_than_greedy_search_has_are_refused(weft: Weft, copied: Path, said_by: str) -> None:
    flags = ["--greedy"]
    if said_by == "run":
        flags = []
        spec = yaml.safe_load((copied / "spec.yaml").read_text(encoding="utf-8"))
        spec["search"]["kind"] = "greedy"
        (copied / "spec.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
        (copied / "manifest.json").unlink()
    done = weft("predict", copied, *flags, "--nbest", 3, "--format", "tsv", stdin="abc\n")
    refused(done, "greedy search finds only one output", "--nbest 3", "use beam search or sampling")


# predicting ----------------------------------------------------------------------------------------------------------

INPUT = ["abcd", "", "hgfedcba", "Жλ日👍", "abcdefgh" * 10, "   ", "dcba", "abcd"]


def predicted(weft: Weft, run: Run, *arguments: object, lines: list[str] = INPUT) -> list[str]:
    done = weft("predict", run.path, *arguments, stdin="".join(f"{line}\n" for line in lines))
    unknown = "note: 4% of the characters of the input never occur in the training sources" if "Жλ日👍" in lines else ""
    assert (done.code, done.err.partition(",")[0]) == (0, unknown)
    assert done.err.count("\n") == bool(unknown)
    return done.lines


def test_there_is_one_output_line_for_each_input_line(weft: Weft, tiny_run: Run) -> None:
    outputs = predicted(weft, tiny_run)
    assert len(outputs) == len(INPUT)
    assert outputs[1] == outputs[5] == ""  # nothing in, nothing out
    assert outputs[0] == outputs[7]
    assert any(outputs)
    assert outputs == [prediction.text for prediction in tiny_run.predict(INPUT)]


def test_outputs_are_in_the_order_of_the_inputs(weft: Weft, tiny_run: Run) -> None:
    assert predicted(weft, tiny_run, lines=INPUT[::-1]) == predicted(weft, tiny_run)[::-1]


def test_a_file_gives_what_stdin_gives(weft: Weft, tiny_run: Run) -> None:
    put("in.txt", "\n".join(INPUT))  # no line end after the last line
    assert weft("predict", tiny_run.path, "in.txt").lines == predicted(weft, tiny_run)


def test_no_input_gives_no_output(weft: Weft, tiny_run: Run) -> None:
    assert weft("predict", tiny_run.path, stdin="") == Done(0, "", "")


def test_tsv_has_source_output_and_score_in_order(weft: Weft, tiny_run: Run) -> None:
    rows = [line.split("\t") for line in predicted(weft, tiny_run, "--format", "tsv")]
    assert [row[0] for row in rows] == INPUT
    assert [row[1] for row in rows] == predicted(weft, tiny_run)
    assert all(float(row[2]) <= 0 for row in rows)


def test_a_tab_inside_a_source_does_not_add_a_column_to_tsv(weft: Weft, tiny_run: Run) -> None:
    _, line = predicted(weft, tiny_run, "--format", "tsv", lines=["abcd", "ab\tcd"])
    assert line.split("\t")[0] == "ab\\tcd"
    assert line.count("\t") == 2


def test_a_header_is_noted_before_the_outputs_are_written(
    weft: Weft, tiny_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    monkeypatch.setattr("weft.cli.common.complain", lambda text, label="error": events.append(f"{label}: {text}"))
    monkeypatch.setattr("weft.cli.common.write_line", events.append)
    assert weft("predict", tiny_run.path, put("a.tsv", f"source\ttarget\n{GOOD}")).code == 0
    assert events[0].startswith("note: a.tsv:1: the first line (source, target) is taken as the header")
    assert len(events) == 6


def test_nothing_to_predict_is_told(weft: Weft, tiny_run: Run) -> None:
    done = weft("predict", tiny_run.path, put("in.txt", ""))
    assert (done.code, done.out, done.err) == (0, "", "note: there is no line to predict\n")


def test_an_input_that_is_not_there_is_told_before_a_model_is_loaded(weft: Weft, tmp_path: Path) -> None:
    refused(weft("predict", tmp_path / "no-run", "no-file.txt"), "no-file.txt")


TABS = "note: every line has a tab, but no source in training had one: "


@pytest.mark.parametrize("given", ["stdin", "in.txt"])
def test_pairs_in_the_place_of_sources_are_told_and_answered_line_by_line(
    weft: Weft, tiny_run: Run, given: str
) -> None:
    lines = "abcd\tdcba\n\nabc\tcba\n"
    done = weft("predict", tiny_run.path, *([put("in.txt", lines)] if given == "in.txt" else []), stdin=lines)
    assert (done.code, len(done.lines), done.err.count("\n")) == (0, 3, 1)
    assert done.err.startswith(TABS)
    assert "`cut -f1`" in done.err


def test_a_tab_that_is_no_surprise_is_not_told(weft: Weft, tiny_run: Run, copied: Path) -> None:
    assert weft("predict", tiny_run.path, stdin="a\tb\nabc\n").err == ""  # not every line
    assert weft("predict", tiny_run.path, put("in.tsv", "a\tb\n")).err == ""  # read by its columns
    assert weft("predict", tiny_run.path, put("in.jsonl", '{"source": "a\\tb"}\n')).err == ""
    facts = json.loads((copied / "data.json").read_text(encoding="utf-8"))
    assert facts["source_tabs"] is False
    put(str(copied / "data.json"), json.dumps({**facts, "source_tabs": True}))
    (copied / "manifest.json").unlink()
    assert weft("predict", copied, stdin="a\tb\n").err == ""


def test_tags_and_features_that_training_never_saw_are_told_once_with_their_number(weft: Weft) -> None:
    rows = "".join(f"{line}\tfr\tV;PST\n" for line in GOOD.splitlines())
    done = weft("train", put("a.tsv", rows), "--tag", 3, "--features", 4, "--steps", 1, *SMALL, "--out", "run")
    assert done.code == 0, done.err
    assert weft("predict", "run", stdin="abc\tfr\tV;PST\n").err == ""
    done = weft("predict", "run", stdin="abc\tfr\tV;FUT\n\nabc\tit\tV;FUT\n")
    assert (done.code, len(done.lines)) == (0, 3)
    assert done.err == "note: 2 tags and features did not occur in training: <+FUT> <it>\n"
    done = weft("predict", "run", stdin="".join(f"abc\tx{n}\tV\n" for n in range(7)) + "broken\n")
    note = "note: 7 tags and features did not occur in training: <x0> <x1> <x2> <x3> <x4> …\n"
    refused(done, note, "this line has no tag", after_lines=7, after_notes=1)
    done = weft("evaluate", "run", put("b.tsv", "abc\tcba\tit\tV\n"))
    assert done.err == "note: 1 tag or feature did not occur in training: <it>\n"


def test_jsonl_has_every_line_with_the_scores_of_its_tokens(weft: Weft, tiny_run: Run) -> None:
    rows = [json.loads(line) for line in predicted(weft, tiny_run, "--format", "jsonl")]
    assert [row["line"] for row in rows] == list(range(1, len(INPUT) + 1))
    assert [row["source"] for row in rows] == INPUT
    assert [row["prediction"] for row in rows] == predicted(weft, tiny_run)
    assert any(row["prediction"] for row in rows)
    for row in rows:
        best = row["outputs"][0]
        assert best["text"] == row["prediction"]
        if row["prediction"]:
            assert "".join(name for name, _ in best["tokens"][:-1]) == best["text"]
            assert best["tokens"][-1][0] == "<end>"
            assert sum(score for _, score in best["tokens"]) == pytest.approx(best["log_prob"], abs=1e-3)


def test_nbest_gives_that_many_different_outputs_the_best_first(weft: Weft, tiny_run: Run) -> None:
    arguments = ["--nbest", 3, "--beam", 4]
    rows = [
        line.split("\t") for line in predicted(weft, tiny_run, *arguments, "--format", "tsv", lines=["abcd", "dcba"])
    ]
    assert [row[0] for row in rows] == ["abcd"] * 3 + ["dcba"] * 3
    for group in (rows[:3], rows[3:]):
        scores = [float(row[2]) for row in group]
        assert scores == sorted(scores, reverse=True)
        assert len({row[1] for row in group}) == 3
    (record,) = predicted(weft, tiny_run, *arguments, "--format", "jsonl", lines=["abcd"])
    assert [o["text"] for o in json.loads(record)["outputs"]] == [row[1] for row in rows[:3]]


def test_a_beam_of_one_says_what_greedy_says(weft: Weft, tiny_run: Run) -> None:
    assert predicted(weft, tiny_run, "--beam", 1) == predicted(weft, tiny_run, "--greedy")


def test_sampling_is_repeated_by_its_seed(weft: Weft, tiny_run: Run) -> None:
    first = predicted(weft, tiny_run, "--sample", "--seed", 3)
    assert predicted(weft, tiny_run, "--sample", "--seed", 3) == first
    assert predicted(weft, tiny_run, "--sample", "--seed", 4) != first


def test_sampling_from_one_symbol_is_greedy(weft: Weft, tiny_run: Run) -> None:
    assert predicted(weft, tiny_run, "--sample", "--top-k", 1) == predicted(weft, tiny_run, "--greedy")


@pytest.mark.parametrize("search", [["--beam", 3], ["--greedy"], ["--sample"]], ids=lambda s: str(s[0]))
def test_every_output_begins_with_the_prefix(weft: Weft, tiny_run: Run, search: list[object]) -> None:
    outputs = predicted(weft, tiny_run, *search, "--prefix", "gag")
    assert [output[:3] for output in outputs] == ["gag" if line.strip() else "" for line in INPUT]


def test_a_prediction_goes_through_a_real_pipe(tiny_run: Run, tmp_path: Path) -> None:
    """The one test of the program as a process of its own: its exit code and its streams."""
    put(str(tmp_path / "in.txt"), "abcd\n\ndcba\n")
    command = [sys.executable, "-m", "weft", "predict", str(tiny_run.path), str(tmp_path / "in.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 3)
    assert done.stdout.splitlines() == [p.text for p in tiny_run.predict(["abcd", "", "dcba"])]


def test_a_reader_that_goes_away_is_no_failure(tiny_run: Run, tmp_path: Path) -> None:
    """`weft predict … | head`"""
    put(str(tmp_path / "in.txt"), "abcd\n" * 9000)
    command = [sys.executable, "-m", "weft", "predict", str(tiny_run.path), str(tmp_path / "in.txt"), "--greedy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait() == 0


# evaluating ----------------------------------------------------------------------------------------------------------


def test_evaluate_json_is_one_object_with_every_metric(weft: Weft, tiny_run: Run, pairs: Path) -> None:
    done = weft("evaluate", tiny_run.path, pairs, "--json", "--greedy")
    assert (done.code, done.err, len(done.lines)) == (0, "", 1)
    found = json.loads(done.out)
    assert found["n"] == 200
    assert all(0 <= found[name] <= 100 for name in ("exact", "bleu", "chrf"))
    assert min(found["cer"], found["token_error_rate"], found["loss"]) > 0
    assert "against" not in found
    assert found["signatures"]["bleu"].startswith("nrefs:1|case:mixed")


def test_evaluate_against_another_run_adds_a_paired_bootstrap(weft: Weft, tiny_run: Run) -> None:
    put("some.tsv", GOOD)
    done = weft("evaluate", tiny_run.path, "some.tsv", "--greedy", "--json", "--against", tiny_run.path)
    against = json.loads(done.out)["against"]
    assert set(against) == {"exact", "cer", "token_error_rate", "ter", "bleu", "chrf", "rouge1", "rouge2", "rougeL"}
    for found in against.values():
        assert found["difference"] == 0
        assert found["low"] <= 0 <= found["high"]
        assert found["p"] > 0.05
    shown = weft("evaluate", tiny_run.path, "some.tsv", "--greedy", "--against", tiny_run.path)
    assert "paired bootstrap" in shown.out
    assert "95 % interval" in shown.out


def test_evaluate_shows_a_table_for_people(weft: Weft, tiny_run: Run) -> None:
    done = weft("evaluate", tiny_run.path, put("some.tsv", GOOD))
    assert done.code == 0
    assert all(name in done.out for name in ("5 pairs", "exact", "cer", "token_error_rate", "chrf", "loss", "nrefs:1"))


@pytest.mark.parametrize("arguments", [
    lambda run, bad: ["--on-bad-line", "skip", "evaluate", run, bad, "--json"],
    lambda run, bad: ["evaluate", run, "--on-bad-line=skip", bad, "--json"],
    lambda run, bad: ["evaluate", run, bad, "--json", "--on-bad-line", "skip"],
], ids=["before", "between", "after"])  # fmt: skip
def test_skipping_bad_lines_may_be_asked_for_anywhere(
    weft: Weft, tiny_run: Run, arguments: Callable[[Path, str], list[object]]
) -> None:
    bad = put("bad.tsv", f"{GOOD}xyz\n{GOOD}\t\n")
    refused(weft("evaluate", tiny_run.path, bad, "--json"), "bad.tsv:6")
    done = weft(*arguments(tiny_run.path, bad))
    assert done.code == 0
    assert done.err.startswith("note: bad rows left out: 2; the first is bad.tsv:6: ")
    assert (json.loads(done.out)["n"], json.loads(done.out)["skipped"]) == (10, 2)
    refused(weft("evaluate", tiny_run.path, bad, "--json"), "bad.tsv:6")  # and it is forgotten again


def test_evaluate_refuses_what_it_cannot_use(weft: Weft, tiny_run: Run) -> None:
    refused(weft("evaluate", tiny_run.path, "no.tsv"), "there is no such file")
    refused(weft("evaluate", "nowhere", put("some.tsv", GOOD)), "there is no such run folder")
    refused(
        weft("evaluate", tiny_run.path, "some.tsv", "--against", "nowhere"), "there is no such run folder", "nowhere"
    )
    refused(weft("evaluate", tiny_run.path, "some.tsv", "--source", 7), "the source should be in column 7")


def test_evaluate_refuses_beam_and_greedy_together(weft: Weft, tiny_run: Run) -> None:
    refused(weft("evaluate", tiny_run.path, put("some.tsv", GOOD), "--beam", 2, "--greedy"), "exclude each other")


# config --------------------------------------------------------------------------------------------------------------


def row_of(done: Done, key: str) -> list[str]:
    """value, origin and meaning of a setting that was shown; the meaning may go on below"""
    (number,) = [number for number, line in enumerate(done.lines) if line.split()[:1] == [key]]
    value, origin, _ = done.lines[number].split(maxsplit=3)[1:]
    column = next(line.index("meaning") for line in done.lines if "meaning" in line)
    rest = takewhile(lambda line: line.strip() and not line[:column].strip(), done.lines[number + 1 :])
    return [value, origin, " ".join(" ".join(line[column:] for line in [done.lines[number], *rest]).split())]


def test_config_show_has_every_setting_with_value_origin_and_meaning(weft: Weft) -> None:
    done = weft("config", "show", put("a.yaml", "decoder: {width: 64}\n"), "--set", "decoder.cell=gru")
    assert done.code == 0
    assert row_of(done, "decoder.cell")[:2] == ["gru", "flag"]
    assert row_of(done, "decoder.width")[:2] == ["64", "file"]
    value, origin, meaning = row_of(done, "encoder.cell")
    assert (value, origin) == ("lstm", "default")
    assert meaning.startswith("The recurrent cell (equations in nn/cells.py")


def test_config_show_lists_the_values_that_a_setting_may_have(weft: Weft) -> None:
    done = weft("config", "show")
    assert row_of(done, "data.on_bad_line")[2].endswith("(--on-bad-line). One of: stop, skip.")
    assert "One of: recurrent, transformer, none." in row_of(done, "encoder.kind")[2]
    assert "elman, lstm, " in row_of(done, "decoder.cell")[2]
    assert "One of" not in row_of(done, "encoder.width")[2]


def test_config_show_of_a_run_tells_what_the_autopilot_chose(weft: Weft, tiny_run: Run) -> None:
    done = weft("config", "show", tiny_run.path)
    assert row_of(done, "source.tokens")[:2] == ["characters", "autopilot"]
    assert row_of(done, "decoder.width")[:2] == ["32", "flag"]
    assert row_of(done, "train.steps")[:2] == ["12", "flag"]


def test_config_show_of_a_run_takes_settings_on_top(weft: Weft, tiny_run: Run) -> None:
    done = weft("config", "show", tiny_run.path, "--set", "decoder.cell=gru")
    assert row_of(done, "decoder.cell")[:2] == ["gru", "flag"]
    assert row_of(done, "source.tokens")[:2] == ["characters", "autopilot"]
    refused(weft("config", "show", tiny_run.path, "--set", "decoder.cell=gruu"), "did you mean 'gru'?")


def test_config_check_says_whether_a_file_is_right(weft: Weft) -> None:
    done = weft("config", "check", put("a.yaml", "decoder: {cell: gru}\n"))
    assert done == Done(0, "a.yaml: the settings are valid\n", "")
    refused(weft("config", "check", "a.yaml", "--set", "decoder.cell=gruu"), "did you mean 'gru'?", "(from flag)")
    refused(weft("config", "check", put("b.yaml", "decoder: {cel: gru}\n")), "did you mean 'cell'?", "(from file)")
    refused(weft("config", "check", "c.yaml"), "cannot read the settings file", "c.yaml")
    done = weft("config", "check", put("d.yaml", "embed: {positions: alibi}\n"))
    assert (
        done.out == "d.yaml: the settings are valid for a Transformer, which the autopilot chooses for running text\n"
    )
    refused(weft("config", "check", "d.yaml", "--set", "decoder.cell=gru", "--set", "encoder.cell=gru"), "alibi")


def test_what_the_command_says_of_bad_lines_goes_before_a_settings_file(weft: Weft) -> None:
    put("a.tsv", GOOD * 12 + "only one\n")
    command = ["train", "a.tsv", "--config", put("a.yaml", "data: {on_bad_line: skip}\n"), "--steps", 1]
    refused(weft(*command, "--on-bad-line", "stop"), "a.tsv:", "1 column")
    assert weft(*command, "--set", "encoder.width=16", "--set", "decoder.width=16").code == 0


def test_the_demo_touches_nothing_that_is_not_its_own(weft: Weft, tiny_run: Run, tmp_path: Path) -> None:
    Path("mine-data").mkdir()
    put("mine-data/train.tsv", "a\tb\n")
    refused(weft("demo", "--out", "mine"), "exists already", "mine-data", "choose another --out")
    shutil.copytree(tiny_run.path, "mine", symlinks=True)
    refused(weft("demo", "--out", "mine"), "exists already", "mine-data")
    assert Path("mine/best").exists()
    assert Path("mine-data/train.tsv").read_text() == "a\tb\n"


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo goes as far as its training, and says so."""

    def reached(*_: object, **__: object) -> None:
        raise UserError("training is reached", "here", "stop")

    monkeypatch.setattr(api, "train", reached)
    monkeypatch.setattr(demo, "PAIRS", 300)


def by_command(run: Path, out: str, command: str) -> Path:
    """A copy of the run, as if made by that command."""
    folder = RunFolder(shutil.copytree(run, out, symlinks=True))
    folder.write_facts({**folder.read_facts(), "command": command})
    folder.seal(["data.json"])
    return folder.path


@pytest.mark.usefixtures("no_training")
def test_the_demo_writes_over_dates_that_it_made_before(weft: Weft) -> None:
    for _ in range(2):
        assert "training is reached" in weft("demo", "--out", "mine").err
        assert "demo" in Path("mine-data/about.txt").read_text(encoding="utf-8")
        assert len(Path("mine-data/train.tsv").read_text(encoding="utf-8").splitlines()) > 200
        put("mine-data/train.tsv", "old\n")


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("command", ["weft demo --out mine", "weft --threads 1 demo --out mine", "weft demo"])
def test_the_demo_makes_its_own_run_anew_however_it_was_called(weft: Weft, tiny_run: Run, command: str) -> None:
    by_command(tiny_run.path, "mine", command)
    assert "training is reached" in weft("demo", "--out", "mine").err
    assert not Path("mine/best").exists()


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("command", ["weft train demo.tsv --out mine", "weft train words.tsv --out demo"])
def test_the_demo_leaves_runs_of_other_commands_alone(weft: Weft, tiny_run: Run, command: str) -> None:
    out = command.split()[-1]
    by_command(tiny_run.path, out, command)
    refused(weft("demo", "--out", out), "holds a run", out)
    assert Path(out, "best").exists()


@pytest.mark.usefixtures("no_training")
def test_a_demo_that_is_refused_has_removed_nothing(weft: Weft, tiny_run: Run) -> None:
    by_command(tiny_run.path, "mine", "weft demo --out mine")
    Path("mine-data").mkdir()
    refused(weft("demo", "--out", "mine"), "exists already", "mine-data", "choose another --out")
    assert Path("mine/best").exists()


def test_the_spec_of_a_run_is_a_settings_file(weft: Weft, tiny_run: Run) -> None:
    assert weft("config", "check", tiny_run.path / "spec.yaml").code == 0
    assert row_of(weft("config", "show", tiny_run.path / "spec.yaml"), "decoder.width")[:2] == ["32", "file"]


# data ----------------------------------------------------------------------------------------------------------------


def test_data_shows_what_training_would_see(weft: Weft) -> None:
    rows = "".join(f"{word}\t{word[::-1]}\t{tag}\n" for word, tag in zip(GOOD.split()[::2] * 4, ["N", "V;PST"] * 10))
    put("dev.tsv", rows.splitlines(keepends=True)[0] + "new\twen\tN\n")
    done = weft("data", put("a.tsv", f"{rows}\nonly one\nx\t\tN\n"), "--valid", "dev.tsv", "--features", 3)
    assert done.code == 0
    assert done.lines[0] == "20 good rows, 2 bad rows, 1 blank line"
    assert done.lines[1].startswith("  a.tsv:22: this row has 1 column")
    assert done.lines[2] == "  a.tsv:23: the target is empty"
    assert done.lines[3] == "  training stops at the first bad row; with --on-bad-line skip, it leaves bad rows out"
    for said in (
        "20 pairs (lengths in characters)",
        "mean length",
        "distinct characters",
        "tags and features: 3: <+N> <+PST> <+V>",
        "% of the target's characters occur in the sources: ",
        "  a.tsv: source is column 1 ('abc'), target is column 2 ('cba'), features is column 3 ('N')",
        "dev.tsv: 2 validation pairs, 1 of them also in the training data.",
        "choices for these data",
        "source tokens (characters)",
    ):
        assert said in done.out
    assert sum("→" in line for line in done.lines) == 5
    assert "  <+N> a b c  →  c b a" in done.lines


def test_data_refuses_what_training_would_refuse(weft: Weft) -> None:
    refused(weft("data", "no.tsv"), "there is no such file")
    refused(weft("data", put("a.tsv", "")), "the file is empty")
    refused(weft("data", put("b.tsv", "abc\nbcd\n")), "only one column")


def test_data_is_whole_on_a_terminal_of_eighty_columns(tmp_path: Path) -> None:
    alphabet = "".join(chr(0x4E00 + n) for n in range(30))  # each as wide as two letters
    put(str(tmp_path / "a.tsv"), "".join(f"{alphabet}\t{c}\n" for c in "abcdefghijklmnopqrstuvwxyz"))
    reading, terminal = pty.openpty()
    command = [sys.executable, "-m", "weft", "data", str(tmp_path / "a.tsv")]
    size = {"COLUMNS": "80", "TERM": "dumb"}
    with subprocess.Popen(command, stdout=terminal, stderr=terminal, env={**os.environ, **size}) as process:
        os.close(terminal)
        shown = b""
        while part := _read(reading):
            shown += part
    assert process.returncode == 0
    assert all(said in shown.decode() for said in ("distinct characters", "most frequent", "longest"))
    assert "…" not in shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other side is closed
        return b""


def test_data_shows_the_first_symbols_of_long_lines(weft: Weft) -> None:
    done = weft("data", put("a.tsv", "".join(f"x\t{n:03}{'ab' * 500}\n" for n in range(200))))
    assert any(line.startswith("  x  →  0 0 0 a b a b ") and line.endswith("…") for line in done.lines)
    assert max(map(len, done.lines)) < 300


@pytest.mark.parametrize("text", ["a [/b] c", "a [bold] c", ":cat: c"])
def test_data_shows_brackets_and_colons_as_they_are(weft: Weft, text: str) -> None:
    done = weft("data", put("a.tsv", f"{text}\tx\n" * 30))
    assert done.code == 0
    assert f"  {text}  →  x" in done.lines


# errors that are not the user's --------------------------------------------------------------------------------------


def test_an_error_of_weft_itself_exits_with_one_and_asks_for_a_report(
    weft: Weft, tiny_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("weft.predict.predictor.Predictor.predict", broken)
    done = weft("predict", tiny_run.path, stdin="abc\n")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: Weft failed: ZeroDivisionError: by nothing\n  where: ")
    assert "--debug" in done.err


def test_ctrl_c_is_not_an_error_and_ends_with_130(weft: Weft, tiny_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("weft.predict.predictor.Predictor.predict", interrupted)
    assert weft("predict", tiny_run.path, stdin="abc\n") == Done(130, "", "stopped by Ctrl-C\n")


def test_debug_shows_the_traceback(tiny_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["weft", "predict", "nowhere", "--debug"])
    with pytest.raises(Exception, match="there is no such run folder"):
        main()


def test_data_tells_of_a_side_that_is_always_the_same_and_of_lines_that_would_be_spelled(weft: Weft) -> None:
    same = weft("data", put("same.tsv", "".join(f"w{i}\tyes\n" for i in range(60))))
    assert "note: every target is the same text: is --target the right column?" in same.out
    draw = random.Random(1)
    lines = [" ".join("".join(draw.choices("abcdefghijklmno", k=6)) for _ in range(8)) for _ in range(400)]
    almost = weft("data", put("almost.tsv", "".join(f"{line}\t{line.capitalize()}.\n" for line in lines)))
    assert (
        "of a target is in its source (corrected for chance), so few characters change; with a --budget" in almost.out
    )


# what people saw from outside ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [(), *COMMANDS], ids=" ".join)
def test_help_shows_no_python_types(weft: Weft, command: tuple[str, ...]) -> None:
    assert not re.search(r"<(bool|str|path|list|int|float)\b", weft(*command, "--help").out)


def test_the_shell_completes_commands() -> None:
    script = "import sys; sys.argv[0] = 'weft'; from weft.cli.main import app; app()"
    words = {"_WEFT_COMPLETE": "complete_bash", "COMP_WORDS": "weft tr", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, **words}, capture_output=True, text=True)
    assert done.stdout.split() == ["train"], done.stderr
    assert done.returncode == 0


def test_a_single_row_is_counted_in_the_singular(weft: Weft) -> None:
    assert weft("data", put("a.tsv", "ab\tba\n")).lines[0] == "1 good row, 0 bad rows, 0 blank lines"


def test_tables_of_sentences_that_are_piped_fit_a_hundred_columns(weft: Weft, tiny_run: Run) -> None:
    for done in (weft("config", "show"), weft("config", "show", tiny_run.path), weft("recipe", "list")):
        assert max(len(line) for line in done.lines) <= 100


def test_an_unknown_setting_is_refused_before_data_are_read(weft: Weft) -> None:
    refused(weft("train", "no-such-file.tsv", "--set", "decoder.cel=gru"), "decoder.cel", "did you mean 'cell'?")


def test_a_signal_that_stopped_an_earlier_command_is_forgotten(
    weft: Weft, tiny_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_signal(signal.SIGTERM)
    test_ctrl_c_is_not_an_error_and_ends_with_130(weft, tiny_run, monkeypatch)
