"""A first look at the training pairs: how many, how long, of what symbols. The autopilot and `weft data` read it.

One pass, in memory that grows by a few numbers a row. Symbols are counted in every row of a small corpus, and beyond
ALL_ROWS in one row of SOME_ROWS.
"""

from __future__ import annotations

import heapq
import json
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from weft.core.pair import Pair
from weft.data.text.relation import Relation, RelationSurvey
from weft.data.text.tokens import marks_of

DISTINCT_WORDS = 300_000  # beyond this many the number of distinct words is "many", and no longer counted
ALL_ROWS, SOME_ROWS = 100_000, 16
LONG_SHARE = 0.99
FEWEST_PAIRS = 50  # with fewer pairs than this nothing is kept aside
SMALLEST_HOLD_OUT, LARGEST_HOLD_OUT = 10, 1000


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


@dataclass(frozen=True)
class Survey:
    """What the training pairs look like."""

    pairs: int
    source: SideSurvey
    target: SideSurvey
    marks: tuple[str, ...] = ()
    longest_ratio: float = 1.0  # target characters per source character, the 99.9th percentile
    relation: Relation = field(default_factory=Relation)
    hold_out_below: int = 0  # rows whose `place` is below this are kept aside

    @property
    def shared_characters(self) -> float:
        """The share of the target's characters, by use, that the source has too."""
        target = self.target.characters
        common = sum(n for c, n in target.items() if c in self.source.characters)
        return common / max(1, sum(target.values()))

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Survey:
        content: dict[str, Any] = json.loads(text)
        sides = {side: SideSurvey(**content.pop(side)) for side in ("source", "target")}
        relation = Relation(**content.pop("relation"))
        return cls(**{**content, **sides, "relation": relation, "marks": tuple(content["marks"])})


def place(pair: Pair) -> int:
    """Where a row stands in a fixed shuffling of all sources; rows of one source stand together."""
    return zlib.crc32(pair.source.encode())


class _Side:
    def __init__(self) -> None:
        self.lengths, self.word_counts = array("i"), array("i")
        self.characters: Counter[str] = Counter()
        self.words: Counter[str] = Counter()
        self.spaced = 0
        self._first: str | None = None
        self._same = True

    def add(self, text: str) -> None:
        words = text.split()
        if self._first is None:
            self._first = text
        self._same = self._same and text == self._first
        self.lengths.append(len(text))
        self.word_counts.append(len(words))
        self.spaced += len(words) > 1
        rows = len(self.lengths)
        if rows <= ALL_ROWS or rows % SOME_ROWS == 0:
            self.characters.update(text)
            if len(self.words) < DISTINCT_WORDS:
                self.words.update(words)

    def result(self) -> SideSurvey:
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


class _KeptAside:
    """The rows that stand first in the fixed shuffling: a share of all, and at most about LARGEST_HOLD_OUT."""

    def __init__(self, share: float) -> None:
        self.share, self.rows = share, 0
        self._first: list[tuple[int, int, Pair]] = []  # a heap, the last in the shuffling on top

    def add(self, pair: Pair) -> None:
        self.rows += 1
        item = (-place(pair), self.rows, pair)
        if len(self._first) <= 2 * LARGEST_HOLD_OUT:
            heapq.heappush(self._first, item)
        elif item[0] > self._first[0][0]:
            heapq.heapreplace(self._first, item)

    def result(self) -> tuple[int, list[Pair]]:
        """The place below which rows are kept aside, and those rows in the order of the file."""
        if self.rows < FEWEST_PAIRS or self.share == 0:
            return 0, []
        count = min(LARGEST_HOLD_OUT, self.rows // 2, max(SMALLEST_HOLD_OUT, round(self.share * self.rows)))
        places = sorted(-first for first, _, _ in self._first)
        threshold = places[count]
        if 2 * bisect_left(places, threshold) < count:  # a frequent source stands at the border: with it, unless it is
            beyond = bisect_right(places, threshold)  # too much of all
            threshold = places[beyond] if beyond < min(len(places), 2 * count) else threshold
        kept = [(row, pair) for first, row, pair in self._first if -first < threshold]
        return threshold, [pair for _, pair in sorted(kept, key=lambda item: item[0])]


def survey(pairs: Iterable[Pair], hold_out: float) -> tuple[Survey, list[Pair]]:
    """Look at every training pair once; with it come the pairs kept aside, about the share `hold_out` (0: none)."""
    source, target, aside, related = _Side(), _Side(), _KeptAside(hold_out), RelationSurvey()
    marks: set[str] = set()
    source_lengths = array("i")  # one a target
    for pair in pairs:
        source.add(pair.source)
        for text in pair.targets if pair.references else (pair.target,):
            target.add(text)
            source_lengths.append(len(pair.source))
        aside.add(pair)
        related.add(pair)
        marks.update(marks_of(pair))
    ratios = np.asarray(target.lengths) / np.maximum(1, np.asarray(source_lengths))
    threshold, kept = aside.result()
    return Survey(
        pairs=aside.rows,
        source=source.result(),
        target=target.result(),
        marks=tuple(sorted(marks)),
        longest_ratio=float(np.quantile(ratios, 0.999)),
        relation=related.result(),
        hold_out_below=threshold,
    ), kept
