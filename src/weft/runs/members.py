"""Several models of one run: the same settings with other seeds, which predict together.

The first is the run itself, the others are runs of their own in RUN/members/2, 3, … A small model gains nothing from a
second core, so models train side by side, each in its own process; the cores, and a budget of time, are shared out.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from weft.core.errors import WeftError
from weft.core.reporting import Example, Reporter
from weft.learn.world import World
from weft.runs.folder import RunFolder
from weft.runs.log import LogFile
from weft.spec import Spec

LAGS, LAGS_BY = 1.5, 0.05  # times the best model's loss, and nats a symbol above it: such a one only spoils the others
SEEDS_APART = 1000  # so that runs with neighbouring seeds share no model
PATIENCE = 120.0  # seconds that a process has to save itself when it is asked to stop


def side_by_side(spec: Spec, world: World) -> int:
    """How many models train at once: one a core, and one alone on a GPU or among torchrun's processes."""
    alone = world.size > 1 or world.device.type != "cpu"
    return 1 if alone else min(spec.train.members, torch.get_num_threads())


def spec_of(spec: Spec, number: int, at_once: int) -> Spec:
    """The settings of one model: its seed, its share of a budget of time, and which way it writes."""
    train = spec.train
    rounds = -(-train.members // at_once)
    seconds = None if train.budget_seconds is None else train.budget_seconds / rounds
    own = {"members": 1, "seed": train.seed + SEEDS_APART * (number - 1), "budget_seconds": seconds}
    turned = train.reversed_members and number % 2 == 0
    decoder = spec.decoder.model_copy(update={"reverse": not spec.backward}) if turned else spec.decoder
    one = train.model_copy(update={**own, "reversed_members": False})
    return spec.model_copy(update={"train": one, "decoder": decoder})


@dataclass(frozen=True)
class Share:
    """The models that one process trains, one after the other."""

    numbers: tuple[int, ...]
    threads: int


def shares(members: int, at_once: int) -> list[Share]:
    """The first share is for the process that speaks to the user."""
    threads = max(1, torch.get_num_threads() // at_once)
    return [Share(tuple(range(first, members + 1, at_once)), threads) for first in range(1, at_once + 1)]


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """So many inside, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Beside:
    """Processes that train the other shares meanwhile. They end with this one, however that ends, and save first."""

    def __init__(self, folder: RunFolder, others: Sequence[Share], pairs: Sequence[str]) -> None:
        self._folder, self._others, self._pairs = folder, others, pairs
        self._running: list[tuple[subprocess.Popen[str], Any]] = []

    def __enter__(self) -> Beside:
        for share in self._others:
            order = {"run": str(self._folder.path), "numbers": share.numbers, "pairs": list(self._pairs)}
            said = tempfile.TemporaryFile("w+", encoding="utf-8")  # read when the process ends
            process = subprocess.Popen(
                [sys.executable, "-m", "weft.runs.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": str(share.threads)},
                start_new_session=True,  # Ctrl-C reaches this process, which passes it on once
            )
            assert process.stdin is not None
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()  # and stays open: when it closes, this process is gone
            self._running.append((process, said))
        return self

    def wait(self) -> None:
        """Until all are done."""
        for process, said in self._running:
            if process.wait():
                said.seek(0)
                last = said.read().strip() or f"it ended with {process.returncode}"
                what = f"a model that was trained beside the first could not be finished: {last}"
                raise WeftError(what, str(self._folder.path / "members"), "go on with --resume")

    def __exit__(self, *problem: object) -> None:
        for process, _ in self._running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process, said in self._running:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()
            said.close()


def evaluations(folder: RunFolder) -> list[dict[str, Any]]:
    return [line for line in LogFile(folder.log).lines() if line["kind"] == "evaluation"]


def leave_out_those_behind(folder: RunFolder, members: int, note: Callable[[str], None]) -> None:
    """Models that have learned far less than the best, as where the machine became slow, do not predict with it."""
    losses = {number: _best_loss(folder.member(number)) for number in range(2, members + 1)}
    best = min(_best_loss(folder), *losses.values())
    for number, loss in losses.items():
        mark = folder.member(number).left_out
        if loss > LAGS * best and loss > best + LAGS_BY:
            reason = f"its validation loss is {loss:.3f}, the best model's {best:.3f}"
            folder.member(number).write(mark.name, f"{reason}\n")
            note(f"model {number} is left out of what predicts together: {reason}")
        else:
            mark.unlink(missing_ok=True)


def tell_of_those_astray(folder: RunFolder, members: int, note: Callable[[str], None]) -> None:
    for number in range(2, members + 1):
        if (path := folder.member(number).astray).exists():
            reason = path.read_text(encoding="utf-8").strip()
            note(f"model {number} went astray, and stays as it was at its best: {reason}")


def _best_loss(folder: RunFolder) -> float:
    """Of the weights that are kept; infinite where there are none."""
    kept = [line["loss"] for line in evaluations(folder) if line["best"] and line["loss"] is not None]
    return kept[-1] if kept else math.inf


class Among:
    """Tells of one model's training as a part of the whole run's."""

    def __init__(self, reporter: Reporter, done: int, rounds: int, seconds: float | None) -> None:
        self._reporter, self._done, self._rounds, self._seconds = reporter, done, rounds, seconds

    def note(self, text: str) -> None:
        self._reporter.note(text)

    def stage(self, doing: str, rows: int, share: float) -> None:
        self._reporter.stage(doing, rows, share)

    def report(self, line: dict[str, Any]) -> None:
        left = line["left"]
        if left is not None:
            later = self._rounds - self._done - 1
            left += later * (self._seconds or left / max(1e-9, 1 - line["share"]))
        share = (self._done + line["share"]) / self._rounds
        self._reporter.report({**line, "share": share, "left": left})

    def evaluation(self, line: dict[str, Any], examples: list[Example]) -> None:
        self._reporter.evaluation(line, examples)

    def close(self) -> None:
        self._reporter.close()
