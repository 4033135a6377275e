"""Limits: of the time that a line may take, of validation in a wall-clock budget, and what a signal ends."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from weft.core import stopping
from weft.core.errors import Interrupted, UserError
from weft.core.kinds import Column
from weft.core.pair import END
from weft.learn import affordable
from weft.learn.affordable import affordable_pairs
from weft.learn.signals import Signals
from weft.runs import train as training
from weft.runs.folder import RunFolder
from weft.runs.job import Job
from weft.runs.report import Quiet
from weft.search import ctc
from weft.search.clock import Clock
from weft.search.decode import SearchPlan, decode

SYMBOLS = 6


@dataclass(frozen=True)
class Written:
    """How many hypotheses there are."""

    count: int

    def select(self, rows: Tensor) -> Written:
        return Written(len(rows))


class Endless:
    """A model that never wants to end, and takes a hundredth of a second for every symbol."""

    def begin(self, source: Column, context: Column | None = None) -> Written:
        return Written(source.size)

    def advance(self, y: Tensor, state: Written) -> tuple[Tensor, Written]:
        time.sleep(0.01)
        logits = torch.zeros(len(y), SYMBOLS)
        logits[:, END] = -9.0
        return torch.log_softmax(logits, -1), state


# --- seconds a line


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
@pytest.mark.parametrize("nbest", [1, 2])
def test_when_the_time_is_over_the_best_so_far_is_written_and_said(kind: str, nbest: int) -> None:
    if kind == "greedy" and nbest > 1:
        return
    plan, began = SearchPlan(kind=kind, nbest=nbest, width=2, max_extra=100_000, seconds=0.1), time.monotonic()
    with pytest.warns(UserWarning, match="line 1: the search took more than search.seconds=0.1 a line, and the best"):
        (hypotheses,) = decode(Endless(), [[4, 5]], plan, torch.device("cpu"))
    assert time.monotonic() - began < 5
    assert len(hypotheses) == nbest
    assert 1 <= len(hypotheses[0].ids) < 100
    assert len(hypotheses[0].token_scores) == len(hypotheses[0].ids) + 1


@pytest.mark.filterwarnings("error")
def test_a_search_that_ends_in_time_says_nothing() -> None:
    plan = SearchPlan(kind="beam", width=2, max_ratio=1.0, max_extra=1, seconds=60)
    assert decode(Endless(), [[4, 5]], plan, torch.device("cpu"))[0]


def test_a_beam_of_frames_stops_when_the_time_is_over() -> None:
    frames = np.log(np.random.default_rng(1).dirichlet(np.ones(5), size=40))
    clock = Clock(1e-9)
    time.sleep(0.001)
    assert ctc.prefix_beam(frames, 3, clock)[0].ids == ()
    assert clock.rang
    assert ctc.prefix_beam(frames, 3)[0].ids != ()


def test_a_long_line_of_frames_is_scored_in_seconds() -> None:
    frames = np.log(np.random.default_rng(1).dirichlet(np.ones(5), size=1500))
    began = time.process_time()
    assert np.isfinite(ctc.scored(frames, tuple([1, 2, 3, 4] * 150)).score)
    assert time.process_time() - began < 5


def test_outputs_that_cannot_fit_into_memory_are_refused_before_the_search() -> None:
    plan = SearchPlan(kind="beam", width=1000, max_ratio=1000.0, symbol_bytes=10**9)
    with pytest.raises(UserError, match="1,000 hypotheses of up to 2,020 tokens may need") as caught:
        decode(Endless(), [[4], [4, 5]], plan, torch.device("cpu"))
    assert caught.value.where == "line 2 of the input"
    assert "--beam" in caught.value.todo


# --- validation that a budget can afford


class Pairs:
    """A validator of so many pairs."""

    def __init__(self, count: int) -> None:
        self.pairs = range(count)

    def part(self, count: int) -> Any:
        return Pairs(min(count, len(self.pairs)))


@pytest.mark.parametrize(
    ("each", "pairs", "wanted"),
    [(0.001, 1000, 1000), (0.01, 1000, 300), (1.0, 1000, 8), (0.1, 1000, 30), (9.0, 20, 20)],
    ids=["all", "a part", "no more than a sample", "between samples", "few pairs are not sampled"],
)
def test_a_budget_validates_on_as_many_pairs_as_there_is_time_for(
    monkeypatch: pytest.MonkeyPatch, each: float, pairs: int, wanted: int
) -> None:
    clock = [0.0]
    monkeypatch.setattr(affordable.time, "monotonic", lambda: clock[0])

    def evaluate(part: Any) -> Any:
        clock[0] += each * len(part.pairs)
        return f"of {len(part.pairs)}"

    count, evaluation = affordable_pairs(Pairs(pairs), evaluate, seconds=3.0)  # type: ignore[arg-type]
    assert count == pytest.approx(wanted, abs=1)
    assert evaluation == ("of 8" if wanted == 8 else None)


# --- signals


@pytest.fixture
def _handlers() -> Iterator[None]:
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = {kind: signal.getsignal(kind) for kind in kinds}
    hook = stopping.sys.unraisablehook
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job begins with it ignored
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    stopping.raise_on_signals()
    yield
    stopping.sys.unraisablehook = hook
    for kind, handler in before.items():
        signal.signal(kind, handler)


@pytest.mark.usefixtures("_handlers")
@pytest.mark.parametrize(("kind", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_both_signals_stop_a_command_and_are_named(kind: signal.Signals, name: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), kind)
    assert stopping.stopped_by() == name


class Dropped:
    """Is destroyed while a signal comes: Python drops what is raised there."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)


@pytest.mark.usefixtures("_handlers")
def test_a_signal_in_a_destructor_is_not_lost() -> None:
    def drop_and_wait() -> None:
        Dropped()
        gc.collect()
        time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        drop_and_wait()


def test_a_signal_that_comes_while_training_ends_is_still_known_afterwards() -> None:
    signals = Signals()
    with signals.caught():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signals.received


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ([], "before training began; no run was made"),
        (["spec.yaml"], "before the first step"),
        (["spec.yaml", "checkpoints/step-000003/progress.json"], "; everything is saved"),
    ],
)
def test_a_run_that_is_stopped_while_it_does_not_train_says_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], what: str
) -> None:
    def stopped(*_: object) -> None:
        for name in files:
            (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "run" / name).write_text("", encoding="utf-8")
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "_open", stopped)
    with pytest.raises(Interrupted) as caught:
        training.run_job(Job(pairs=("pairs.tsv",), out=tmp_path / "run"), Quiet())
    assert what in caught.value.what
    assert caught.value.where == str(RunFolder(tmp_path / "run").path)
    assert caught.value.todo
    assert caught.value.exit_code == 130


# --- outputs of a line


def test_a_line_has_at_most_a_thousand_outputs(tiny_run: Any) -> None:
    with pytest.raises(UserError, match="a line has at most 1,000 outputs") as caught:
        tiny_run.predict(["abc"], nbest=1001)
    assert (caught.value.where, caught.value.todo) == ("nbest=1001", "give 1000 or fewer")


@pytest.mark.parametrize("temperature", [1e-320, 0.0, 1e6])
def test_a_temperature_out_of_range_is_refused(tiny_run: Any, temperature: float) -> None:
    with pytest.raises(UserError, match=r"search.temperature must be .* but it is"):
        tiny_run.predict(["abc"], search={"kind": "sample", "temperature": temperature})
