"""Scores of models that continue series of numbers or notes: how probable they find each step, given those before."""

from __future__ import annotations

from collections.abc import Sequence

from weft.score.table import Likelihood, Metric, Table, mean, sums_of


def _by_step(output: Likelihood, references: Sequence[str]) -> tuple[float, float]:
    return output.nats, output.symbols


CONTINUED = Table(
    Metric(
        name="nll",
        label="nll (nats per step)",
        better="lower",
        explain="−log p of a step, given the correct steps before it",
        corpus=sums_of(_by_step, mean),
        line=_by_step,
        combine=mean,
        unit="nats",
    ),
    Metric(
        name="loss",
        label="validation loss (nats per step)",
        better="lower",
        explain="nats per step",
        corpus=sums_of(_by_step, mean),
        line=_by_step,
        combine=mean,
        unit="nats",
        reported="never",
    ),
    of_likelihood=True,
)
