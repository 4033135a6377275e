"""Recurrences over time: the jobs of recurrence.c."""

from __future__ import annotations

import ctypes

import torch

from weft.core.native.library import PRODUCT, TEAM, Tools, team

CELLS = (
    "elman", "elman-sigmoid", "lstm", "lstm-f", "lstm-i", "lstm-o", "gru", "gru-after", "mut1", "mut3",
)  # as in recurrence.c  # fmt: skip
SCORES = ("none", "additive", "dot")
SIZES = (
    "cell", "steps", "rows", "width", "blocks",
    "score", "source", "key_width", "value_width", "context_stride",
)  # fmt: skip
ARRAYS = (
    "pre", "first", "second", "extra", "h", "c", "acts", "mid", "news", "scratch",
    "lengths", "of_query", "weight", "moves", "keys", "values", "of_context", "queries", "weights", "contexts",
    "dh", "dc", "dpre", "dcontexts", "dscores", "dqueries", "dkeys", "dweight", "dmoves",
)  # fmt: skip


class Job(ctypes.Structure):
    """The struct of the same name in recurrence.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in PRODUCT | TEAM),
        *((name, ctypes.c_int32) for name in SIZES),
        ("scale", ctypes.c_float),
        *((name, ctypes.c_void_p) for name in ARRAYS),
    )


JOBS = (Job,)


class Recurrence:
    """Forward and backward; arrays are given by name, sizes too."""

    def __init__(self, library: ctypes.CDLL, tools: Tools) -> None:
        self._forward, self._backward, self._tools = library.weft_forward, library.weft_backward, tools
        for entry in (self._forward, self._backward):
            entry.argtypes, entry.restype = [ctypes.POINTER(Job)], None

    def forward(self, sizes: dict[str, int], scale: float, **arrays: torch.Tensor | None) -> None:
        self._forward(ctypes.byref(self._job(sizes, scale, arrays)))

    def backward(self, sizes: dict[str, int], scale: float, **arrays: torch.Tensor | None) -> None:
        self._backward(ctypes.byref(self._job(sizes, scale, arrays)))

    def _job(self, sizes: dict[str, int], scale: float, arrays: dict[str, torch.Tensor | None]) -> Job:
        places = {name: None if array is None else array.data_ptr() for name, array in arrays.items()}
        return Job(product=self._tools["product"], **team(self._tools), **sizes, scale=scale, **places)
