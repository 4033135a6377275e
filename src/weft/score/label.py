"""Scores of labels: one for a sequence, or one for each of its words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from weft.score.table import Metric, Outputs, References, Table, check_lines, mean, percent, sums_of

if TYPE_CHECKING:
    from weft.score.table import Array


def _right(output: str, references: Sequence[str]) -> tuple[int, int]:
    """Return whether the label is one of those that are right, and 1 for the line."""
    return int(output.strip() in [reference.strip() for reference in references]), 1


def _macro_f1(outputs: Outputs, references: References) -> float:
    """Return the mean of 2 · right / (predicted + actual) over all labels that occur or are predicted."""
    check_lines(outputs, references)
    predicted, actual, right = Counter[str](), Counter[str](), Counter[str]()
    for output, targets in zip(outputs, references):
        predicted[output] += 1
        target = output if output in targets else targets[0]
        actual[target] += 1
        right[target] += output == target
    labels = predicted.keys() | actual.keys()
    return 100.0 * sum(2 * right[label] / (predicted[label] + actual[label]) for label in labels) / len(labels)


def _right_words(output: str, references: Sequence[str]) -> tuple[int, int]:
    """Return how many words have the right label, and how many words there are."""
    labels, wanted = output.split(" "), references[0].split(" ")
    return sum(a == b for a, b in zip(labels, wanted)), len(wanted)


def _whole_lines(output: str, references: Sequence[str]) -> tuple[int, int]:
    return int(output in references), 1


def spans(labels: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the name, the first word and the end of each span of B- and I- labels; an I- of another name begins one."""
    first, name = 0, ""
    for place, label in enumerate([*labels, "O"]):
        begins, of = label[:2], label[2:]
        if name and not (begins == "I-" and of == name):
            yield name, first, place
            name = ""
        if begins in ("B-", "I-") and not name:
            first, name = place, of


def _span_counts(output: str, references: Sequence[str]) -> tuple[int, int, int]:
    """Return how many spans are right, predicted and wanted."""
    predicted, wanted = set(spans(output.split(" "))), set(spans(references[0].split(" ")))
    return len(predicted & wanted), len(predicted), len(wanted)


def _f1(sums: Array) -> Array:
    import numpy as np

    return 200.0 * sums[:, 0] / np.maximum(sums[:, 1] + sums[:, 2], 1.0)


LOSS = Metric(
    name="loss",
    label="validation loss (nats per label)",
    better="lower",
    explain="nats per label",
    combine=mean,
    unit="nats",
    reported="never",
)
LABEL = Table(
    Metric(
        name="accuracy",
        label="accuracy (%)",
        better="higher",
        explain="percentage of labels that are right",
        corpus=sums_of(_right, percent),
        line=_right,
        combine=percent,
    ),
    Metric(
        name="macro_f1",
        label="macro-F1 (%)",
        better="higher",
        explain="mean of the F1 scores of all labels, so that rare labels count as much as frequent ones, in percent",
        corpus=_macro_f1,
        combine=percent,
        per_line=False,
    ),
    LOSS,
)
LABELS = Table(
    Metric(
        name="accuracy",
        label="labels right (%)",
        better="higher",
        explain="percentage of words that have the right label",
        corpus=sums_of(_right_words, percent),
        line=_right_words,
        combine=percent,
    ),
    Metric(
        name="span_f1",
        label="span F1 (%)",
        better="higher",
        explain="F1 score of complete spans, for labels such as B-… and I-…, in percent",
        corpus=sums_of(_span_counts, _f1),
        line=_span_counts,
        combine=_f1,
        reported="unless zero",
    ),
    Metric(
        name="exact",
        label="lines right (%)",
        better="higher",
        explain="percentage of lines whose labels are all right",
        corpus=sums_of(_whole_lines, percent),
        line=_whole_lines,
        combine=percent,
    ),
    LOSS,
)
