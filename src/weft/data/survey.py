"""A survey of the training pairs: how many, how long, of what symbols. The autopilot and `weft data` read it.

One pass, in memory that grows by a few numbers a row. What is collected of a column depends on its kind (data/sides).
"""

from __future__ import annotations

import heapq
import json
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from weft.core.counts import row_unit
from weft.core.pair import Pair
from weft.data.blocks import Block, blocks_of
from weft.data.sides.side import Collector
from weft.data.sides.table import KINDS
from weft.data.sides.text import SideSurvey, TextCollector
from weft.data.text.relation import Relation, RelationSurvey
from weft.data.text.tokens import marks_of

FEWEST_PAIRS = 50  # with fewer pairs than this nothing is held out
SMALLEST_HOLD_OUT, LARGEST_HOLD_OUT = 10, 1000
TEXT_PAIRS = {"source": "text", "target": "text"}


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
    context: SideSurvey = field(default_factory=SideSurvey)
    kinds: dict[str, str] = field(default_factory=dict)  # by role
    columns: dict[str, dict[str, Any]] = field(default_factory=dict)  # by role, of columns that are not text
    tags: dict[str, int] = field(default_factory=dict)  # rows by tag; of swapped pairs, those of one way
    written: dict[str, int] = field(default_factory=dict)  # rows by tag, of swapped pairs those of both ways
    mirrored: float = 0.0  # share of the sources that are targets of other rows; only where rows have tags
    running: bool = False  # whether the rows are pieces of a running text

    def kind(self, role: str) -> str:
        """Return the kind of a column; "none" if there is none in this role."""
        return self.kinds.get(role, "none" if role == "context" else "text")

    @property
    def alone(self) -> bool:
        """Whether the target is the only column."""
        return self.kind("source") == "none"

    @property
    def unit(self) -> str:
        """What a row is called."""
        return row_unit(self.alone)

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
        sides = {side: SideSurvey(**content[side]) for side in ("source", "target", "context")}
        relation = Relation(**content["relation"])
        return cls(**{**content, **sides, "relation": relation, "marks": tuple(content["marks"])})


def shuffle_keys(sources: Iterable[str]) -> list[int]:
    """Return keys that put rows into a fixed random order, by their sources; rows of one source have the same key."""
    return [zlib.crc32(source.encode()) for source in sources]


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
    """Collects a survey, block by block; `hold_out` is the share of pairs to hold out (0: none).

    `kinds` holds the kind of each column by role, at the latest when the first block comes.
    """

    def __init__(self, hold_out: float, kinds: Mapping[str, str] = TEXT_PAIRS) -> None:
        self._kinds, self._collectors = kinds, dict[str, Collector]()
        self._held_out, self._related = _HeldOut(hold_out), RelationSurvey()
        self._marks: set[str] = set()
        self._source_lengths = array("i")  # one a target

    def add(self, block: Block, keys: Sequence[int]) -> None:
        """Add pairs, with the shuffle keys of their sources."""
        if not self._collectors:
            self._collectors = {role: KINDS[kind]().collector() for role, kind in self._kinds.items()}
        for role, collector in self._collectors.items():
            collector.add(block, role)
        self._held_out.add(block, keys)
        if dict(self._kinds) == TEXT_PAIRS:
            self._related.add(block, keys)
            self._source_lengths.extend(map(len, block.sources))
            for row, extras in block.extras.items():
                self._source_lengths.extend([len(block.sources[row])] * len(extras.references))
        for row in block.extras:
            self._marks.update(marks_of(block.pair(row)))

    def result(self) -> tuple[Survey, list[Pair]]:
        """Return the survey and the pairs that are held out."""
        threshold, held_out = self._held_out.result()
        texts = {role: c.survey() for role, c in self._collectors.items() if isinstance(c, TextCollector)}
        survey = Survey(
            pairs=self._held_out.rows,
            source=texts.get("source", SideSurvey()),
            target=texts.get("target", SideSurvey()),
            marks=tuple(sorted(self._marks)),
            longest_ratio=self._longest_ratio(),
            relation=self._related.result() if self._source_lengths else Relation(),
            hold_out_below=threshold,
            context=texts.get("context", SideSurvey()),
            kinds=dict(self._kinds),
            columns={role: c.result() for role, c in self._collectors.items() if role not in texts},
        )
        return survey, held_out

    def _longest_ratio(self) -> float:
        """Return the 99.9th percentile of target characters per source character, where both are text."""
        target = self._collectors["target"]
        if not self._source_lengths or not isinstance(target, TextCollector):
            return 1.0
        ratios = np.asarray(target.lengths) / np.maximum(1, np.asarray(self._source_lengths))
        return float(np.quantile(ratios, 0.999))


def survey(pairs: Iterable[Pair], hold_out: float) -> tuple[Survey, list[Pair]]:
    """Return the survey of some pairs, and those that are held out, about the share `hold_out` (0: none)."""
    surveyor = Surveyor(hold_out)
    for block in blocks_of(pairs):
        surveyor.add(block, shuffle_keys(block.sources))
    return surveyor.result()
