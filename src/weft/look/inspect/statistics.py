"""Small statistics that views share: rank correlation, AUC, intervals. Exact and by their definitions."""

# N items · R resamples

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.look.inspect.plots import Array

RESAMPLES = 1_000
LEAST_LINES = 5  # from which on a bootstrap over lines says anything


def kendall(first: Array, second: Array) -> float:
    """Return τ-b: concordant less discordant pairs over the geometric mean of pairs that are not tied (Kendall 1945).

    It is NaN where one of the two has no order at all.
    """
    upper = np.triu_indices(len(first), 1)
    a, b = (np.sign(x[:, None] - x[None, :])[upper] for x in (np.asarray(first), np.asarray(second)))
    untied = float(np.sqrt(np.abs(a).sum() * np.abs(b).sum()))
    return float((a * b).sum() / untied) if untied else float("nan")


def auc(scores: Array, truth: Array) -> Array:
    """Return for each column of scores (N, D) the chance that a true row scores above a false one, ties as a half."""
    return auc_of_ranks(ranks_of(scores[:, None] if scores.ndim == 1 else scores), truth)


def auc_of_ranks(ranks: Array, truth: Array) -> Array:
    """Return the same from the ranks of each column (N, D), which several truths can share."""
    positive = int(truth.sum())
    negative = len(truth) - positive
    if not positive or not negative:
        return np.full(ranks.shape[1], np.nan)
    return np.asarray((ranks[truth.astype(bool)].sum(0) - positive * (positive + 1) / 2) / (positive * negative))


def ranks_of(scores: Array) -> Array:
    """Return the ranks of each column from 1, equal values sharing theirs."""
    ranks = np.empty(scores.shape)
    for column in range(scores.shape[1]):
        _, inverse, counts = np.unique(scores[:, column], return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        ranks[:, column] = ((ends - counts + 1 + ends) / 2)[inverse]
    return ranks


def correlation(scores: Array, truth: Array) -> Array:
    """Return Pearson's correlation of each column of scores (N, D) with the truth (N,)."""
    x, y = scores - scores.mean(0), truth - truth.mean()
    size = np.sqrt((x**2).sum(0) * (y**2).sum())
    return np.asarray(np.where(size > 0, (x * y[:, None]).sum(0) / np.where(size > 0, size, 1), 0.0))


def ratio_interval(parts: Sequence[float], wholes: Sequence[float], seed: int = 1) -> tuple[float, float, float]:
    """Return Σ parts / Σ wholes with its 95 % interval, by a bootstrap over the lines that the two come from."""
    a, b = np.asarray(parts, dtype=np.float64), np.asarray(wholes, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(a), (RESAMPLES, len(a)))
    ratios = a[drawn].sum(1) / np.maximum(b[drawn].sum(1), 1e-12)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(a.sum() / max(b.sum(), 1e-12)), float(low), float(high)
