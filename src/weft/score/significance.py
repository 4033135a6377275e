"""Is a difference more than luck? Paired bootstrap and bootstrap intervals over lines (Koehn 2004).

A corpus metric is a function of sums over lines, so a line is kept as its few numbers (sufficient statistics) and a
resample of the lines is a weighted sum of them: nothing is compared with a reference twice.

    d_r  = metric(first on resample r) − metric(second on resample r), the same lines for both
    low, high = the 2.5th and 97.5th percentile of d_r
    p    = min(1, 2 · min(#{d_r ≤ 0} + 1, #{d_r ≥ 0} + 1) / (samples + 1)), two-sided

Limits: lines are taken as independent, and the data set as a sample of what matters; seeds of training vary too and
are not seen here (but in standings.py). With few lines the intervals are too narrow. The least p is 2 / (samples + 1).
"""

# N lines · R resamples · K numbers a line · G n-gram orders

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import did_you_mean
from weft.score.metrics import Outputs, References, character_edits, check_lines, is_hit, token_edits

Array = NDArray[np.float64]
Combine = Callable[[Array], Array]  # sums (R, K) -> metric (R,)

_CHRF_ORDERS, _CHRF_BETA = 6, 2  # sacrebleu's defaults; test_metrics compares the values


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


@dataclass(frozen=True)
class _Statistics:
    """A metric taken apart: numbers for one line, and the metric from sums of such numbers."""

    line: Callable[[str, Sequence[str]], Sequence[int]]  # K numbers
    combine: Combine


def paired_bootstrap(
    first_outputs: Outputs,
    second_outputs: Outputs,
    references: References,
    metric: str,
    samples: int = 1000,
    seed: int = 1,
) -> Comparison:
    """Compare two systems' outputs for the same lines."""
    statistics = _statistics(metric)
    first_lines = _lines(first_outputs, references, statistics)  # (N, K)
    second_lines = _lines(second_outputs, references, statistics)  # (N, K)
    first, second = (whole(lines, statistics.combine) for lines in (first_lines, second_lines))
    # Side by side, so that both systems see the same resampled lines.
    sums = resampled_sums(np.hstack([first_lines, second_lines]), samples, seed)  # (R, 2K)
    first_sums, second_sums = np.hsplit(sums, 2)
    differences = statistics.combine(first_sums) - statistics.combine(second_sums)  # (R,)
    low, high = middle_95(differences)
    return Comparison(metric, first, second, first - second, low, high, two_sided(differences))


def interval(
    outputs: Outputs, references: References, metric: str, samples: int = 1000, seed: int = 1
) -> tuple[float, float]:
    """The 95 % bootstrap interval of one system's metric."""
    statistics = _statistics(metric)
    sums = resampled_sums(_lines(outputs, references, statistics), samples, seed)
    return middle_95(statistics.combine(sums))


def numbers_of(outputs: Outputs, references: References, metric: str) -> Array:
    """The few numbers that each line adds to a metric, (N, K)."""
    return _lines(outputs, references, _statistics(metric))


def _statistics(metric: str) -> _Statistics:
    if metric not in _STATISTICS:
        raise ValueError(f"metric {metric!r} is not known here; {did_you_mean(metric, _STATISTICS)}")
    return _STATISTICS[metric]


def _lines(outputs: Outputs, references: References, statistics: _Statistics) -> Array:
    check_lines(outputs, references)
    return np.array(list(map(statistics.line, outputs, references)), dtype=np.float64)  # (N, K)


def whole(lines: Array, combine: Combine) -> float:
    """The metric over all lines."""
    return float(combine(lines.sum(axis=0, keepdims=True))[0])


def resampled_sums(lines: Array, samples: int, seed: int) -> Array:
    """Sums over `samples` resamples of the lines; one at a time, since R × N counts can pass the memory."""
    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    generator, n = np.random.default_rng(seed), len(lines)
    counts = (np.bincount(generator.integers(n, size=n), minlength=n) for _ in range(samples))  # each (N,)
    return np.stack([count.astype(np.float64) @ lines for count in counts])  # (R, K)


