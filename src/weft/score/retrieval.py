"""Scores of rankings: how high the relevant documents stand (as trec_eval computes them).

An output is a `Ranking`: it knows the relevant documents, so that references are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.score.table import LineNumbers, Metric, Table, mean, percent, sums_of

DEPTH = 10  # of nDCG


@dataclass(frozen=True)
class Ranking:
    """Where the relevant documents of a query stand, counted from 1, and how relevant each is."""

    ranks: tuple[int, ...]
    gains: tuple[float, ...]

    def __str__(self) -> str:
        return f"rank {self.best()}" if self.ranks else "not found"

    def best(self) -> int:
        """Return the rank of the first relevant document; 0 if there is none."""
        return min(self.ranks, default=0)


def recall(ranking: Ranking, depth: int) -> float:
    """Return the share of the relevant documents among the first."""
    return sum(rank <= depth for rank in ranking.ranks) / max(1, len(ranking.ranks))


def reciprocal_rank(ranking: Ranking) -> float:
    """Return 1/rank of the first relevant document."""
    return 1 / ranking.best() if ranking.ranks else 0.0


def average_precision(ranking: Ranking) -> float:
    """Return the mean, over the relevant documents, of the share of relevant ones up to each."""
    return sum(n / rank for n, rank in enumerate(sorted(ranking.ranks), 1)) / max(1, len(ranking.ranks))


def ndcg(ranking: Ranking) -> float:
    """Return Σ gain / log₂(1 + rank) over the first DEPTH, relative to that of the best order (Järvelin 2002)."""
    gained = sum(gain / math.log2(1 + rank) for rank, gain in zip(ranking.ranks, ranking.gains) if rank <= DEPTH)
    ideal = sorted(ranking.gains, reverse=True)[:DEPTH]
    return gained / max(1e-9, sum(gain / math.log2(1 + rank) for rank, gain in enumerate(ideal, 1)))


def _line(score: Callable[[Ranking], float]) -> LineNumbers:
    def numbers(ranking: Any, references: Sequence[Any]) -> tuple[float, int]:
        return score(ranking), 1

    return numbers


def _metric(name: str, label: str, explain: str, score: Callable[[Ranking], float]) -> Metric:
    line = _line(score)
    corpus = sums_of(line, percent)
    return Metric(name=name, label=label, better="higher", explain=explain, corpus=corpus, line=line, combine=percent)


def _recall_at(depth: int) -> Metric:
    explain = f"percentage of the relevant documents among the first {depth}" if depth > 1 else (
        "percentage of the relevant documents that stand first"
    )  # fmt: skip
    return _metric(f"recall@{depth}", f"recall@{depth} (%)", explain, lambda ranking: recall(ranking, depth))


RETRIEVAL = Table(
    _metric("mrr", "mean reciprocal rank (%)", "mean of 1/rank of the first relevant document", reciprocal_rank),
    _metric("ndcg@10", "nDCG@10 (%)", "discounted gain of the first 10, relative to the best order, in percent", ndcg),
    _metric("map", "mean average precision (%)", "mean over queries of the average precision", average_precision),
    *(_recall_at(depth) for depth in (1, 5, 10)),
    Metric(
        name="loss",
        label="validation loss (nats per query)",
        better="lower",
        explain="nats per query: −log p of the right document among all candidates",
        combine=mean,
        unit="nats",
        reported="never",
    ),
)  # fmt: skip
