"""A model that only predicts, as compiled code takes it: its matrices in panels, a Transformer's decoder as one call.

With few rows, as in decoding, such products are up to twice as fast as torch's, and a step of a decoder takes one call
instead of a hundred (docs/LOG.md, "A step in one call"). A packed model keeps its parameters, but what is written into
them has no effect on what it says until it is unpacked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from weft.core import native
from weft.core.native.decoding import Decoding, Panels
from weft.nn.heads import Tokens
from weft.nn.multihead import MultiHead

LARGE = 1 << 14  # weights from which on it pays


class Packed:
    """W x + b, with W packed."""

    def __init__(self, compiled: Decoding, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias, self._compiled = weight, bias, compiled
        self.panels = Panels(weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32 or torch.is_grad_enabled():
            return linear(x, self._weight, self._bias)
        return self._compiled.product(x, self.panels)


@runtime_checkable
class Packs(Protocol):
    """A part with a compiled form of its own."""

    def pack(self, compiled: Decoding) -> set[nn.Module]:
        """From now on compiled code does its work; the parts within that need no other form."""


def pack(model: nn.Module) -> None:
    """Pack what is large; nothing where nothing is compiled."""
    compiled = native.decoding()
    if compiled is None or any(p.device.type != "cpu" or p.dtype != torch.float32 for p in model.parameters()):
        return
    done: set[nn.Module] = set()
    for module in model.modules():  # what holds others comes before them
        place: Any = module
        if module in done:
            continue
        if isinstance(module, MultiHead) and module.query.in_features == module.key.in_features:
            weight, bias = module.joint()
            if _is_large(weight):
                place.joined = Packed(compiled, weight, bias)
        if isinstance(module, nn.Linear) and _is_large(module.weight):
            place.forward = Packed(compiled, module.weight, module.bias)
        elif isinstance(module, Tokens) and _is_large(module.weight):
            place.product = Packed(compiled, module.weight, module.bias)
        elif isinstance(module, Packs):
            done |= module.pack(compiled)


@contextmanager
def packed(model: nn.Module) -> Iterator[None]:
    """Packed for a while, with the weights of now."""
    pack(model)
    try:
        yield
    finally:
        unpack(model)


def unpack(model: nn.Module) -> None:
    """As it was before `pack`."""
    for module in model.modules():
        for name in ("forward", "product"):
            module.__dict__.pop(name, None)  # what the class says holds again
        for name in ("joined", "compiled"):
            if name in module.__dict__:
                setattr(module, name, None)


def _is_large(weight: Tensor) -> bool:
    return weight.numel() >= LARGE
