"""Recurrences over time, forward and backward: the job of recurrence.c."""

# T steps · B rows · D width · P blocks of D computed from the inputs · S source length · K key width · C value width

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from weft.core.native.door import address, require
from weft.core.native.library import PRODUCT, TEAM, Library


@dataclass(frozen=True)
class Layout:
    """What the compiled code expects of a cell: so many blocks in pre and in `first`, and further arrays."""

    blocks: int
    matrices: int  # in `first`
    more: tuple[str, ...] = ()


CELLS = {
    "elman": Layout(1, 1),
    "elman-sigmoid": Layout(1, 1),
    "lstm": Layout(4, 4, ("c",)),
    "lstm-f": Layout(3, 3, ("c",)),
    "lstm-i": Layout(3, 3, ("c",)),
    "lstm-o": Layout(3, 3, ("c",)),
    "gru": Layout(3, 2, ("second",)),
    "gru-after": Layout(3, 3, ("extra",)),
    "mut1": Layout(3, 1, ("second", "extra", "news")),
    "mut3": Layout(3, 2, ("second",)),
}  # in the order of recurrence.c
SCORES = ("none", "additive", "dot")
TAPS = 4  # of the location filter
SIZES = (
    "cell", "steps", "rows", "width", "blocks",
    "score", "source", "key_width", "value_width", "context_stride",
)  # fmt: skip
ARRAYS = (
    "pre", "first", "second", "extra", "h", "c", "acts", "mid", "news", "scratch",
    "mask", "lengths", "of_query", "weight", "location", "keys", "values", "of_context", "queries", "weights",
    "contexts", "dh", "dc", "dpre", "dcontexts", "dscores", "dqueries", "dkeys", "dweight", "dlocation",
)  # fmt: skip
DTYPES = {name: torch.float32 for name in ARRAYS} | {"mask": torch.bool, "lengths": torch.int64}
Arrays = Mapping[str, Tensor | None]


@dataclass(frozen=True)
class Problem:
    """A recurrence: its cell, its score (a name in SCORES), and all sizes."""

    cell: str
    steps: int
    rows: int
    width: int
    score: str = "none"
    source: int = 0
    key_width: int = 0
    value_width: int = 0
    context_stride: int = 0
    scale: float = 1.0

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes in the order of SIZES."""
        cells = list(CELLS)
        return (
            cells.index(self.cell), self.steps, self.rows, self.width, CELLS[self.cell].blocks,
            SCORES.index(self.score), self.source, self.key_width, self.value_width, self.context_stride,
        )  # fmt: skip

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every array, by name."""
        steps, rows, width, keys, values = self.steps, self.rows, self.width, self.key_width, self.value_width
        blocks, matrices = CELLS[self.cell].blocks * width, CELLS[self.cell].matrices * width
        states, new, gates = (steps + 1, rows, width), (steps, rows, width), (steps, rows, blocks)
        queries, weights, contexts = (steps, rows, keys), (steps, rows, self.source), (steps, rows, values)
        source_keys, source_values = (rows, self.source, keys), (rows, self.source, values)
        return {
            "pre": gates, "first": (matrices, width), "second": (width, width), "extra": (width,), "h": states,
            "c": states, "acts": gates, "mid": new, "news": new, "scratch": (rows, width),
            "mask": (rows, self.source), "lengths": (rows,), "of_query": (keys, width), "weight": (keys,),
            "location": (TAPS,), "keys": source_keys, "values": source_values, "of_context": (blocks, values),
            "queries": queries, "weights": weights, "contexts": contexts,
            "dh": states, "dc": (rows, width), "dpre": gates, "dcontexts": contexts, "dscores": weights,
            "dqueries": queries, "dkeys": source_keys, "dweight": (rows, keys), "dlocation": (rows, TAPS),
        }  # fmt: skip


@cache
def needed(cell: str, score: str, backward: bool) -> frozenset[str]:
    """The arrays without which C would follow a null pointer."""
    more = CELLS[cell].more
    names = {"first", "h", "acts", "mid", "scratch", *more, *(("dh", "dpre") if backward else ("pre",))}
    if backward and "c" in more:
        names.add("dc")
    if score != "none":
        names |= {"lengths", "keys", "values", "of_context", "weights", "contexts"}
        names |= {"dcontexts", "dscores"} if backward else {"mask"}
    if score == "additive":
        names |= {"of_query", "weight", "queries"}
        names |= {"dqueries", "dkeys", "dweight"} if backward else set()
    return frozenset(names)


class _Job(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in PRODUCT | TEAM),
        *((name, ctypes.c_int32) for name in SIZES),
        ("scale", ctypes.c_float),
        *((name, ctypes.c_void_p) for name in ARRAYS),
    )


class Recurrence:
    """All steps in one call; arrays are given by name and written in place."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._forward, self._backward = (library.function(f"weft_{way}", _Job) for way in ("forward", "backward"))

    def forward(self, problem: Problem, arrays: Arrays) -> None:
        """Compute the states, and with attention the weights and contexts."""
        self._forward(ctypes.byref(self._job(problem, arrays, backward=False)))

    def backward(self, problem: Problem, arrays: Arrays) -> None:
        """Compute the gradients from what `forward` left in the arrays."""
        require("location" not in arrays or (arrays["location"] is None) == (arrays["dlocation"] is None), "dlocation")
        self._backward(ctypes.byref(self._job(problem, arrays, backward=True)))

    def _job(self, problem: Problem, arrays: Arrays, backward: bool) -> _Job:
        require(problem.score != "dot" or problem.key_width == problem.width, "dot products need keys as wide as h")
        shapes, missing = problem.shapes, needed(problem.cell, problem.score, backward)
        addresses: list[int | None] = []
        for name in ARRAYS:
            array = arrays.get(name)
            if array is not None:
                strides = (problem.context_stride, 1) if name == "of_context" else None
                addresses.append(address(name, array, shapes[name], DTYPES[name], strides))
            else:
                require(name not in missing, f"{problem.cell} with score {problem.score} needs {name}")
                addresses.append(None)
        tools = self._library.functions["product"], *self._library.team()
        return _Job(*tools, *problem.sizes, problem.scale, *addresses)
