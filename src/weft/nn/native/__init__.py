"""The compiled recurrence, if it was built, with the tools that torch brings: its BLAS and its threads.

`recurrence()` is None where it could not be built, where torch has another BLAS, and with `WEFT_NATIVE=0`: plain torch
then does the same, slower.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch

CELLS = ("elman", "lstm", "lstm-f", "lstm-i", "lstm-o", "gru", "gru-after", "mut1", "mut3")  # as in recurrence.c
SCORES = ("none", "additive", "dot")
TOOLS = {
    "product": "sgemm_",
    "parallel": "GOMP_parallel",
    "thread": "omp_get_thread_num",
    "threads": "omp_get_num_threads",
}
SIZES = (
    "cell", "steps", "rows", "width", "blocks",
    "score", "source", "key_width", "value_width", "context_stride",
)  # fmt: skip
ARRAYS = (
    "pre", "first", "second", "extra", "h", "c", "acts", "mid", "news", "scratch",
    "lengths", "of_query", "weight", "keys", "values", "of_context", "queries", "weights", "contexts",
    "dh", "dc", "dpre", "dcontexts", "dscores", "dqueries", "dkeys", "dweight",
)  # fmt: skip


class Job(ctypes.Structure):
    """The struct of the same name in recurrence.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in TOOLS),
        *((name, ctypes.c_int32) for name in SIZES),
        ("scale", ctypes.c_float),
        *((name, ctypes.c_void_p) for name in ARRAYS),
    )


class Compiled:
    """The two entries of the library; arrays are given by name, sizes too."""

    def __init__(self, library: ctypes.CDLL, tools: dict[str, int | None]) -> None:
        self._forward, self._backward, self._tools = library.weft_forward, library.weft_backward, tools
        for entry in (self._forward, self._backward):
            entry.argtypes, entry.restype = [ctypes.POINTER(Job)], None

    def forward(self, sizes: dict[str, int], scale: float, **arrays: torch.Tensor | None) -> None:
        self._forward(ctypes.byref(self._job(sizes, scale, arrays)))

    def backward(self, sizes: dict[str, int], scale: float, **arrays: torch.Tensor | None) -> None:
        self._backward(ctypes.byref(self._job(sizes, scale, arrays)))

    def _job(self, sizes: dict[str, int], scale: float, arrays: dict[str, torch.Tensor | None]) -> Job:
        places = {name: None if array is None else array.data_ptr() for name, array in arrays.items()}
        tools = self._tools if torch.get_num_threads() > 1 else {**self._tools, "parallel": None}
        return Job(**tools, **sizes, scale=scale, **places)


@cache
def recurrence() -> Compiled | None:
    """The compiled recurrence, or None."""
    if os.environ.get("WEFT_NATIVE") == "0":
        return None
    built = find_spec("weft.nn.native._recurrence")
    if built is None or built.origin is None:
        return None
    try:
        library, torchs = ctypes.CDLL(built.origin), ctypes.CDLL(str(_libtorch()))
    except OSError:
        return None
    tools = {name: _address(torchs, symbol) for name, symbol in TOOLS.items()}
    if tools["product"] is None:
        return None
    if tools["thread"] is None or tools["threads"] is None:
        tools["parallel"] = None
    return Compiled(library, tools)


def _libtorch() -> Path:
    return Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"


def _address(library: ctypes.CDLL, symbol: str) -> int | None:
    try:
        return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
    except AttributeError:
        return None
