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

from weft.core import native
from weft.nn.heads import Tokens
from weft.nn.multihead import MultiHead

LARGE = 1 << 16  # weights from which on it pays
FEW, VERY_LARGE = 2, 1 << 20  # rows that a smaller matrix meets as it is, in compiled code
ROWS = 64  # that the layout is chosen for


class Packed:
    """W x + b, with W packed."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias
        self._compiled = native.pointwise()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS)

    def __call__(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32 or torch.is_grad_enabled():
            return linear(x, self._weight, self._bias)
        few = x.numel() <= FEW * x.shape[-1] and self._weight.numel() < VERY_LARGE
        if few and self._compiled is not None:
            return self._compiled.few(x, self._weight, self._bias)
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, "none", [], "")
        return out


def pack(model: nn.Module) -> None:
    """Pack what is large; nothing where torch has no oneDNN, or where WEFT_NATIVE=0 asks for plain torch."""
    if os.environ.get("WEFT_NATIVE") == "0" or not _possible():
        return
    for module in model.modules():
        place: Any = module
        if isinstance(module, MultiHead) and module.query.in_features == module.key.in_features:
            layers = (module.query, module.key, module.value)
            weight, bias = (torch.cat([getattr(layer, name) for layer in layers]) for name in ("weight", "bias"))
            if _is_large(weight):
                place.joined = Packed(weight, bias)
        if isinstance(module, nn.Linear) and _is_large(module.weight):
            place.forward = Packed(module.weight, module.bias)
        elif isinstance(module, Tokens) and _is_large(module.weight):
            place.product = Packed(module.weight, module.bias)


def _is_large(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= LARGE


def _possible() -> bool:
    has = all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))
    return has and bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
