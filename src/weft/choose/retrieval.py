"""Settings for documents that are found for queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.choose.choices import ENOUGH_EPOCHS, Choices
from weft.choose.numbers import NUMBERS
from weft.choose.sides import has_words
from weft.choose.timing import TimeBudget
from weft.data.survey import Survey


def choose_retrieval(
    choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None = None
) -> None:
    """Choose how queries and documents are read and compared, and how long."""
    documents = survey.target
    if has_words(documents):
        choices.set("source.tokens", "stems", "words of one family are compared by their first letters")
    else:
        choices.set("source.tokens", "bpe", "the texts have no spaces, so they are compared by their subwords")
    choices.set("source.size", NUMBERS.document_subwords)
    choices.set(
        "encoder.kind",
        "none",
        "with little data, a sum of embeddings can learn which words matter, but not their order",
    )
    choices.set("pool.kind", "mean")
    for key in ("encoder.width", "embed.width"):
        choices.set(key, NUMBERS.document_width)
    if given.get("encoder", {}).get("kind", "none") == "none" and given.get("pool", {}).get("kind", "mean") == "mean":
        choices.set("retrieve.latent", True, "words that occur together in documents start with similar vectors")
    if documents.mean_words >= NUMBERS.excerpt_words:
        why = "sentences of a document are further queries for the rest of it"
        choices.set("retrieve.excerpts", NUMBERS.excerpts, why)
    choices.set("retrieve.negatives", NUMBERS.hard_negatives)
    choices.set("train.dropout", NUMBERS.document_dropout)
    choices.set("train.rate", NUMBERS.document_rate)
    choices.set("train.weight_decay", 0.0)
    choices.set("train.max_epochs", NUMBERS.document_epochs, ENOUGH_EPOCHS)
    choices.set("train.evaluations", NUMBERS.label_evaluations)
    choices.set("train.select", "mrr")
    rows = int(NUMBERS.document_rows * max(documents.mean_words, survey.source.mean_words, 1.0))
    choices.set("train.batch_tokens", min(NUMBERS.document_batch, max(NUMBERS.transformer_batch, rows)))
