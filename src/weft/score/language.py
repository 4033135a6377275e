"""Scores of language models: how probable they find texts, by symbol and by character.

perplexity = exp(nats / symbols); bits per character = nats / (ln 2 · characters), which does not depend on how a text
is cut into symbols. The end of a line that is a sequence of its own counts as one symbol and as one character.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.score.table import Likelihood, Metric, Table, mean, sums_of

if TYPE_CHECKING:
    from weft.score.table import Array


def by_symbol(output: Likelihood, references: Sequence[str]) -> tuple[float, float]:
    """Return the nats and the symbols of a line."""
    return output.nats, output.symbols


def _by_character(output: Likelihood, references: Sequence[str]) -> tuple[float, float]:
    return output.nats, characters(output, references)


def characters(output: Likelihood, references: Sequence[str]) -> int:
    """Return how many characters a text has, with its end if that is predicted."""
    return len(references[0]) + output.ended


def perplexity(sums: Array) -> Array:
    """Return exp(nats / symbols), for each resample."""
    import numpy as np

    with np.errstate(over="ignore"):
        result: Array = np.exp(mean(sums))
    return result


def _bits(sums: Array) -> Array:
    return mean(sums) / math.log(2)


def _sum(sums: Array) -> Array:
    return sums[:, 0]


def _symbols(output: Likelihood, references: Sequence[str]) -> tuple[float]:
    return (output.symbols,)


def _characters(output: Likelihood, references: Sequence[str]) -> tuple[float]:
    return (characters(output, references),)


PERPLEXITY = Metric(
    name="perplexity",
    label="perplexity",
    better="lower",
    explain="the number of equally likely tokens that would make the model equally uncertain",
    corpus=sums_of(by_symbol, perplexity),
    line=by_symbol,
    combine=perplexity,
    unit="nats",
)
LANGUAGE_MODEL = Table(
    Metric(
        name="bits_per_character",
        label="bits per character",
        better="lower",
        explain="bits per character, comparable between different tokenisations",
        corpus=sums_of(_by_character, _bits),
        line=_by_character,
        combine=_bits,
        unit="nats",
    ),
    PERPLEXITY,
    Metric(
        name="symbols",
        label="tokens",
        better="higher",
        explain="tokens that were predicted",
        corpus=sums_of(_symbols, _sum),
        line=_symbols,
        combine=_sum,
        unit="count",
        selects=False,
        reported="never",
    ),
    Metric(
        name="characters",
        label="characters",
        better="higher",
        explain="characters of the text",
        corpus=sums_of(_characters, _sum),
        line=_characters,
        combine=_sum,
        unit="count",
        selects=False,
        reported="never",
    ),
    Metric(
        name="loss",
        label="validation loss (nats per token)",
        better="lower",
        explain="nats per token",
        corpus=sums_of(by_symbol, mean),
        line=by_symbol,
        combine=mean,
        unit="nats",
        reported="never",
    ),
    of_likelihood=True,
)
