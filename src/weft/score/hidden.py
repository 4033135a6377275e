"""Scores of hidden symbols: how many are right, and how probable they are found."""

from __future__ import annotations

from collections.abc import Sequence

from weft.score.language import PERPLEXITY, by_symbol
from weft.score.table import Likelihood, Metric, Table, mean, percent, sums_of


def _right(output: Likelihood, references: Sequence[str]) -> tuple[float, float]:
    return output.right, output.symbols


HIDDEN = Table(
    Metric(
        name="accuracy",
        label="accuracy (%)",
        better="higher",
        explain="hidden tokens that are the most probable ones",
        corpus=sums_of(_right, percent),
        line=_right,
        combine=percent,
    ),
    PERPLEXITY,
    Metric(
        name="loss",
        label="validation loss (nats per hidden token)",
        better="lower",
        explain="nats per hidden token",
        corpus=sums_of(by_symbol, mean),
        line=by_symbol,
        combine=mean,
        unit="nats",
        reported="never",
    ),
    of_likelihood=True,
)
