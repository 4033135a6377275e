"""Passes over many values: the jobs of pointwise.c."""

from __future__ import annotations

import ctypes

import torch

from weft.core.native.library import TEAM, Tools, team


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


class Pointwise:
    """Dropout and cross-entropy in one pass each, on values in float32 or bfloat16 that stand side by side."""

    def __init__(self, library: ctypes.CDLL, tools: Tools) -> None:
        self._dropout, self._entropy = library.weft_dropout, library.weft_entropy
        self._dropout.argtypes, self._dropout.restype = [ctypes.POINTER(Dropout)], None
        self._entropy.argtypes, self._entropy.restype = [ctypes.POINTER(Entropy)], None
        self._tools = tools

    def dropout(
        self, x: torch.Tensor, p: float, seed: int, format: torch.dtype, rest: torch.Tensor | None = None
    ) -> torch.Tensor:
        """x with each value zero with probability p, and the others divided by 1 − p; the seed decides which.

        It comes in the number format that is asked for; added to `rest`, if that is given, in float32.
        """
        y = torch.empty_like(x, dtype=format)
        job = Dropout(
            **team(self._tools), half=x.dtype == torch.bfloat16, half_out=format == torch.bfloat16, seed=seed,
            least=min(2**32 - 1, round(p * 2**32)), scale=1 / (1 - p), count=x.numel(), x=x.data_ptr(), y=y.data_ptr(),
            rest=None if rest is None else rest.data_ptr(),
        )  # fmt: skip
        self._dropout(ctypes.byref(job))
        return y

    def entropy(
        self, scores: torch.Tensor, wanted: torch.Tensor, none: int, smoothing: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum over rows of −log p(wanted), smoothed, and its gradient; rows that want `none` do not count."""
        (rows, symbols), half = scores.shape, scores.dtype == torch.bfloat16
        losses, gradients = torch.empty(rows), torch.empty_like(scores)
        room = torch.empty(torch.get_num_threads() if half else 0, symbols)
        job = Entropy(
            **team(self._tools), half=half, symbols=symbols, smoothing=smoothing, rows=rows, none=none,
            scores=scores.data_ptr(), wanted=wanted.data_ptr(), losses=losses.data_ptr(),
            gradients=gradients.data_ptr(), room=room.data_ptr(),
        )  # fmt: skip
        self._entropy(ctypes.byref(job))
        return losses.sum(), gradients
