"""Text: its side is a tokeniser (data/text/tokens.py)."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from weft.data.blocks import Block
from weft.data.formats import Fault
from weft.data.records import NumbersText
from weft.data.sides.side import Side, block_cells

DISTINCT_WORDS = 300_000  # beyond this many the number of distinct words is "many", and no longer counted
ALL_ROWS, SOME_ROWS = 100_000, 16  # symbols are counted in each of the first rows, and beyond in one row of so many
LONG_SHARE = 0.99


@dataclass(frozen=True)
class SideSurvey:
    """One side of the pairs. Lengths are in characters; words are what stands between spaces."""

    mean: float = 0.0
    longest: int = 0
    long: int = 0  # 99 rows of 100 are not longer
    mean_words: float = 0.0
    long_words: int = 0
    distinct_words: int = 0
    mean_word: float = 0.0  # the mean length of a word
    characters: dict[str, int] = field(default_factory=dict)
    spaced: float = 0.0  # the share of rows with a space in them
    once: float = 0.0  # of all words, the share of those that stand there only once
    same: bool = False  # whether all rows have one and the same text


class TextCollector:
    """Collects what a SideSurvey says."""

    def __init__(self) -> None:
        self.lengths, self.word_counts = array("i"), array("i")
        self.characters: Counter[str] = Counter()
        self.words: Counter[str] = Counter()
        self.spaced = 0
        self._first: str | None = None
        self._same = True

    def add(self, block: Block, role: str) -> None:
        texts = block_cells(block, role)
        if self._first is None:
            self._first = texts[0]
        if self._same:
            self._same = all(text == self._first for text in texts)
        words = [text.split() for text in texts]
        counts = list(map(len, words))
        self.spaced += sum(count > 1 for count in counts)
        self.lengths.extend(map(len, texts))
        self.word_counts.extend(counts)
        self._add_symbols(texts, words)

    def _add_symbols(self, texts: Sequence[str], words: Sequence[Sequence[str]]) -> None:
        before = len(self.lengths) - len(texts)
        rows = [n for n in range(len(texts)) if before + n < ALL_ROWS or (before + n + 1) % SOME_ROWS == 0]
        self.characters.update("".join([texts[n] for n in rows]))
        for n in rows:
            if len(self.words) >= DISTINCT_WORDS:
                break
            self.words.update(words[n])

    def result(self) -> dict[str, Any]:
        return asdict(self.survey())

    def survey(self) -> SideSurvey:
        lengths, words = np.asarray(self.lengths), np.asarray(self.word_counts)
        rows = max(1, len(lengths))
        return SideSurvey(
            mean=float(lengths.mean()),
            longest=int(lengths.max()),
            long=int(np.quantile(lengths, LONG_SHARE)),
            mean_words=float(words.mean()),
            long_words=int(np.quantile(words, LONG_SHARE)),
            distinct_words=len(self.words),
            mean_word=float((lengths.sum() - words.sum() + rows) / max(1, words.sum())),
            characters=dict(sorted(self.characters.items(), key=lambda item: (-item[1], item[0]))),
            spaced=self.spaced / rows,
            once=sum(n == 1 for n in self.words.values()) / max(1, self.words.total()),
            same=self._same,
        )


class TextKind:
    """Reads and surveys a column of text."""

    def fault(self, role: str, cell: str, longest: int) -> Fault | None:
        if not cell or cell.isspace():
            return Fault(f"the {role} is empty", f"fill in the {role}")
        if len(cell) > longest:
            return Fault(
                f"the {role} has {len(cell):,} characters, but the limit is {longest:,}", "shorten or split it"
            )
        if isinstance(cell, NumbersText):
            todo = f"write text there, or set {role}.kind=numbers if the column holds numbers"
            return Fault(f"the {role} is a list of numbers, not text", todo)
        return None

    def collector(self) -> TextCollector:
        return TextCollector()

    def describe(self, survey: Mapping[str, Any]) -> dict[str, str]:
        frequent = "".join(c for c in list(survey["characters"])[:24] if c.isprintable())
        return {
            "mean length": f"{survey['mean']:.1f}",
            "longest": f"{survey['longest']:,}",
            "mean words": f"{survey['mean_words']:.1f}",
            "distinct words": f"{survey['distinct_words']:,}",
            "distinct characters": f"{len(survey['characters']):,}",
            "most frequent": frequent,
        }

    def load(self, content: Mapping[str, Any]) -> Side:
        from weft.data.text.tokens import from_json

        return from_json(json.dumps(content), "")
