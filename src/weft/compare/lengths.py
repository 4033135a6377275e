"""Classes of source length, for scores by length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weft.core.pair import Pair
from weft.spec import SPELLED, Spec

Unit = Literal["characters", "words"]
MOST, FEWEST = 10, 10  # classes; pairs in a class
STEPS = [m * 10**e for e in range(6) for m in (1, 2, 5)]


@dataclass(frozen=True)
class LengthClass:
    """Sources of `low` to `high` symbols: how many pairs, and their score."""

    low: int
    high: int
    pairs: int
    score: float


def unit_of(spec: Spec) -> Unit:
    """What a source is measured in, whichever way a cell cuts it: characters, or words for longer texts."""
    return "characters" if spec.source.tokens in (*SPELLED, "bytes") else "words"


def length_of(pair: Pair, unit: Unit) -> int:
    return len(pair.source) if unit == "characters" else len(pair.source.split())


def classes(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """At most MOST classes of equal width, but neighbours joined until each has FEWEST pairs; the last is open."""
    top = max(1, int(np.percentile(lengths, 99)))
    step = next(s for s in STEPS if -(-top // s) <= MOST)
    bounds = [(low + 1, low + step) for low in range(0, top, step)]
    bounds[0] = (min(1, *lengths), bounds[0][1])
    bounds[-1] = (bounds[-1][0], max(bounds[-1][1], *lengths))
    counted = [(low, high, sum(low <= n <= high for n in lengths)) for low, high in bounds]
    first, *rest = [(low, high) for low, high, _ in _joined(counted)]
    return [(min(lengths), first[1]), *rest]


def _joined(counted: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    while len(counted) > 1:
        small = next((i for i, (_, _, n) in enumerate(counted) if n < FEWEST), None)
        if small is None:
            break
        first = min(small, len(counted) - 2)  # with the next one, or the last with the one before
        (low, _, n), (_, high, more) = counted[first : first + 2]
        counted = [*counted[:first], (low, high, n + more), *counted[first + 2 :]]
    return counted
