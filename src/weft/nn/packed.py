"""Pack a model that only predicts: its matrices in panels for the compiled code, a decoder step in one call.

With few rows, as in decoding, such products are up to twice as fast as torch's, and a step of a decoder takes one call
instead of a hundred (docs/LOG.md, "A step in one call"). A packed model keeps its parameters, but changing them
has no effect on its output until it is unpacked. It cannot be copied.
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

LARGE = 1 << 14  # weights of a matrix from which on packing is faster
MARK = "is_packed"  # an entry in the __dict__ of a packed model


@runtime_checkable
class Packable(Protocol):
    """A module that packs itself."""

    def pack(self, compiled: Decoding) -> set[nn.Module]:
        """Use the compiled code from now on; return the modules within that need not be packed any more."""

    def unpack(self) -> None: ...


def pack(model: nn.Module) -> None:
    """Pack all large matrices; do nothing where the compiled code cannot be used."""
    compiled = native.decoding()
    if compiled is None or any(p.device.type != "cpu" or p.dtype != torch.float32 for p in model.parameters()):
        return
    model.__dict__[MARK] = True
    done: set[nn.Module] = set()
    for module in model.modules():  # a module comes before those within it
        target: Any = module
        if module in done:
            continue
        if isinstance(module, Packable):
            done |= module.pack(compiled)
        elif isinstance(module, nn.Linear) and _is_large(module.weight):
            target.forward = Packed(compiled, module.weight, module.bias)
        elif isinstance(module, Tokens) and _is_large(module.weight):
            target.product = Packed(compiled, module.weight, module.bias)


def unpack(model: nn.Module) -> None:
    """Undo `pack`."""
    model.__dict__.pop(MARK, None)
    for module in model.modules():
        if isinstance(module, Packable):
            module.unpack()
        for name in ("forward", "product"):
            module.__dict__.pop(name, None)  # that of the class is used again


@contextmanager
def packed(model: nn.Module) -> Iterator[None]:
    """Keep a model packed, with its present weights, within a `with` block; a model that is packed already stays so."""
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
