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


class Additive(ctypes.Structure):
    """The struct of the same name in pointwise.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        *((name, ctypes.c_int64) for name in ("lines", "queries", "keys", "width")),
        *((name, ctypes.c_void_p) for name in ("asked", "known", "weight", "scores")),
    )


class LongShort(ctypes.Structure):
    """The struct of the same name in pointwise.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        ("rows", ctypes.c_int64),
        ("width", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("of_input", "of_state", "before", "h", "c")),
    )


class LogSoftmax(ctypes.Structure):
    """The struct of the same name in pointwise.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        ("rows", ctypes.c_int64),
        ("symbols", ctypes.c_int64),
        ("x", ctypes.c_void_p),
    )


class Best(ctypes.Structure):
    """The struct of the same name in pointwise.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        *((name, ctypes.c_int64) for name in ("lines", "width", "symbols", "count", "end", "first")),
        *((name, ctypes.c_void_p) for name in ("total", "said", "best", "places")),
    )


JOBS = (Dropout, Entropy, Additive, LongShort, LogSoftmax, Best)


class Pointwise:
    """One pass each, on values that stand side by side: float32, dropout and cross-entropy also bfloat16."""

    def __init__(self, library: ctypes.CDLL, tools: Tools) -> None:
        self._dropout, self._entropy = library.weft_dropout, library.weft_entropy
        self._dropout.argtypes, self._dropout.restype = [ctypes.POINTER(Dropout)], None
        self._entropy.argtypes, self._entropy.restype = [ctypes.POINTER(Entropy)], None
        self._additive = library.weft_additive
        self._additive.argtypes, self._additive.restype = [ctypes.POINTER(Additive)], None
        self._long_short = library.weft_long_short
        self._long_short.argtypes, self._long_short.restype = [ctypes.POINTER(LongShort)], None
        self._log_softmax, self._best = library.weft_log_softmax, library.weft_best
        self._log_softmax.argtypes, self._log_softmax.restype = [ctypes.POINTER(LogSoftmax)], None
        self._best.argtypes, self._best.restype = [ctypes.POINTER(Best)], None
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

    def additive(self, asked: torch.Tensor, known: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """wᵀ tanh(q + k) of each line's queries (B, T, D) and keys (B, S, D): (B, T, S)."""
        (lines, queries, width), keys = asked.shape, known.shape[1]
        scores = asked.new_empty(lines, queries, keys)
        asked, known, weight = asked.contiguous(), known.contiguous(), weight.contiguous()
        job = Additive(
            *team(self._tools).values(), lines, queries, keys, width,
            *(one.data_ptr() for one in (asked, known, weight, scores)),
        )  # fmt: skip
        self._additive(ctypes.byref(job))
        return scores

    def long_short(
        self, of_input: torch.Tensor, of_state: torch.Tensor, before: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """An LSTM's h and c (B, D) after a step: of what inputs and state say to i, f, c̃ and o (B, 4 D), and c'."""
        of_input, of_state, before = of_input.contiguous(), of_state.contiguous(), before.contiguous()
        h, c = torch.empty_like(before), torch.empty_like(before)
        job = LongShort(
            *team(self._tools).values(), *before.shape,
            *(one.data_ptr() for one in (of_input, of_state, before, h, c)),
        )  # fmt: skip
        self._long_short(ctypes.byref(job))
        return h, c

    def log_softmax(self, x: torch.Tensor) -> torch.Tensor:
        """The log-softmax of each row of x (…, V), which is put in its place."""
        rows, symbols = x.numel() // x.shape[-1], x.shape[-1]
        job = LogSoftmax(*team(self._tools).values(), rows, symbols, x.data_ptr())
        self._log_softmax(ctypes.byref(job))
        return x

    def best(
        self, total: torch.Tensor, said: torch.Tensor, end: int, first: int, count: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The `count` best sums of total (B, K) and said (B·K, V), and where in K·V they are: (B, count) each.

        Of the symbols only `end` and those from `first` on may be said.
        """
        (lines, width), symbols = total.shape, said.shape[1]
        best, places = total.new_empty(lines, count), torch.empty(lines, count, dtype=torch.int64)
        total, said = total.contiguous(), said.contiguous()
        job = Best(
            *team(self._tools).values(), lines, width, symbols, count, end, first,
            total.data_ptr(), said.data_ptr(), best.data_ptr(), places.data_ptr(),
        )  # fmt: skip
        self._best(ctypes.byref(job))
        return best, places
