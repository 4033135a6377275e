"""Recurrences over time, forward and backward: the job of recurrence.c."""

# T steps · B rows · D width · P blocks of D computed from the inputs · S source length · K key width · C value width

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from weft.core.native.door import address, refuse
from weft.core.native.library import PRODUCT, TEAM, Library


class Layout(NamedTuple):
    """What the compiled code expects of a cell: so many blocks in `pre` and in `first`, and further arrays."""

    blocks: int
    matrices: int
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
CELL_NUMBERS = {name: number for number, name in enumerate(CELLS)}
SCORES = ("none", "additive", "dot")  # in the order of recurrence.c
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
DTYPES = dict.fromkeys(ARRAYS, torch.float32) | {"mask": torch.bool, "lengths": torch.int64}
Arrays = Mapping[str, Tensor | None]


class Problem(NamedTuple):
    """A recurrence: the name of its cell, the name of its score, and all sizes."""

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

    def sizes(self) -> tuple[int, ...]:
        """Return the sizes in the order of SIZES."""
        return (
            CELL_NUMBERS[self.cell], self.steps, self.rows, self.width, CELLS[self.cell].blocks,
            SCORES.index(self.score), self.source, self.key_width, self.value_width, self.context_stride,
        )  # fmt: skip

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every array, by name."""
        _, steps, rows, width, _, source, keys, values, _, _ = self
        blocks, matrices, _ = CELLS[self.cell]
        states, new, gates = (steps + 1, rows, width), (steps, rows, width), (steps, rows, blocks * width)
        queries, weights, contexts = (steps, rows, keys), (steps, rows, source), (steps, rows, values)
        return {
            "pre": gates, "first": (matrices * width, width), "second": (width, width), "extra": (width,), "h": states,
            "c": states, "acts": gates, "mid": new, "news": new, "scratch": (rows, width),
            "mask": (rows, source), "lengths": (rows,), "of_query": (keys, width), "weight": (keys,),
            "location": (TAPS,), "keys": (rows, source, keys), "values": (rows, source, values),
            "of_context": (blocks * width, values), "queries": queries, "weights": weights, "contexts": contexts,
            "dh": states, "dc": (rows, width), "dpre": gates, "dcontexts": contexts, "dscores": weights,
            "dqueries": queries, "dkeys": (rows, source, keys), "dweight": (rows, keys), "dlocation": (rows, TAPS),
        }  # fmt: skip


@cache
def arrays_of(cell: str, score: str, located: bool, backward: bool) -> tuple[str, ...]:
    """Return the names of the arrays that the compiled code uses; without one, it would follow a null pointer."""
    more = CELLS[cell].more
    names = ["first", "h", "acts", "mid", "scratch", *more, *(("dh", "dpre") if backward else ("pre",))]
    names += ["dc"] if backward and "c" in more else []
    if score != "none":
        names += ["lengths", "keys", "values", "of_context", "weights", "contexts"]
        names += ["dcontexts", "dscores"] if backward else ["mask"]
    if score == "additive":
        names += ["of_query", "weight", "queries", *(("dqueries", "dkeys", "dweight") if backward else ())]
    if located:
        names += ["location", *(["dlocation"] if backward else [])]
    return tuple(names)


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
        self._backward(ctypes.byref(self._job(problem, arrays, backward=True)))

    def _job(self, problem: Problem, arrays: Arrays, backward: bool) -> _Job:
        if problem.score == "dot" and problem.key_width != problem.width:
            raise refuse(f"dot products of h need keys of its width {problem.width}, not {problem.key_width}")
        job = _Job(self._library.functions["product"], *self._library.team(), *problem.sizes(), problem.scale)
        shapes, located = problem.shapes(), arrays.get("location") is not None
        for name in arrays_of(problem.cell, problem.score, located, backward):
            array = arrays.get(name)
            if array is None:
                raise refuse(f"{problem.cell} with score {problem.score} needs the array {name}")
            strides = (problem.context_stride, 1) if name == "of_context" else None
            setattr(job, name, address(name, array, shapes[name], DTYPES[name], strides))
        return job
