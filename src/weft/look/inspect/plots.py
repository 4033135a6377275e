"""What a view shows, as plots that describe themselves: the page, the pictures and the JSON are all made of these.

A view returns named plots; each becomes a JSON object with its `plot` (the kind) and its numbers. The page has one
renderer for each kind (`page/*.js`), `pictures.py` another for papers. So a view is one Python file.
"""

# R rows · C columns · N tokens

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

DIGITS = 5  # significant digits of a number
DECIMALS = 4  # of the values of a heat map or of shaded text: they are colours
Scale = Literal["share", "size", "signed"]
"""From 0 to 1; from 0 to the largest value; from −largest to +largest."""
Array = npt.NDArray[np.floating[Any]]
Cell = str | float | int | None


class Plot(Protocol):
    """Anything that the page can draw."""

    def to_json(self) -> dict[str, Any]: ...


Plots = Mapping[str, Plot]


class _Described:
    """Turns a dataclass into JSON, field by field; empty optional fields are left out."""

    plot: str

    def to_json(self) -> dict[str, Any]:
        content = {each.name: as_json(self.__dict__[each.name]) for each in fields(self)}  # type: ignore[arg-type]
        return {
            "plot": self.plot,
            **{name: value for name, value in content.items() if value not in (None, "", [], False)},
        }


@dataclass(frozen=True)
class Panel:
    """One matrix (R, C) of a heat map, or one row (N,) of shaded text."""

    name: str
    values: Array

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "values": as_json(np.round(np.asarray(self.values, dtype=np.float64), DECIMALS))}


@dataclass(frozen=True)
class Heat(_Described):
    """Matrices over the same rows and columns; the page shows one at a time, and links between symbols on hover."""

    plot = "heat"
    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    panels: Sequence[Panel]
    row_name: str = "output"
    column_name: str = "input"
    scale: Scale = "share"
    note: str = ""
    track: Array | None = None  # (F, C): what the columns are, where they are no symbols
    picture: Array | None = None  # (height, width): what the columns are the cells of, row by row
    grid_rows: int = 0  # of these cells


@dataclass(frozen=True)
class Shaded(_Described):
    """A text coloured by a number at each token, for one or several units."""

    plot = "shaded"
    title: str
    tokens: Sequence[str]
    panels: Sequence[Panel]
    scale: Scale = "signed"
    note: str = ""
    spaced: bool = False  # whether there is a space between tokens


@dataclass(frozen=True)
class Table(_Described):
    """Rows of words and numbers; `warn` names rows that deserve attention, by their index, and `marks` says why.

    With `opens`, the first cell is the number of a line, which a click shows.
    """

    plot = "table"
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    warn: Sequence[int] = ()
    marks: str = ""
    opens: bool = False


@dataclass(frozen=True)
class Series:
    """One curve; `low` and `high` are its interval."""

    name: str
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()

    def to_json(self) -> dict[str, Any]:
        content = {"name": self.name, "y": as_json(self.y), "low": as_json(self.low), "high": as_json(self.high)}
        return {name: value for name, value in content.items() if value != []}


@dataclass(frozen=True)
class Curves(_Described):
    plot = "curves"
    title: str
    x_name: str
    y_name: str
    x: Sequence[float]
    series: Sequence[Series]
    log: bool = False
    log_x: bool = False
    note: str = ""


@dataclass(frozen=True)
class Branch:
    """A node of a search tree: a symbol written after its parent's."""

    id: int
    parent: int  # −1: the root
    symbol: str
    log_prob: float  # of this symbol
    total: float  # of everything up to here
    rank: float  # what the search ranks by: total / length^α
    fate: str  # kept, pruned, ended

    def to_json(self) -> dict[str, Any]:
        return {each.name: as_json(self.__dict__[each.name]) for each in fields(self)}


@dataclass(frozen=True)
class Tree(_Described):
    plot = "tree"
    title: str
    nodes: Sequence[Branch]
    best: Sequence[int] = ()  # ids of the nodes of the output
    right: Sequence[int] = ()  # ids of those of the given output that the search saw
    note: str = ""


@dataclass(frozen=True)
class Facts(_Described):
    """A few named values; `verdict` is a sentence that the reader should not miss, `warn` whether it is a warning."""

    plot = "facts"
    title: str
    items: Mapping[str, Cell] = field(default_factory=dict)
    verdict: str = ""
    warn: bool = False
    note: str = ""


def as_json(value: Any) -> Any:
    """Return what JSON can hold: numbers of a few digits, null for what is not finite."""
    if isinstance(value, np.ndarray):
        return as_json(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple | range):
        return [as_json(each) for each in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float | np.floating):
        return rounded(float(value))
    if isinstance(value, np.integer):
        return int(value)
    return value.to_json()


def rounded(value: float) -> float | int | None:
    """Return a number of DIGITS significant digits, without a fraction where it has none; None if it is not finite."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short
