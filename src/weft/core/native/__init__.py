"""Compiled code for what is slow in plain torch, which does the same where the compiled code cannot be used.

`recurrence()`, `pointwise()` and `decoding()` return it, or None where the library could not be loaded (see
`library.py`); `recurrence()` also returns None where torch has no BLAS that can be called from C.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from weft.core.native.decoding import Decoding
from weft.core.native.library import load, state
from weft.core.native.pointwise import Pointwise
from weft.core.native.recurrence import Recurrence

__all__ = ["decoding", "is_plain", "is_supported", "pointwise", "recurrence", "state"]


@cache
def recurrence() -> Recurrence | None:
    """Return the compiled recurrences, or None."""
    library = load()
    return None if library is None or library.functions["product"] is None else Recurrence(library)


@cache
def pointwise() -> Pointwise | None:
    """Return the compiled passes over values, or None."""
    library = load()
    return None if library is None else Pointwise(library)


@cache
def decoding() -> Decoding | None:
    """Return the compiled decoder step and matrix products, or None."""
    library = load()
    return None if library is None else Decoding(library)


def is_supported(x: Tensor) -> bool:
    """Whether the compiled dropout and cross-entropy can be used for such values."""
    return x.is_cpu and x.dtype in (torch.float32, torch.bfloat16) and pointwise() is not None


def is_plain(*tensors: Tensor) -> bool:
    """Whether all tensors are float32 on the CPU and no gradients are needed."""
    return not torch.is_grad_enabled() and all(x.is_cpu and x.dtype is torch.float32 for x in tensors)
