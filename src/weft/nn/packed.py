"""Large matrices of a model that only predicts, in the layout that oneDNN multiplies fastest.

With few rows, as in decoding, that is up to twice as fast as torch's own product (docs/LOG.md, "Decoding"). A packed
model keeps its parameters, but what is written into them later has no effect on what it says.
"""

# N rows · I inputs · O outputs

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from weft.nn.heads import Tokens

LARGE = 1 << 18  # weights from which on it pays
VERY_LARGE = 1 << 20  # … also for a row or two
FEW = 4
ROWS = 64  # that the layout is chosen for


class Packed:
    """W x + b, with W packed."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS)

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.numel() // x.shape[-1]
        usual = rows < FEW and self._weight.numel() < VERY_LARGE
        if usual or x.dtype != torch.float32 or torch.is_grad_enabled():
            return linear(x, self._weight, self._bias)
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, "none", [], "")
        return out


def pack(model: nn.Module) -> None:
    """Pack what is large; nothing where torch has no oneDNN, or where WEFT_NATIVE=0 asks for plain torch."""
    if os.environ.get("WEFT_NATIVE") == "0" or not _possible():
        return
    for module in model.modules():
        place: Any = module
        if isinstance(module, nn.Linear) and _is_large(module.weight):
            place.forward = Packed(module.weight, module.bias)
        elif isinstance(module, Tokens) and _is_large(module.weight):
            place.product = Packed(module.weight, module.bias)


def _is_large(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= LARGE


def _possible() -> bool:
    has = all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))
    return has and bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
