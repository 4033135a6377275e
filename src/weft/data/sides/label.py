"""Labels: one name for a sequence (`label`), or one for each of its words (`labels`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from weft.core.pair import SPECIALS, UNKNOWN, Pair
from weft.core.shapes import Symbols
from weft.data.blocks import Block
from weft.data.formats import Fault
from weft.data.sides.side import Row, Rows, block_cells, cells

FORMAT = 1
LONGEST_NAME = 200  # characters
FREQUENT = 5  # labels that are shown
UNKNOWN_NAME = "�"


class Label:
    """One name for each sequence; its ids begin after those of the special symbols, as those of tokens do."""

    kind = "label"

    def __init__(self, names: Sequence[str], counts: Sequence[int]) -> None:
        self.names_of_labels, self.counts = list(names), list(counts)
        self._ids = {name: len(SPECIALS) + number for number, name in enumerate(self.names_of_labels)}
        self.first = len(SPECIALS)

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.names_of_labels)

    @property
    def shape(self) -> Symbols:
        return Symbols(len(self), ended=False, in_step=False)

    @property
    def names(self) -> list[str]:
        """The name of every id."""
        return [*SPECIALS, *self.names_of_labels]

    def rows(self, pairs: Sequence[Pair], role: str) -> Rows:
        return [self._encode(cell) for cell in cells(pairs, role)]

    def _encode(self, cell: str) -> list[int]:
        return [self._ids.get(name, UNKNOWN) for name in self._split(cell)]

    def text(self, row: Row, pair: Pair) -> str:
        return " ".join(self.names[int(i)] if i >= self.first else UNKNOWN_NAME for i in row)

    @property
    def baseline_name(self) -> str:
        return f"always the most frequent label of training ({self._most_frequent})"

    def baseline(self, pair: Pair) -> str:
        return " ".join(self._most_frequent for _ in self._split(pair.target))

    @property
    def _most_frequent(self) -> str:
        return max(zip(self.counts, self.names_of_labels), key=lambda each: each[0])[1]

    def to_json(self) -> str:
        labels = dict(zip(self.names_of_labels, self.counts))
        content = {"format": FORMAT, "kind": self.kind, "labels": labels}
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"

    def knows(self, cell: str) -> bool:
        """Return whether training saw every label of a cell."""
        return all(name in self._ids for name in self._split(cell))

    @staticmethod
    def _split(cell: str) -> list[str]:
        return [cell.strip()]


class TokenLabels(Label):
    """A label for each word of the source, at single spaces like the words."""

    kind = "labels"

    @property
    def shape(self) -> Symbols:
        return Symbols(len(self), ended=False, in_step=True)

    @staticmethod
    def _split(cell: str) -> list[str]:
        return cell.split(" ")


class LabelCollector:
    """Counts labels."""

    def __init__(self, per_word: bool) -> None:
        self._counts: Counter[str] = Counter()
        self._per_word = per_word

    def add(self, block: Block, role: str) -> None:
        for cell in block_cells(block, role):
            self._counts.update(cell.split(" ") if self._per_word else (cell.strip(),))

    def result(self) -> dict[str, Any]:
        ordered = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return {"labels": dict(ordered)}


class LabelKind:
    """Reads and surveys a column of labels."""

    def __init__(self, side: type[Label]) -> None:
        self._side = side

    def fault(self, role: str, cell: str, longest: int) -> Fault | None:
        if not cell or cell.isspace():
            return Fault(f"the {role} is empty", "fill in the label")
        if self._side is Label and len(cell) > LONGEST_NAME:
            what = f"the {role} has {len(cell):,} characters, but a label has at most {LONGEST_NAME}"
            return Fault(what, "shorten it, or use --task transduce to learn running text")
        return None

    def collector(self) -> LabelCollector:
        return LabelCollector(per_word=self._side is TokenLabels)

    def describe(self, survey: Mapping[str, Any]) -> dict[str, str]:
        labels = survey["labels"]
        total, shown = sum(labels.values()), list(labels.items())[:FREQUENT]
        frequent = ", ".join(f"{name} {count / total:.0%}" for name, count in shown)
        once = sum(count == 1 for count in labels.values())
        return {"labels": f"{len(labels):,}", "most frequent": frequent, "labels seen once": f"{once:,}"}

    def load(self, content: Mapping[str, Any]) -> Label:
        if content["format"] != FORMAT:
            raise ValueError(f"the format is {content['format']}, but this version of Weft reads format {FORMAT}")
        return self._side(list(content["labels"]), list(content["labels"].values()))
