"""Nothing: the source of tasks that have one column, such as language models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from weft.core.pair import Pair
from weft.core.shapes import Nothing
from weft.data.blocks import Block
from weft.data.formats import Fault
from weft.data.sides.corrupted import Corrupted
from weft.data.sides.side import Row, Rows

FORMAT = 1
MOST_TOKENS = 1_000_000  # of a window


@dataclass(frozen=True)
class NoColumn:
    """The side of a role that has no column: every row is empty.

    With a `window`, targets are pieces of a running text, of which so many tokens are read at once; `carried`: what a
    model has read before them counts, too.
    """

    window: int = 0
    carried: bool = False

    kind = "none"

    @property
    def shape(self) -> Nothing:
        return Nothing()

    def rows(self, pairs: Sequence[Pair], role: str) -> Rows:
        return [()] * len(pairs)

    def text(self, row: Row, pair: Pair) -> str:
        return ""

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, "kind": self.kind, **asdict(self)}) + "\n"


class NothingCollector:
    """Collects nothing."""

    def add(self, block: Block, role: str) -> None:
        return None

    def result(self) -> dict[str, Any]:
        return {}


class NothingKind:
    """What there is to know of a role without a column."""

    def fault(self, role: str, cell: str, longest: int) -> Fault | None:
        return None

    def collector(self) -> NothingCollector:
        return NothingCollector()

    def describe(self, survey: Mapping[str, Any]) -> dict[str, str]:
        return {}

    def load(self, content: Mapping[str, Any]) -> NoColumn | Corrupted:
        if "corrupts" in content:
            return Corrupted.load(content)
        if content["format"] != FORMAT or not 0 <= int(content["window"]) <= MOST_TOKENS:
            raise ValueError(f"format {content['format']}, window {content['window']}")
        return NoColumn(int(content["window"]), bool(content["carried"]))