def middle_95(values: Array) -> tuple[float, float]:
    """Where the middle 95 % of the values lie."""
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def two_sided(differences: Array) -> float:
    """p of no difference, from the differences in resamples."""
    # One is added to both counts: a finite number of resamples cannot show that p is 0.
    rarer = min(np.count_nonzero(differences <= 0), np.count_nonzero(differences >= 0)) + 1
    return float(min(1.0, 2 * rarer / (len(differences) + 1)))


def _exact_line(output: str, references: Sequence[str]) -> list[int]:
    return [int(is_hit(output, references)), 1]


def _bleu_line(output: str, references: Sequence[str]) -> list[int]:
    from sacrebleu.metrics.bleu import BLEU

    # effective_order changes the line's own score, which is not used, and silences a warning; the counts stay.
    found = BLEU(effective_order=True).sentence_score(output, references)
    return [*found.counts, *found.totals, found.sys_len, found.ref_len]


def _chrf_line(output: str, references: Sequence[str]) -> list[int]:
    """Counts against the reference with the best F, the first of equals, as sacrebleu keeps privately."""
    against = [_chrf_counts(output, reference) for reference in references]
    if len(against) == 1:
        return against[0]
    return against[int(np.argmax(_chrf_from(np.array(against, dtype=np.float64))))]


def _chrf_counts(output: str, reference: str) -> list[int]:
    """For each order the n-grams of the output, of the reference and of both, white space left out."""
    output, reference = "".join(output.split()), "".join(reference.split())
    counts: list[int] = []
    for n in range(1, _CHRF_ORDERS + 1):
        ours, theirs = _ngrams(output, n), _ngrams(reference, n)
        # An order that the reference is too short for must not count against the output.
        counts += [ours.total() if theirs else 0, theirs.total(), (ours & theirs).total()]
    return counts


def _ngrams(text: str, n: int) -> Counter[str]:
    return Counter(text[i : i + n] for i in range(len(text) - n + 1))


def _ratio_from(sums: Array) -> Array:
    return 100.0 * sums[:, 0] / np.maximum(sums[:, 1], 1.0)


def _bleu_from(sums: Array) -> Array:
    from sacrebleu.metrics.bleu import BLEU

    rows = sums.astype(np.int64).tolist()
    scores = [BLEU.compute_bleu(row[:4], row[4:8], row[8], row[9], smooth_method="exp").score for row in rows]
    return np.array(scores, dtype=np.float64)


def _chrf_from(sums: Array) -> Array:
    """F_β of precision and recall, each averaged over the orders that output and reference both have."""
    ours, theirs, both = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]  # (R, G)
    orders = np.maximum(((ours > 0) & (theirs > 0)).sum(axis=1), 1)  # (R,)
    # Where an order is missing on either side nothing matches, so it adds 0 to both sums.
    precision = (both / np.maximum(ours, 1.0)).sum(axis=1) / orders  # (R,)
    recall = (both / np.maximum(theirs, 1.0)).sum(axis=1) / orders  # (R,)
    weighted = _CHRF_BETA**2 * precision + recall
    top = (1 + _CHRF_BETA**2) * precision * recall
    scores: Array = 100.0 * top / np.where(weighted > 0, weighted, 1.0)
    return scores


_STATISTICS: dict[str, _Statistics] = {
    "exact": _Statistics(_exact_line, _ratio_from),
    "cer": _Statistics(character_edits, _ratio_from),
    "ter": _Statistics(token_edits, _ratio_from),
    "bleu": _Statistics(_bleu_line, _bleu_from),
    "chrf": _Statistics(_chrf_line, _chrf_from),
}

COMBINE: dict[str, Combine] = {name: statistics.combine for name, statistics in _STATISTICS.items()}
# Of these the model's own numbers are summed, not those of outputs: (right symbols, symbols) and (nats, symbols).
COMBINE |= {"accuracy": _ratio_from, "loss": lambda sums: _ratio_from(sums) / 100.0}
