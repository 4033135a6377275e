"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004) of summaries, as rouge-score computes them without stemming.

Texts are compared in lower case, as words of the letters a–z and digits. Each is the mean over lines of F1, in percent;
of several references the best counts. For languages with other letters, use chrF.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from weft.score.table import LineNumbers, Metric, References, percent, sums_of

SIGNATURE = "rouge-score:f1|words:[a-z0-9]+|lower-case|stemmer:no|references:best"
_WORD = re.compile(r"[a-z0-9]+")


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def ngram_f1(output: Sequence[str], reference: Sequence[str], size: int) -> float:
    """Return the F1 score of n-grams."""
    ours, theirs = (
        Counter(tuple(words[at : at + size]) for at in range(len(words) - size + 1)) for words in (output, reference)
    )
    return _f1((ours & theirs).total(), ours.total(), theirs.total())


def subsequence_f1(output: Sequence[str], reference: Sequence[str]) -> float:
    """Return the F1 score of the longest common subsequence."""
    return _f1(common(output, reference), len(output), len(reference))


def common(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, by the bits of whole numbers (Hyyrö 2004)."""
    positions: dict[str, int] = {}
    for at, word in enumerate(second):
        positions[word] = positions.get(word, 0) | 1 << at
    everything = (1 << len(second)) - 1
    row = everything
    for word in first:
        matched = row & positions.get(word, 0)
        row = (row + matched | row - matched) & everything
    return len(second) - row.bit_count()


def _f1(both: int, ours: int, theirs: int) -> float:
    return 2 * both / (ours + theirs) if both else 0.0


def _line(score: Callable[[Sequence[str], Sequence[str]], float]) -> LineNumbers:
    def numbers(output: Any, references: Sequence[Any]) -> tuple[float, int]:
        words = words_of(output)
        if not output and "" in references:
            return 1.0, 1  # nothing is written where nothing is wanted
        return max(score(words, words_of(reference)) for reference in references), 1

    return numbers


def _signature(references: References | None) -> str:
    return SIGNATURE


def _metric(name: str, what: str, score: Callable[[Sequence[str], Sequence[str]], float], least: int = 1) -> Metric:
    line = _line(score)
    return Metric(
        name=name,
        label=name.replace("rouge", "ROUGE-"),
        better="higher",
        explain=f"F1 score of {what} of output and nearest reference, for summaries",
        corpus=sums_of(line, percent),
        line=line,
        combine=percent,
        reported="never",
        signature=_signature if name == "rouge1" else None,
        applies=lambda reference: len(words_of(reference)) >= least,
    )


ROUGE = (
    _metric("rouge1", "the words", lambda output, reference: ngram_f1(output, reference, 1)),
    _metric("rouge2", "the pairs of neighbouring words", lambda output, reference: ngram_f1(output, reference, 2), 2),
    _metric("rougeL", "the longest common subsequence of words", subsequence_f1),
)
