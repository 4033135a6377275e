"""Scores of notes: outputs and references are lists of lists of MIDI numbers as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from weft.score.table import Metric, Table, mean, percent, sums_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@lru_cache(maxsize=4096)
def _steps(cell: str) -> list[frozenset[int]]:
    return [frozenset(step) for step in json.loads(cell)] if cell else []


def _overlap(output: str, references: Sequence[str]) -> tuple[float, float]:
    """Return twice the notes that both have at the same step, and the notes of both."""
    pairs = list(zip_longest(_steps(output), _steps(references[0]), fillvalue=frozenset[int]()))
    return 2.0 * sum(len(a & b) for a, b in pairs), float(sum(len(a) + len(b) for a, b in pairs))


def _f1(sums: Array) -> Array:
    """Return 100 · 2 · both / (output + reference); 100 where neither has a note."""
    import numpy as np

    return np.where(sums[:, 1] > 0, percent(sums), 100.0)


NOTES = Table(
    Metric(
        name="nll",
        label="nll (nats per step)",
        better="lower",
        explain="−log p of all notes of a step, those that sound and those that do not, given the correct steps before",
        combine=mean,
        unit="nats",
    ),
    Metric(
        name="note_f1",
        label="F1 of notes (%)",
        better="higher",
        explain="F1 of the notes: how many of those in the output, and of those in the reference, are in both",
        corpus=sums_of(_overlap, _f1),
        line=_overlap,
        combine=_f1,
    ),
    Metric(
        name="loss",
        label="validation loss (nats per step)",
        better="lower",
        explain="training loss per step, given the correct steps before: nll, and −log p of ending where tunes end",
        combine=mean,
        unit="nats",
        reported="never",
    ),
)
