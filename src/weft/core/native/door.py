"""The door to the compiled code: C receives the address of a tensor from here only, after one check of the tensor.

C trusts every address, so a tensor of another dtype, shape, layout or device would be read wrongly or out of bounds.
Callers make tensors contiguous where that is allowed to cost a copy; what still does not fit is refused.

Limits: a row of an array has fewer than 2³¹ values.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Shape = Sequence[int]


def address(
    name: str, x: Tensor, shape: Shape, dtype: torch.dtype = torch.float32, strides: Shape | None = None
) -> int:
    """Return the address of a tensor that is as C expects it: on the CPU, and contiguous unless `strides` are given."""
    if (
        x.dtype is dtype
        and x.shape == shape
        and (x.is_contiguous() if strides is None else x.stride() == strides or _alike(x, strides))
        and x.is_cpu
    ):
        return x.data_ptr()
    raise refuse(_message(name, x, shape, dtype, strides))


def optional(
    name: str, x: Tensor | None, shape: Shape, dtype: torch.dtype = torch.float32, strides: Shape | None = None
) -> int | None:
    """Return the address as `address` does; None, which is NULL in C, where there is no tensor."""
    return None if x is None else address(name, x, shape, dtype, strides)


def output(x: Tensor) -> int:
    """Return the address of a tensor that was just allocated for C to write to."""
    if x.is_cpu and x.is_contiguous():
        return x.data_ptr()
    raise refuse(_message("an output", x, x.shape, x.dtype, None))


def refuse(message: str) -> ValueError:
    """Return the error for sizes that do not fit together."""
    return ValueError(f"compiled code: {message}")


def _alike(x: Tensor, strides: Shape) -> bool:
    """Whether the strides agree wherever a dimension has more than one index."""
    return len(x.shape) == len(strides) and all(
        size <= 1 or given == wanted for size, given, wanted in zip(x.shape, x.stride(), strides)
    )


def _message(name: str, x: Tensor, shape: Shape, dtype: torch.dtype, strides: Shape | None) -> str:
    layout = "contiguous" if strides is None else f"with strides {tuple(strides)}"
    return (
        f"{name} must be {dtype} of shape {tuple(shape)} on the CPU, {layout}; "
        f"it is {x.dtype} of shape {tuple(x.shape)} on {x.device}, with strides {x.stride()}"
    )
