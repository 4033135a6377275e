"""What is compiled, if it was built, with the tools that torch brings: its BLAS and its threads.

`recurrence()`, `pointwise()` and `decoding()` are None where they could not be built and with `WEFT_NATIVE=0`, the
first also where torch has another BLAS: plain torch then does the same, slower.
"""

from __future__ import annotations

from functools import cache

import torch

from weft.core.native.decoding import Decoding
from weft.core.native.library import built
from weft.core.native.pointwise import Pointwise
from weft.core.native.recurrence import ARRAYS, CELLS, SCORES, Recurrence

__all__ = ["ARRAYS", "CELLS", "SCORES", "decoding", "is_plain", "pointwise", "reaches", "recurrence"]


@cache
def recurrence() -> Recurrence | None:
    """The compiled recurrence, or None."""
    found = built()
    return None if found is None or found[1]["product"] is None else Recurrence(*found)


@cache
def pointwise() -> Pointwise | None:
    """The compiled passes over values, or None."""
    found = built()
    return None if found is None else Pointwise(*found)


@cache
def decoding() -> Decoding | None:
    """The compiled step of a Transformer's decoder and its products, or None."""
    found = built()
    return None if found is None else Decoding(*found)


def reaches(x: torch.Tensor) -> bool:
    """Whether the compiled passes are there and made for such values."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16) and pointwise() is not None


def is_plain(*arrays: torch.Tensor) -> bool:
    """Whether all are floats on the CPU of which nobody wants gradients."""
    return not torch.is_grad_enabled() and all(x.device.type == "cpu" and x.dtype == torch.float32 for x in arrays)
