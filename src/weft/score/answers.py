"""Scores of answers: exact match and F1 of words, as SQuAD's script computes them (Rajpurkar 2016, 2018).

Texts are compared without case, punctuation, the articles a, an and the, and further spaces; of several references the
best counts. Where a question has no answer, the output is right if it is empty.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from weft.score.rouge import ROUGE
from weft.score.table import Metric, Table, mean, percent, sums_of

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


def normalised(text: str) -> str:
    """Return a text as it is compared."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _equal(output: str, references: Sequence[str]) -> tuple[int, int]:
    """Return whether the output is one of the answers, and 1 for the line."""
    return int(normalised(output) in map(normalised, references)), 1


def _overlap(output: str, references: Sequence[str]) -> tuple[float, int]:
    """Return the best F1 score of words with one of the answers, and 1 for the line."""
    return max(f1(output, reference) for reference in references), 1


def f1(output: str, reference: str) -> float:
    """Return the harmonic mean of precision and recall of words."""
    ours, theirs = Counter(normalised(output).split()), Counter(normalised(reference).split())
    if not ours or not theirs:
        return float(ours == theirs)
    return 2 * (ours & theirs).total() / (ours.total() + theirs.total())


ANSWERS = Table(
    Metric(
        name="exact",
        label="exact match (%)",
        better="higher",
        explain="percentage of answers that equal a right one, but for case, punctuation and articles",
        corpus=sums_of(_equal, percent),
        line=_equal,
        combine=percent,
    ),
    Metric(
        name="f1",
        label="F1 (%)",
        better="higher",
        explain="mean F1 score of the words of an answer and of the nearest right one, in percent",
        corpus=sums_of(_overlap, percent),
        line=_overlap,
        combine=percent,
    ),
    *ROUGE,
    Metric(
        name="loss",
        label="validation loss (nats per answer)",
        better="lower",
        explain="nats per answer",
        combine=mean,
        unit="nats",
        reported="never",
    ),
)
