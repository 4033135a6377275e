"""Passes over many values: the jobs of pointwise.c."""

# B lines · T queries · S keys · D width · K hypotheses of a line · V symbols

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from weft.core.native.door import address, optional, output, refuse
from weft.core.native.library import TEAM, Library

HALF = torch.bfloat16
FORMATS = (torch.float32, HALF)


class _Dropout(ctypes.Structure):
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


class _CrossEntropy(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        ("half", ctypes.c_int32),
        ("symbols", ctypes.c_int32),
        ("smoothing", ctypes.c_float),
        ("rows", ctypes.c_int64),
        ("ignored", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("scores", "targets", "losses", "gradients", "scratch")),
    )


class _AdditiveScores(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        *((name, ctypes.c_int64) for name in ("lines", "query_count", "key_count", "width")),
        *((name, ctypes.c_void_p) for name in ("queries", "keys", "weight", "scores")),
    )


class _LstmStep(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        ("rows", ctypes.c_int64),
        ("width", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("from_input", "from_state", "before", "h", "c")),
    )


class _LogSoftmax(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        ("rows", ctypes.c_int64),
        ("symbols", ctypes.c_int64),
        ("x", ctypes.c_void_p),
    )


class _TopSums(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in TEAM),
        *((name, ctypes.c_int64) for name in ("lines", "width", "symbols", "count", "end", "first")),
        *((name, ctypes.c_void_p) for name in ("scores", "log_probs", "best", "indices")),
    )


class Pointwise:
    """The compiled passes. All tensors are float32; in dropout and cross-entropy they may also be bfloat16."""

    def __init__(self, library: Library) -> None:
        self._team = library.team
        self._dropout = library.function("weft_dropout", _Dropout)
        self._cross_entropy = library.function("weft_cross_entropy", _CrossEntropy, ctypes.c_int64)
        self._additive_scores = library.function("weft_additive_scores", _AdditiveScores)
        self._lstm_step = library.function("weft_lstm_step", _LstmStep)
        self._log_softmax = library.function("weft_log_softmax", _LogSoftmax)
        self._top_sums = library.function("weft_top_sums", _TopSums)

    def dropout(self, x: Tensor, p: float, seed: int, format: torch.dtype, rest: Tensor | None = None) -> Tensor:
        """Return x with each value zero with probability p and the others divided by 1 − p; the seed decides which.

        The result has the dtype `format`. If `rest` is given, it is added, and the result is float32.
        """
        if x.dtype not in FORMATS or format not in (FORMATS if rest is None else FORMATS[:1]):
            raise refuse(f"dropout of {x.dtype} to {format}; with `rest` the result is float32")
        y = torch.empty_like(x, dtype=format)
        job = _Dropout(
            *self._team(), x.dtype == HALF, format == HALF, seed, min(2**32 - 1, round(p * 2**32)), 1 / (1 - p),
            x.numel(), address("x", x, x.shape, x.dtype), output(y), optional("rest", rest, x.shape),
        )  # fmt: skip
        self._dropout(ctypes.byref(job))
        return y

    def cross_entropy(self, scores: Tensor, targets: Tensor, ignored: int, smoothing: float) -> tuple[Tensor, Tensor]:
        """Return the sum of −log p(target) over the rows of scores (N, V), with label smoothing, and its gradient.

        Rows whose target is `ignored` do not count. Another target that is no symbol is an IndexError, as in torch.
        """
        if scores.dtype not in FORMATS or scores.dim() != 2:
            raise refuse(f"cross-entropy of {scores.dtype} of shape {tuple(scores.shape)}")
        (rows, symbols), half = scores.shape, scores.dtype == HALF
        losses, gradients = torch.empty(rows), torch.empty_like(scores)
        scratch = torch.empty(torch.get_num_threads() if half else 0, symbols)
        job = _CrossEntropy(
            *self._team(), half, symbols, smoothing, rows, ignored,
            address("scores", scores, scores.shape, scores.dtype), address("targets", targets, (rows,), torch.int64),
            output(losses), output(gradients), output(scratch),
        )  # fmt: skip
        wrong = self._cross_entropy(ctypes.byref(job))
        if wrong >= 0:
            raise IndexError(f"Target {int(targets[wrong])} is out of bounds: there are {symbols} symbols.")
        return losses.sum(), gradients

    def additive_scores(self, queries: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
        """Return wᵀ tanh(q + k) for the queries (B, T, D) and keys (B, S, D) of each line: (B, T, S)."""
        queries, keys, weight = queries.contiguous(), keys.contiguous(), weight.contiguous()
        (lines, count, width), key_count = queries.shape, keys.shape[1]
        scores = queries.new_empty(lines, count, key_count)
        job = _AdditiveScores(
            *self._team(), lines, count, key_count, width, address("queries", queries, (lines, count, width)),
            address("keys", keys, (lines, key_count, width)), address("weight", weight, (width,)), output(scores),
        )  # fmt: skip
        self._additive_scores(ctypes.byref(job))
        return scores

    def lstm_step(self, from_input: Tensor, from_state: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """Return h and c (B, D) of an LSTM after a step.

        `from_input` and `from_state` (B, 4 D) add up to the arguments of i, f, c̃ and o; `before` is c' (B, D).
        """
        from_input, from_state, before = from_input.contiguous(), from_state.contiguous(), before.contiguous()
        rows, width = before.shape
        h, c = torch.empty_like(before), torch.empty_like(before)
        job = _LstmStep(
            *self._team(), rows, width, address("from_input", from_input, (rows, 4 * width)),
            address("from_state", from_state, (rows, 4 * width)), address("before", before, (rows, width)),
            output(h), output(c),
        )  # fmt: skip
        self._lstm_step(ctypes.byref(job))
        return h, c

    def log_softmax_(self, x: Tensor) -> Tensor:
        """Replace each row of x (…, V) by its log-softmax, and return x."""
        symbols = x.shape[-1]
        job = _LogSoftmax(*self._team(), x.numel() // symbols, symbols, address("x", x, x.shape))
        self._log_softmax(ctypes.byref(job))
        return x

    def top_sums(self, scores: Tensor, log_probs: Tensor, end: int, first: int, count: int) -> tuple[Tensor, Tensor]:
        """Return the `count` largest sums of scores (B, K) and log_probs (B·K, V), and their indices in K·V.

        Both are (B, count). Allowed symbols are `end` and those from `first` on.
        """
        scores, log_probs = scores.contiguous(), log_probs.contiguous()
        (lines, width), symbols = scores.shape, log_probs.shape[1]
        if count < 1 or not 0 <= end < symbols or first < 0:
            raise refuse(f"the {count} largest sums of {symbols} symbols, of which {end} and those from {first} on")
        best, indices = scores.new_empty(lines, count), torch.empty(lines, count, dtype=torch.int64)
        job = _TopSums(
            *self._team(), lines, width, symbols, count, end, first, address("scores", scores, (lines, width)),
            address("log_probs", log_probs, (lines * width, symbols)), output(best), output(indices),
        )  # fmt: skip
        self._top_sums(ctypes.byref(job))
        return best, indices
