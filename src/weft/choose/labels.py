"""Settings for labels: one for a sequence, or one for each of its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.choose.choices import Choices
from weft.choose.numbers import NUMBERS
from weft.choose.sides import has_words
from weft.core.errors import UserError
from weft.data.survey import Survey


def choose_labels(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    """Choose what is read, by which model, and how long."""
    _check_labels(survey)
    if survey.kind("source") == "text":
        words = survey.kind("target") == "labels" or has_words(survey.source)
        why = "a label for each word" if survey.kind("target") == "labels" else "the source has words"
        choices.set("source.tokens", "words" if words else "characters", why if words else "")
    choices.set("encoder.kind", "recurrent")
    choices.set("encoder.width", NUMBERS.label_width)
    choices.set("embed.width", NUMBERS.label_width)
    choices.set(
        "train.dropout",
        NUMBERS.label_dropout,
        "labels carry little information: without much dropout, a model overfits",
    )
    choices.set("train.batch_tokens", NUMBERS.recurrent_batch)
    choices.set("train.rate", NUMBERS.recurrent_rate)
    choices.set("train.max_epochs", NUMBERS.label_epochs)
    choices.set("train.select", "accuracy")
    if survey.kind("target") == "label":
        choices.set("pool.kind", "query", "a learned query attends to the words that matter")


def _check_labels(survey: Survey) -> None:
    """Refuse targets that are no labels: nearly as many different ones as rows."""
    labels = survey.columns["target"]["labels"]
    if len(labels) > NUMBERS.fewest_labels_checked and len(labels) > NUMBERS.labels_per_row * survey.pairs:
        first = next(iter(labels))
        raise UserError(
            f"the target column has {len(labels):,} different values in {survey.pairs:,} rows, such as {first!r}: "
            "that is running text rather than labels",
            "--task classify",
            "use --task transduce to learn text, or choose the column of labels with --target",
        )
    if len(labels) < 2:
        only = next(iter(labels))
        raise UserError(f"every row has the label {only!r}", "--task classify", "give rows of at least two labels")
