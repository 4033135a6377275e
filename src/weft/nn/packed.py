"""A model that only predicts, as compiled code takes it: its matrices in panels, a Transformer's decoder as one call.

With few rows, as in decoding, such products are up to twice as fast as torch's, and a step of a decoder takes one call
instead of a hundred (docs/LOG.md, "A step in one call"). A packed model keeps its parameters, but what is written into
them has no effect on what it says until it is unpacked; nor can it be copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from weft.core import native
from weft.core.native.decoding import Decoding
from weft.nn.heads import Tokens
from weft.nn.panels import Packed

LARGE = 1 << 14  # weights from which on it pays
MARK = "is_packed"  # of a model that is


@runtime_checkable
class Packs(Protocol):
    """A part with a compiled form of its own."""

    def pack(self, compiled: Decoding) -> set[nn.Module]:
        """From now on compiled code does its work; the parts within that need no other form."""

    def unpack(self) -> None: ...


def pack(model: nn.Module) -> None:
    """Pack what is large; nothing where nothing is compiled."""
    compiled = native.decoding()
    if compiled is None or any(p.device.type != "cpu" or p.dtype != torch.float32 for p in model.parameters()):
        return
    model.__dict__[MARK] = True
    done: set[nn.Module] = set()
    for module in model.modules():  # what holds others comes before them
        place: Any = module
        if module in done:
            continue
        if isinstance(module, Packs):
            done |= module.pack(compiled)
        elif isinstance(module, nn.Linear) and _is_large(module.weight):
            place.forward = Packed(compiled, module.weight, module.bias)
        elif isinstance(module, Tokens) and _is_large(module.weight):
            place.product = Packed(compiled, module.weight, module.bias)


def unpack(model: nn.Module) -> None:
    """As it was before `pack`."""
    model.__dict__.pop(MARK, None)
    for module in model.modules():
        if isinstance(module, Packs):
            module.unpack()
        for name in ("forward", "product"):
            module.__dict__.pop(name, None)  # what the class says holds again


@contextmanager
def packed(model: nn.Module) -> Iterator[None]:
    """Packed for a while, with the weights of now; one that is packed already stays so."""
    if MARK in model.__dict__:
        yield
        return
    try:
        pack(model)
        yield
    finally:
        unpack(model)


def _is_large(weight: Tensor) -> bool:
    return weight.numel() >= LARGE
