"""A linear layer of a model that only predicts, with its matrix in the layout of the compiled code."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import linear

from weft.core import native
from weft.core.native.decoding import Decoding, Panels


class Packed:
    """W x + b with W in panels; plain torch computes what the compiled code does not support."""

    def __init__(self, compiled: Decoding, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias, self._compiled = weight, bias, compiled
        self._panels = Panels(weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        if native.is_plain(x) and x.shape[-1] == self._panels.inputs:
            return self._compiled.product(x, self._panels)
        return linear(x, self._weight, self._bias)
