"""Scores of numbers: outputs and references are lists of numbers as JSON, in the units of the data.

Where an output is shorter or longer than its reference, the shorter of the two goes on at its last value, so that a
wrong length costs something. A missing number of the reference is left out.
"""

# T steps · F features

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from weft.score.table import Metric, Table, mean, sums_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@lru_cache(maxsize=4096)
def values_of(cell: str) -> Array:
    """Return the numbers of a cell (T, F), NaN where one is missing."""
    import numpy as np

    values = np.array(json.loads(cell) if cell else [], dtype=np.float64)
    return values.reshape(len(values), -1) if values.size else values.reshape(0, 1)


def _errors(output: str, references: Sequence[str]) -> tuple[Array, Array]:
    """Return output − reference, and the reference, over the steps of the longer one (T, F)."""
    import numpy as np

    predicted, wanted = values_of(output), values_of(references[0])
    if len(predicted) != len(wanted):
        steps = max(len(predicted), len(wanted)) if len(predicted) and len(wanted) else 0
        at = np.arange(steps)
        predicted, wanted = (values[np.minimum(at, len(values) - 1)] for values in (predicted, wanted))
    return predicted - wanted, wanted


def _squared(output: str, references: Sequence[str]) -> tuple[float, float]:
    import numpy as np

    error, _ = _errors(output, references)
    return float(np.nansum(error**2)), float((~np.isnan(error)).sum())


def _absolute(output: str, references: Sequence[str]) -> tuple[float, float]:
    import numpy as np

    error, _ = _errors(output, references)
    return float(np.nansum(np.abs(error))), float((~np.isnan(error)).sum())


def _variance_counts(output: str, references: Sequence[str]) -> list[float]:
    """Return the squared error, then of each feature how many numbers, their sum and the sum of their squares."""
    import numpy as np

    error, wanted = _errors(output, references)
    real = ~np.isnan(error)
    known = np.where(real, wanted, 0.0)
    counts = np.concatenate([real.sum(0), known.sum(0), (known**2).sum(0)])
    return [float(np.nansum(error**2)), *counts.tolist()]


def _r2(sums: Array) -> Array:
    """Return 1 − squared error / squared distance from the mean of each feature."""
    import numpy as np

    count, total, squares = np.split(sums[:, 1:], 3, axis=1)
    spread = (squares - total**2 / np.maximum(count, 1.0)).sum(1)
    result: Array = 1.0 - sums[:, 0] / np.maximum(spread, 1e-300)
    return result


def _distances(output: str, references: Sequence[str]) -> tuple[float, float]:
    """Return the sum of the distances over all steps, and how many steps there are."""
    import numpy as np

    error, _ = _errors(output, references)
    distances = np.sqrt(np.nansum(error**2, axis=1))
    return float(distances.sum()), float(len(distances))


def _last_distance(output: str, references: Sequence[str]) -> tuple[float, float]:
    import numpy as np

    error, _ = _errors(output, references)
    return (float(np.sqrt(np.nansum(error[-1] ** 2))), 1.0) if len(error) else (0.0, 0.0)


def mean_distance(output: str, reference: str) -> float:
    """Return the mean distance of an output from its reference over all steps; 0 if there are none."""
    total, steps = _distances(output, [reference])
    return total / max(1.0, steps)


NUMBERS = Table(
    Metric(
        name="ade",
        label="mean distance (ADE)",
        better="lower",
        explain="average displacement error: the mean distance between output and reference over all steps (if their "
        "lengths differ, the shorter one goes on at its last value)",
        corpus=sums_of(_distances, mean),
        line=_distances,
        combine=mean,
        unit="number",
    ),
    Metric(
        name="fde",
        label="final distance (FDE)",
        better="lower",
        explain="final displacement error: the distance at the last step",
        corpus=sums_of(_last_distance, mean),
        line=_last_distance,
        combine=mean,
        unit="number",
    ),
    Metric(
        name="mse",
        label="mean squared error",
        better="lower",
        explain="mean squared error of a number, in the square of its units",
        corpus=sums_of(_squared, mean),
        line=_squared,
        combine=mean,
        unit="number",
    ),
    Metric(
        name="mae",
        label="mean absolute error",
        better="lower",
        explain="mean absolute error of a number",
        corpus=sums_of(_absolute, mean),
        line=_absolute,
        combine=mean,
        unit="number",
        reported="never",
    ),
    Metric(
        name="r2",
        label="R²",
        better="higher",
        explain="share of the variance that is predicted: 1 is perfect, 0 is no better than predicting the mean",
        corpus=sums_of(_variance_counts, _r2),
        line=_variance_counts,
        combine=_r2,
        unit="number",
        per_line=False,
        reported="never",
    ),
    Metric(
        name="loss",
        label="validation loss (per step)",
        better="lower",
        explain="what training minimises, per step (objective.kind): a distance, half a squared error, or nats",
        combine=mean,
        unit="number",
        reported="never",
    ),
)
