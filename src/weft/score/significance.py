"""Is a difference more than chance? Paired bootstrap and bootstrap intervals over lines (Koehn 2004).

A corpus metric is a function of sums over lines, so a line is kept as its few numbers (sufficient statistics) and a
resample of the lines is a weighted sum of them: nothing is compared with a reference twice.

    d_r  = metric(first on resample r) − metric(second on resample r), the same lines for both
    low, high = the 2.5th and 97.5th percentile of d_r
    p    = min(1, 2 · min(#{d_r ≤ 0} + 1, #{d_r ≥ 0} + 1) / (samples + 1)), two-sided

Limits: lines are assumed independent, and the data set a sample of what matters. The variance over seeds of training is
not seen here (but in standings.py). With few lines the intervals are too narrow. The least p is 2 / (samples + 1).
"""

# N lines · R resamples · K numbers a line

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.score.table import Metric, Outputs, References

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same lines by one metric; `low` to `high` is the 95 % interval of first − second."""

    metric: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float

    @property
    def significant(self) -> bool:
        """Whether chance is an unlikely reason for the difference (p < 0.05); its sign says which is higher."""
        return self.p < 0.05


def paired_bootstrap(
    first_outputs: Outputs,
    second_outputs: Outputs,
    references: References,
    metric: Metric,
    samples: int = 1000,
    seed: int = 1,
) -> Comparison:
    """Compare the outputs of two systems for the same lines."""
    first_lines = metric.numbers(first_outputs, references)  # (N, K)
    second_lines = metric.numbers(second_outputs, references)  # (N, K)
    first, second = (whole(lines, metric) for lines in (first_lines, second_lines))
    # Side by side, so that both systems see the same resampled lines.
    sums = resampled_sums(np.hstack([first_lines, second_lines]), samples, seed)  # (R, 2K)
    first_sums, second_sums = np.hsplit(sums, 2)
    differences = metric.combine(first_sums) - metric.combine(second_sums)  # (R,)
    low, high = middle_95(differences)
    return Comparison(metric.name, first, second, first - second, low, high, two_sided(differences))


def interval(
    outputs: Outputs, references: References, metric: Metric, samples: int = 1000, seed: int = 1
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of one system's metric."""
    sums = resampled_sums(metric.numbers(outputs, references), samples, seed)
    return middle_95(metric.combine(sums))


def whole(lines: Array, metric: Metric) -> float:
    """Return the metric over all lines."""
    return float(metric.combine(lines.sum(axis=0, keepdims=True))[0])


def resampled_sums(lines: Array, samples: int, seed: int) -> Array:
    """Return sums over `samples` resamples of the lines; one at a time, since R × N counts may not fit in memory."""
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    generator, n = np.random.default_rng(seed), len(lines)
    counts = (np.bincount(generator.integers(n, size=n), minlength=n) for _ in range(samples))  # each (N,)
    return np.stack([count.astype(np.float64) @ lines for count in counts])  # (R, K)


def middle_95(values: Array) -> tuple[float, float]:
    """Return the bounds of the middle 95 % of the values."""
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def two_sided(differences: Array) -> float:
    """Return the p-value of no difference, from the differences in resamples."""
    # One is added to both counts: a finite number of resamples cannot show that p is 0.
    rarer = min(np.count_nonzero(differences <= 0), np.count_nonzero(differences >= 0)) + 1
    return float(min(1.0, 2 * rarer / (len(differences) + 1)))
