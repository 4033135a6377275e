"""Scoring one run of a comparison on one set of pairs: metrics, outputs, scores by length, numbers to resample.

What is counted from outputs (exact, cer, …) can be resampled from the outputs themselves. Loss and accuracy come from
the model, so for a comparison by one of them the numbers of BLOCKS blocks of pairs are kept, and blocks are resampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.api import Run
from weft.compare.lengths import LengthClass, Unit, classes, length_of
from weft.core.pair import Pair
from weft.score.metrics import table_of

BLOCKS = 200
Blocks = list[tuple[float, float]]  # of each block the sum that the metric divides by the count, and the count


@dataclass(frozen=True)
class Scored:
    """One run on one set of pairs."""

    metrics: dict[str, float | None]
    pairs: int
    lengths: list[LengthClass]
    blocks: Blocks = field(default_factory=list)


def score_run(run: Run, pairs: Sequence[Pair], metric: str, unit: Unit) -> tuple[Scored, list[str]]:
    """The scores and the outputs."""
    found = run.evaluate(pairs)
    lengths = [length_of(pair, unit) for pair in pairs]
    by_length = []
    for low, high in classes(lengths):
        rows = [i for i, n in enumerate(lengths) if low <= n <= high]
        if rows:
            by_length.append(LengthClass(low, high, len(rows), _score(run, pairs, found.outputs, rows, metric)))
    blocks = [] if table_of()[metric].from_outputs else _blocks(run, pairs, metric)
    return Scored(dict(found.metrics), found.n, by_length, blocks), found.outputs


def _score(run: Run, pairs: Sequence[Pair], outputs: Sequence[str], rows: Sequence[int], metric: str) -> float:
    some = [pairs[i] for i in rows]
    corpus = table_of()[metric].corpus
    if corpus is None:
        return _forced(run, some, metric)[0]
    return corpus([outputs[i] for i in rows], [pair.targets for pair in some])


def _forced(run: Run, pairs: Sequence[Pair], metric: str) -> tuple[float, int]:
    """Loss or accuracy of the pairs, and how many target symbols they have (END included)."""
    predictor = run.predictor
    count = sum(len(target) + 1 for target in predictor.target.encode_all([pair.target for pair in pairs]))
    return predictor.teacher_forced(pairs)[metric], count


def _blocks(run: Run, pairs: Sequence[Pair], metric: str) -> Blocks:
    made = []
    for rows in np.array_split(np.arange(len(pairs)), min(BLOCKS, len(pairs))):
        value, count = _forced(run, [pairs[i] for i in rows], metric)
        made.append((value * count / table_of()[metric].scale, float(count)))
    return made
