"""Several models of one run: the same settings with other seeds, which predict together.

The first is the run itself, the others are runs of their own in RUN/members/2, 3, … A small model gains nothing from a
second core, so models train side by side, each in its own process; the cores, and a budget of time, are shared out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from weft.core.errors import Diverged
from weft.core.reporting import Example, Reporter
from weft.learn.loop import Trainer
from weft.learn.world import World
from weft.runs.fit import fit
from weft.runs.folder import RunFolder
from weft.runs.ready import Ready
from weft.runs.weights import newest_progress
from weft.spec import Spec

LAG_FACTOR, LAG_NATS = 1.5, 0.05  # a model whose loss is so many times, and so much, above the best one's is left out
SEED_STEP = 1000  # between the seeds of models, so that runs with neighbouring seeds share none
SAVE_SECONDS = 120.0  # that a process has to save itself when it is asked to stop


def with_side_by_side(spec: Spec, world: World) -> Spec:
    """Fix how many models train at once: one per core, and one on a GPU or among torchrun's processes."""
    alone = world.size > 1 or world.device.type != "cpu"
    train = spec.train
    count = 1 if alone else min(train.members, train.side_by_side or torch.get_num_threads())
    return spec.model_copy(update={"train": train.model_copy(update={"side_by_side": count})})


def member_spec(spec: Spec, number: int) -> Spec:
    """Return the settings of one model: its seed, its share of a budget of time, and which way it writes."""
    train = spec.train
    rounds = -(-train.members // max(1, train.side_by_side))
    changes = {
        "members": 1,
        "side_by_side": 0,
        "reversed_members": False,
        "seed": train.seed + SEED_STEP * (number - 1),
        "budget_seconds": None if train.budget_seconds is None else train.budget_seconds / rounds,
    }
    turned = train.reversed_members and number % 2 == 0
    decoder = spec.decoder.model_copy(update={"reverse": not spec.backward}) if turned else spec.decoder
    return spec.model_copy(update={"train": train.model_copy(update=changes), "decoder": decoder})


@dataclass(frozen=True)
class Share:
    """The models that one process trains, one after the other."""

    numbers: tuple[int, ...]
    threads: int


def shares(members: int, side_by_side: int) -> list[Share]:
    """Divide models and threads among processes; the first share is for the process that speaks to the user."""
    threads = max(1, torch.get_num_threads() // side_by_side)
    firsts = range(1, side_by_side + 1)
    return [Share(tuple(range(first, members + 1, side_by_side)), threads) for first in firsts]


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Use this many threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def make_members(ready: Ready, folder: RunFolder) -> None:
    """Make the folders of the other models, each a run of its own, and encode what reversed ones learn from."""
    for number in range(2, ready.spec.train.members + 1):
        member = folder.member(number)
        if not member.is_run:
            own = ready.member(member_spec(ready.spec, number))
            member.create()
            member.write_sides(own.sides)
            member.write_facts({**folder.read_facts(), "folder": str(member.path)})
            member.write_spec(own.spec, folder.read_choices()["origins"], [])


def train_share(
    ready: Ready, folder: RunFolder, numbers: Sequence[int], world: World, reporter: Reporter
) -> list[Trainer]:
    """Train some models of a run, one after the other. One that diverges is marked; the first one's error is raised."""
    trainers = []
    for done, number in enumerate(numbers):
        if done:
            reporter.note(f"training model {number} of {ready.spec.train.members}")
        member = folder.member(number) if number > 1 else folder
        spec = member.read_spec() if number > 1 else member_spec(ready.spec, 1)
        progress = ShareReporter(reporter, done, len(numbers), spec.train.budget_seconds)
        own_lock = member.locked(SAVE_SECONDS) if number > 1 and world.first else nullcontext()
        with own_lock:
            member.diverged.unlink(missing_ok=True)
            try:
                trainers.append(fit(ready.member(spec), member, progress, world, ready.spec.train.members))
            except Diverged as error:
                if number == 1:
                    raise
                member.write(member.diverged.name, f"{error.what}\n")  # the process that speaks to the user tells
    return trainers


def report_diverged(folder: RunFolder, members: int, note: Callable[[str], None]) -> None:
    """Tell of the models that diverged."""
    for number in range(2, members + 1):
        if (path := folder.member(number).diverged).exists():
            reason = path.read_text(encoding="utf-8").strip()
            note(f"model {number} diverged, so its best checkpoint is used: {reason}")


def exclude_lagging(folder: RunFolder, members: int, note: Callable[[str], None]) -> None:
    """Exclude models that learned far less than the best one, as on a machine that became slow, from predicting."""
    losses = {number: _best_loss(folder.member(number)) for number in range(2, members + 1)}
    best = min(_best_loss(folder), *losses.values())
    for number, loss in losses.items():
        mark = folder.member(number).left_out
        if loss > LAG_FACTOR * best and loss > best + LAG_NATS:
            reason = f"its validation loss is {loss:.3f}, the best model's {best:.3f}"
            folder.member(number).write(mark.name, f"{reason}\n")
            note(f"model {number} is left out of the ensemble: {reason}")
        else:
            mark.unlink(missing_ok=True)


def _best_loss(folder: RunFolder) -> float:
    """Return the loss of the weights that are kept; infinity where there are none."""
    loss = newest_progress(folder).best_loss
    return math.inf if loss is None else loss


class ShareReporter:
    """Reports the training of one model as a part of a share's."""

    def __init__(self, reporter: Reporter, done: int, count: int, seconds: float | None) -> None:
        self._reporter, self._done, self._count, self._seconds = reporter, done, count, seconds

    def note(self, text: str) -> None:
        self._reporter.note(text)

    def stage(self, doing: str, rows: int, share: float) -> None:
        self._reporter.stage(doing, rows, share)

    def report(self, line: dict[str, Any]) -> None:
        left = line["left"]
        if left is not None:
            later = self._count - self._done - 1
            left += later * (self._seconds or left / max(1e-9, 1 - line["share"]))
        share = (self._done + line["share"]) / self._count
        self._reporter.report({**line, "share": share, "left": left})

    def evaluation(self, line: dict[str, Any], examples: list[Example]) -> None:
        self._reporter.evaluation(line, examples)

    def close(self) -> None:
        self._reporter.close()
