"""Score one run of a comparison on one set of pairs: metrics, outputs, scores by source length, blocks to resample.

What is counted from outputs (exact, cer, …) can be resampled from the outputs themselves. Loss and accuracy come from
the model, so for a comparison by one of them the sums of BLOCKS blocks of pairs are kept, and blocks are resampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from weft.api import Run
from weft.core.pair import Pair
from weft.core.shapes import Symbols
from weft.data.sides.side import steps_of
from weft.score.metrics import metric_named
from weft.score.table import Likelihood
from weft.spec import SPELLED, Spec

BLOCKS = 200
MAX_LENGTH_CLASSES, MIN_CLASS_PAIRS = 10, 10
CLASS_WIDTHS = [m * 10**e for e in range(6) for m in (1, 2, 5)]

LengthUnit = Literal["characters", "words", "steps", "files"]
Blocks = list[tuple[float, float]]  # of each block, the sum that the metric divides by the count, and the count


@dataclass(frozen=True)
class LengthClass:
    """Sources of `low` to `high` symbols: how many pairs have one, and their score."""

    low: int
    high: int
    pairs: int
    score: float

    @property
    def name(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"


@dataclass(frozen=True)
class Scores:
    """The scores of one run on one set of pairs."""

    metrics: dict[str, float | None]
    pairs: int
    lengths: list[LengthClass]
    blocks: Blocks = field(default_factory=list)


def score_run(run: Run, pairs: Sequence[Pair], metric: str, unit: LengthUnit) -> tuple[Scores, list[str | Likelihood]]:
    """Return the scores and the outputs."""
    evaluation = run.evaluate(pairs)
    lengths = [_length(pair, unit) for pair in pairs]
    by_length = []
    for low, high in length_classes(lengths):
        rows = [i for i, length in enumerate(lengths) if low <= length <= high]
        if rows:
            by_length.append(LengthClass(low, high, len(rows), _score(run, pairs, evaluation.outputs, rows, metric)))
    blocks = [] if metric_named(metric).from_outputs else _blocks(run, pairs, metric)
    return Scores(dict(evaluation.metrics), evaluation.n, by_length, blocks), evaluation.outputs


def _score(
    run: Run, pairs: Sequence[Pair], outputs: Sequence[str | Likelihood], rows: Sequence[int], metric: str
) -> float:
    selected = [pairs[i] for i in rows]
    corpus = metric_named(metric).corpus
    if corpus is None:
        return _teacher_forced(run, selected, metric)[0]
    return corpus([outputs[i] for i in rows], [pair.targets for pair in selected])


def _teacher_forced(run: Run, pairs: Sequence[Pair], metric: str) -> tuple[float, int]:
    """Return the loss or accuracy of the pairs, and how many target symbols (END included) or steps they have."""
    target = run.predictor.sides.target
    end = int(isinstance(target.shape, Symbols) and target.shape.ended)
    count = sum(len(row) + end for row in target.rows(pairs, "target"))
    return run.predictor.teacher_forced(pairs)[metric], count


def _blocks(run: Run, pairs: Sequence[Pair], metric: str) -> Blocks:
    blocks = []
    for rows in np.array_split(np.arange(len(pairs)), min(BLOCKS, len(pairs))):
        value, count = _teacher_forced(run, [pairs[i] for i in rows], metric)
        blocks.append((value * count / metric_named(metric).scale, float(count)))
    return blocks


# classes of source length ---------------------------------------------------------------------------------------------


def length_unit(spec: Spec) -> LengthUnit:
    """Return what sources are measured in, however a variant tokenises them: characters, or words for longer texts.

    Numbers and notes are measured in steps. Sound and pictures are not measured: each is one file. A language model has
    no source, so its lines are measured.
    """
    side = spec.target if spec.source.kind == "none" else spec.source
    if side.kind in ("numbers", "notes"):
        return "steps"
    if side.kind in ("audio", "image"):
        return "files"
    return "characters" if side.tokens in (*SPELLED, "bytes") else "words"


def _length(pair: Pair, unit: LengthUnit) -> int:
    cell = pair.source or pair.target
    if unit == "steps":
        return steps_of(cell)
    if unit == "files":
        return 1
    return len(cell) if unit == "characters" else len(cell.split())


def length_classes(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Return the bounds of at most MAX_LENGTH_CLASSES classes of equal width.

    Neighbours are joined until each has MIN_CLASS_PAIRS pairs; the last class has no upper limit.
    """
    top = max(1, int(np.percentile(lengths, 99)))
    width = next(w for w in CLASS_WIDTHS if -(-top // w) <= MAX_LENGTH_CLASSES)
    bounds = [(low + 1, low + width) for low in range(0, top, width)]
    bounds[0] = (min(1, *lengths), bounds[0][1])
    bounds[-1] = (bounds[-1][0], max(bounds[-1][1], *lengths))
    counted = [(low, high, sum(low <= n <= high for n in lengths)) for low, high in bounds]
    first, *rest = [(low, high) for low, high, _ in _join_small(counted)]
    return [(min(lengths), first[1]), *rest]


def _join_small(counted: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    while len(counted) > 1:
        small = next((i for i, (_, _, n) in enumerate(counted) if n < MIN_CLASS_PAIRS), None)
        if small is None:
            break
        first = min(small, len(counted) - 2)  # with the next class, or the last with the one before it
        (low, _, n), (_, high, more) = counted[first : first + 2]
        counted = [*counted[:first], (low, high, n + more), *counted[first + 2 :]]
    return counted
