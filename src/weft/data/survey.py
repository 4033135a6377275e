"""A survey of the training pairs: how many, how long, of what symbols. The autopilot and `weft data` read it.

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from weft.core.pair import Pair
from weft.data.blocks import Block, blocks_of
from weft.data.text.relation import Relation, RelationSurvey
from weft.data.text.tokens import marks_of

DISTINCT_WORDS = 300_000  # beyond this many the number of distinct words is "many", and no longer counted
ALL_ROWS, SOME_ROWS = 100_000, 16
LONG_SHARE = 0.99
FEWEST_PAIRS = 50  # with fewer pairs than this nothing is held out
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
    hold_out_below: int = 0  # rows whose shuffle key is below this are held out

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
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Survey:
        """Return the survey that `asdict` made this of."""
        sides = {side: SideSurvey(**content[side]) for side in ("source", "target")}
        relation = Relation(**content["relation"])
        return cls(**{**content, **sides, "relation": relation, "marks": tuple(content["marks"])})


def shuffle_keys(sources: Iterable[str]) -> list[int]:
    """Return keys that put rows into a fixed random order, by their sources; rows of one source have the same key."""
    return [zlib.crc32(source.encode()) for source in sources]


class _Side:
    """Collects what a SideSurvey says."""

    def __init__(self) -> None:
        self.lengths, self.word_counts = array("i"), array("i")
        self.characters: Counter[str] = Counter()
        self.words: Counter[str] = Counter()
        self.spaced = 0
        self._first: str | None = None
        self._same = True

    def add(self, texts: Sequence[str]) -> None:
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


class _HeldOut:
    """The rows that come first in the fixed random order: a share of all, and at most about LARGEST_HOLD_OUT."""

    def __init__(self, share: float) -> None:
        self.share, self.rows = share, 0
        self._first: list[tuple[int, int, Pair]] = []  # a heap, the last in the order on top

    def add(self, block: Block, keys: Sequence[int]) -> None:
        full = len(self._first) > 2 * LARGEST_HOLD_OUT
        last = -self._first[0][0] if full else 0
        for row in [n for n, key in enumerate(keys) if key < last] if full else range(len(keys)):
            item = (-keys[row], self.rows + row + 1, block.pair(row))
            if len(self._first) <= 2 * LARGEST_HOLD_OUT:
                heapq.heappush(self._first, item)
            elif item[0] > self._first[0][0]:
                heapq.heapreplace(self._first, item)
        self.rows += len(keys)

    def result(self) -> tuple[int, list[Pair]]:
        """Return the key below which rows are held out, and those rows in the order of the file."""
        if self.rows < FEWEST_PAIRS or self.share == 0:
            return 0, []
        count = min(LARGEST_HOLD_OUT, self.rows // 2, max(SMALLEST_HOLD_OUT, round(self.share * self.rows)))
        keys = sorted(-first for first, _, _ in self._first)
        threshold = keys[count]
        if 2 * bisect_left(keys, threshold) < count:  # a frequent source stands at the border: with it, unless it is
            beyond = bisect_right(keys, threshold)  # too much of all
            threshold = keys[beyond] if beyond < min(len(keys), 2 * count) else threshold
        held_out = [(row, pair) for first, row, pair in self._first if -first < threshold]
        return threshold, [pair for _, pair in sorted(held_out, key=lambda item: item[0])]


class Surveyor:
    """Collects a survey, block by block; `hold_out` is the share of pairs to hold out (0: none)."""

    def __init__(self, hold_out: float) -> None:
        self._source, self._target = _Side(), _Side()
        self._held_out, self._related = _HeldOut(hold_out), RelationSurvey()
        self._marks: set[str] = set()
        self._source_lengths = array("i")  # one a target

    def add(self, block: Block, keys: Sequence[int]) -> None:
        """Add pairs, with the shuffle keys of their sources."""
        self._source.add(block.sources)
        self._target.add(list(block.all_targets()))
        self._source_lengths.extend(map(len, block.sources))
        self._held_out.add(block, keys)
        self._related.add(block, keys)
        for row, extras in block.extras.items():
            self._marks.update(marks_of(block.pair(row)))
            self._source_lengths.extend([len(block.sources[row])] * len(extras.references))

    def result(self) -> tuple[Survey, list[Pair]]:
        """Return the survey and the pairs that are held out."""
        rows = self._held_out.rows
        ratios = np.asarray(self._target.lengths) / np.maximum(1, np.asarray(self._source_lengths))
        threshold, held_out = self._held_out.result()
        survey = Survey(
            pairs=rows,
            source=self._source.result(),
            target=self._target.result(),
            marks=tuple(sorted(self._marks)),
            longest_ratio=float(np.quantile(ratios, 0.999)),
            relation=self._related.result(),
            hold_out_below=threshold,
        )
        return survey, held_out


def survey(pairs: Iterable[Pair], hold_out: float) -> tuple[Survey, list[Pair]]:
    """Return the survey of some pairs, and those that are held out, about the share `hold_out` (0: none)."""
    surveyor = Surveyor(hold_out)
    for block in blocks_of(pairs):
        surveyor.add(block, shuffle_keys(block.sources))
    return surveyor.result()
