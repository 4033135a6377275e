"""What every kind of column promises: a `Kind` reads and surveys cells, a `Side` encodes and decodes them.

A side is one column's kind and what was learned about it. It is saved as source.json, target.json or context.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from weft.core.pair import Pair
from weft.core.shapes import Shape
from weft.data.blocks import Block
from weft.data.formats import Fault

Row = Sequence[int] | npt.NDArray[Any]  # ids (n,), or vectors (n, F)
Rows = Sequence[Row]
Flat = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]  # the rows of many cells one after the other, and their lengths
ROLES = ("source", "target", "context")


def cells(pairs: Sequence[Pair], role: str) -> list[str]:
    """Return the cells of a role."""
    if role == "source":
        return [pair.source for pair in pairs]
    return [pair.target if role == "target" else pair.context for pair in pairs]


def block_cells(block: Block, role: str) -> Sequence[str]:
    """Return the cells of a role in a block; of targets also all further references."""
    if role == "source":
        return block.sources
    if role == "target":
        return list(block.all_targets())
    return [block.extras[row].context if row in block.extras else "" for row in range(len(block))]


def steps_of(cell: str) -> int:
    """Return how many steps a cell of numbers or notes has; 0 for another."""
    if not cell.lstrip().startswith("["):
        return 0
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        return 0
    return len(value) if isinstance(value, list) else 0


class Side(Protocol):
    """One column's kind and what was learned about it; `role` is source, target or context."""

    @property
    def kind(self) -> str: ...

    @property
    def shape(self) -> Shape:
        """What the model has to know of it."""
        ...

    def rows(self, pairs: Sequence[Pair], role: str) -> Rows:
        """Encode the cells of a role."""
        ...

    def text(self, row: Any, pair: Pair) -> str:
        """Return the cell that an encoded target stands for; the pair is that of its source."""
        ...

    def to_json(self) -> str: ...


@runtime_checkable
class Measures(Protocol):
    """A side that knows, without encoding it, how much room a cell takes in a batch."""

    def cost(self, cell: str) -> int:
        """Return it in steps or frames."""
        ...


@runtime_checkable
class HasBaseline(Protocol):
    """A side of targets that can be predicted without a model, as a score to compare a model's with."""

    @property
    def baseline_name(self) -> str:
        """How the prediction is made, in words."""
        ...

    def baseline(self, pair: Pair) -> str:
        """Return the prediction, as long as the target of the pair."""
        ...


def measure_of(side: Side) -> Callable[[str], int]:
    """Return what says how much room a cell takes in a batch: its steps or frames; of all else, its characters."""
    return side.cost if isinstance(side, Measures) else len


class Collector(Protocol):
    """Collects what a survey says about the cells of a role, block by block."""

    def add(self, block: Block, role: str) -> None: ...

    def result(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        ...


class Kind(Protocol):
    """What is known of a kind of column before anything is learned."""

    def fault(self, role: str, cell: str, longest: int) -> Fault | None:
        """Return why a cell cannot be used, if so."""
        ...

    def collector(self) -> Collector:
        """Return what surveys a column of this kind."""
        ...

    def describe(self, survey: Mapping[str, Any]) -> dict[str, str]:
        """Return what the collector found, in words, for `weft data`."""
        ...

    def load(self, content: Mapping[str, Any]) -> Side:
        """Return a side as its `to_json` wrote it."""
        ...


@runtime_checkable
class NamesFiles(Protocol):
    """A kind whose cells are, or may be, names of files (`data/named_files.py`)."""

    endings: Sequence[str]  # of the files that it reads, in lower case

    def resolve(self, cell: str, folder: str) -> str:
        """Return a cell of a table in `folder` with a path in the place of a name; another cell as it is."""
        ...


@runtime_checkable
class ReadsFiles(NamesFiles, Protocol):
    """A kind whose files are read with the table: after that, a cell holds what the file did."""

    def contents(self, cell: str) -> str:
        """Return what the file of a resolved cell holds, as a cell; another cell as it is."""
        ...


@dataclass(frozen=True)
class Encoded:
    """The encoded cells of some pairs by role; no context where the run has none."""

    source: Rows
    target: Rows
    context: Rows | None = None

    def __len__(self) -> int:
        return len(self.source)

    def only(self, chosen: Sequence[int]) -> Encoded:
        """Return some of the pairs."""
        source, target = ([side[i] for i in chosen] for side in (self.source, self.target))
        return Encoded(source, target, None if self.context is None else [self.context[i] for i in chosen])
