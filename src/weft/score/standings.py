"""Rank several systems, each trained several times, on the same lines.

A resample draws lines (the same for all) and trainings (each system's own, with replacement), and a system's value is
the mean over its drawn trainings. The middle 95 % of these values is its interval. Each system is compared with the
best by the differences in the same resamples, and p-values are corrected for their number (Holm 1979).

Limits: those of significance.py. With two or three trainings the interval is too narrow; with one it says nothing about
how trainings vary.
"""

# N lines · R resamples · K numbers a line · S trainings

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.score.significance import Array, middle_95, resampled_sums, two_sided, whole
from weft.score.table import Metric

SAMPLES_EACH, MOST_SAMPLES = 2500, 100_000  # so that p < 0.001 can be reached


@dataclass(frozen=True)
class Standing:
    """A system among others: its mean over trainings with the 95 % interval, and p of being as good as the best."""

    mean: float
    low: float
    high: float
    p: float


def standings(systems: Sequence[Sequence[Array]], metric: Metric, samples: int = 5000, seed: int = 1) -> list[Standing]:
    """Return the standing of each system, given the numbers (N, K) of each of its trainings (`Metric.numbers`).

    Of systems with the same mean the first is taken as the best. Many systems are resampled more often: the least p
    that there can be is multiplied by their number.
    """
    samples = max(samples, min(MOST_SAMPLES, SAMPLES_EACH * len(systems)))
    every = [lines for trainings in systems for lines in trainings]
    sums = np.hsplit(resampled_sums(np.hstack(every), samples, seed), len(every))
    scores, wholes = iter([metric.combine(s) for s in sums]), iter([whole(lines, metric) for lines in every])
    generator = np.random.default_rng(seed)
    means = [float(np.mean([next(wholes) for _ in trainings])) for trainings in systems]
    drawn = [_drawn_mean(np.stack([next(scores) for _ in trainings], axis=1), generator) for trainings in systems]
    best = int(np.argmin([metric.rank(mean) for mean in means]))
    others = [system for system in range(len(systems)) if system != best]
    p = dict(zip(others, holm([two_sided(drawn[best] - drawn[system]) for system in others])))
    return [Standing(means[i], *middle_95(drawn[i]), p.get(i, 1.0)) for i in range(len(systems))]


def _drawn_mean(scores: Array, generator: np.random.Generator) -> Array:
    """(R, S) scores of S trainings → (R,) means over S of them, drawn with replacement."""
    picks = generator.integers(scores.shape[1], size=scores.shape)
    means: Array = np.take_along_axis(scores, picks, axis=1).mean(axis=1)
    return means


def holm(p: Sequence[float]) -> list[float]:
    """Correct p-values for their number: the least times that number, the next times one fewer, never falling."""
    adjusted, before = [1.0] * len(p), 0.0
    for rank, index in enumerate(np.argsort(p, kind="stable")):
        before = max(before, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = before
    return adjusted
