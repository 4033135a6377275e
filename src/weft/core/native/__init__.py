"""What is compiled, if it was built, with the tools that torch brings: its BLAS and its threads.

`recurrence()`, `pointwise()` and `decoding()` are None where they could not be built, or were from another source, and
with `WEFT_NATIVE=0`, the first also where torch has another BLAS: plain torch then does the same, slower.
"""

from __future__ import annotations

from functools import cache

import torch

from weft.core.native.decoding import JOBS as decoding_jobs
from weft.core.native.decoding import Decoding
from weft.core.native.library import agrees, built
from weft.core.native.pointwise import JOBS as pointwise_jobs
from weft.core.native.pointwise import Pointwise
from weft.core.native.recurrence import ARRAYS, CELLS, SCORES, Recurrence
from weft.core.native.recurrence import JOBS as recurrence_jobs

__all__ = ["ARRAYS", "CELLS", "SCORES", "decoding", "is_plain", "pointwise", "reaches", "recurrence"]


@cache
def recurrence() -> Recurrence | None:
    """The compiled recurrence, or None."""
    found = built()
    if found is None or found[1]["product"] is None:
        return None
    return Recurrence(*found) if agrees(found[0], "recurrence", *recurrence_jobs, kinds=len(CELLS)) else None


@cache
def pointwise() -> Pointwise | None:
    """The compiled passes over values, or None."""
    found = built()
    return Pointwise(*found) if found is not None and agrees(found[0], "pointwise", *pointwise_jobs) else None


@cache
def decoding() -> Decoding | None:
    """The compiled step of a Transformer's decoder and its products, or None."""
    found = built()
    return Decoding(*found) if found is not None and agrees(found[0], "decoding", *decoding_jobs) else None


def reaches(x: torch.Tensor) -> bool:
    """Whether the compiled passes are there and made for such values."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16) and pointwise() is not None


def is_plain(*arrays: torch.Tensor) -> bool:
    """Whether all are floats on the CPU of which nobody wants gradients."""
    return not torch.is_grad_enabled() and all(x.device.type == "cpu" and x.dtype == torch.float32 for x in arrays)
