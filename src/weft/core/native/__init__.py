"""What is compiled, if it was built, with the tools that torch brings: its BLAS and its threads.

`recurrence()` and `pointwise()` are None where they could not be built and with `WEFT_NATIVE=0`, the first also where
torch has another BLAS: plain torch then does the same, slower.
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
TEAM = ("parallel", "thread", "threads")
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


class Dropout(ctypes.Structure):
    """The struct of the same name in pointwise.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        ("half", ctypes.c_int32),
        ("half_out", ctypes.c_int32),
        ("seed", ctypes.c_uint32),
        ("least", ctypes.c_uint32),
        ("scale", ctypes.c_float),
        ("count", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("x", "y", "rest")),
    )


class Entropy(ctypes.Structure):
    """The struct of the same name in pointwise.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        ("half", ctypes.c_int32),
        ("symbols", ctypes.c_int32),
        ("smoothing", ctypes.c_float),
        ("rows", ctypes.c_int64),
        ("none", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("scores", "wanted", "losses", "gradients", "room")),
    )


class Few(ctypes.Structure):
    """The struct of the same name in pointwise.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        *((name, ctypes.c_int32) for name in ("rows", "inputs", "outputs")),
        *((name, ctypes.c_void_p) for name in ("x", "weight", "bias", "y")),
    )


class Pointwise:
    """Dropout and cross-entropy in one pass each, on values in float32 or bfloat16 that stand side by side."""

    def __init__(self, library: ctypes.CDLL, tools: dict[str, int | None]) -> None:
        self._dropout, self._entropy = library.weft_dropout, library.weft_entropy
        self._dropout.argtypes, self._dropout.restype = [ctypes.POINTER(Dropout)], None
        self._entropy.argtypes, self._entropy.restype = [ctypes.POINTER(Entropy)], None
        self._few = library.weft_few
        self._few.argtypes, self._few.restype = [ctypes.POINTER(Few)], None
        self._team = {name: tools[name] for name in TEAM}

    def _workers(self) -> dict[str, int | None]:
        return self._team if torch.get_num_threads() > 1 else {**self._team, "parallel": None}

    def dropout(
        self, x: torch.Tensor, p: float, seed: int, format: torch.dtype, rest: torch.Tensor | None = None
    ) -> torch.Tensor:
        """x with each value zero with probability p, and the others divided by 1 − p; the seed decides which.

        It comes in the number format that is asked for; added to `rest`, if that is given, in float32.
        """
        y = torch.empty_like(x, dtype=format)
        job = Dropout(
            **self._workers(), half=x.dtype == torch.bfloat16, half_out=format == torch.bfloat16, seed=seed,
            least=min(2**32 - 1, round(p * 2**32)), scale=1 / (1 - p), count=x.numel(), x=x.data_ptr(), y=y.data_ptr(),
            rest=None if rest is None else rest.data_ptr(),
        )  # fmt: skip
        self._dropout(ctypes.byref(job))
        return y

    def few(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """x Wᵀ + b for a few rows x, all in float32."""
        (outputs, inputs), x = weight.shape, x.contiguous()
        y = x.new_empty(*x.shape[:-1], outputs)
        job = Few(
            *self._workers().values(), x.numel() // inputs, inputs, outputs, x.data_ptr(), weight.data_ptr(),
            None if bias is None else bias.data_ptr(), y.data_ptr(),
        )  # fmt: skip
        self._few(ctypes.byref(job))
        return y

    def entropy(
        self, scores: torch.Tensor, wanted: torch.Tensor, none: int, smoothing: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum over rows of −log p(wanted), smoothed, and its gradient; rows that want `none` do not count."""
        (rows, symbols), half = scores.shape, scores.dtype == torch.bfloat16
        losses, gradients = torch.empty(rows), torch.empty_like(scores)
        room = torch.empty(torch.get_num_threads() if half else 0, symbols)
        job = Entropy(
            **self._workers(), half=half, symbols=symbols, smoothing=smoothing, rows=rows, none=none,
            scores=scores.data_ptr(), wanted=wanted.data_ptr(), losses=losses.data_ptr(),
            gradients=gradients.data_ptr(), room=room.data_ptr(),
        )  # fmt: skip
        self._entropy(ctypes.byref(job))
        return losses.sum(), gradients


@cache
def recurrence() -> Compiled | None:
    """The compiled recurrence, or None."""
    found = _built()
    return None if found is None or found[1]["product"] is None else Compiled(*found)


@cache
def pointwise() -> Pointwise | None:
    """The compiled passes over values, or None."""
    found = _built()
    return None if found is None else Pointwise(*found)


def reaches(x: torch.Tensor) -> bool:
    """Whether the compiled passes are there and made for such values."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16) and pointwise() is not None


@cache
def _built() -> tuple[ctypes.CDLL, dict[str, int | None]] | None:
    """The library, and the addresses of what torch brings."""
    if os.environ.get("WEFT_NATIVE") == "0":
        return None
    built = find_spec("weft.core.native._compiled")
    if built is None or built.origin is None:
        return None
    try:
        library, torchs = ctypes.CDLL(built.origin), ctypes.CDLL(str(_libtorch()))
    except OSError:
        return None
    tools = {name: _address(torchs, symbol) for name, symbol in TOOLS.items()}
    if tools["thread"] is None or tools["threads"] is None:
        tools["parallel"] = None
    return library, tools


def _libtorch() -> Path:
    return Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"


def _address(library: ctypes.CDLL, symbol: str) -> int | None:
    try:
        return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
    except AttributeError:
        return None
