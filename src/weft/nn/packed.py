"""A model that only predicts, as compiled code takes it: its matrices in panels, a Transformer's decoder as one call.

With few rows, as in decoding, such products are up to twice as fast as torch's, and a step of a decoder takes one call
instead of a hundred (docs/LOG.md, "A step in one call"). A packed model keeps its parameters, but what is written into
them later has no effect on what it says.
"""

# N rows · I inputs · O outputs · D width

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from weft.core import native
from weft.core.native.decoding import Block, Blocks, Decoding, Norm, Panels, Sight
from weft.nn.decoders.transformer import DecoderBlock, TransformerDecoder
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


class PackedBlocks:
    """All blocks of a Transformer's decoder on one new place of each row."""

    def __init__(self, compiled: Decoding, blocks: Blocks) -> None:
        self._compiled, self._blocks = compiled, blocks

    def __call__(self, x: Tensor, sight: Sight) -> Tensor:
        return self._compiled.step(x, self._blocks, sight)


def pack(model: nn.Module) -> None:
    """Pack what is large; nothing where nothing is compiled."""
    compiled = native.decoding()
    if compiled is None or any(p.device.type != "cpu" or p.dtype != torch.float32 for p in model.parameters()):
        return
    for module in model.modules():
        place: Any = module
        if isinstance(module, MultiHead) and module.query.in_features == module.key.in_features:
            weight, bias = _joined(module)
            if _is_large(weight):
                place.joined = Packed(compiled, weight, bias)
        if isinstance(module, nn.Linear) and _is_large(module.weight):
            place.forward = Packed(compiled, module.weight, module.bias)
        elif isinstance(module, Tokens) and _is_large(module.weight):
            place.product = Packed(compiled, module.weight, module.bias)
        elif isinstance(module, TransformerDecoder) and all(b.own.fused and b.cross.fused for b in module.each_block()):
            place.compiled = PackedBlocks(compiled, _blocks_of(module))


def _is_large(weight: Tensor) -> bool:
    return weight.numel() >= LARGE


def _joined(look: MultiHead) -> tuple[Tensor, Tensor]:
    """The matrix and bias of query, key and value in one."""
    layers = (look.query, look.key, look.value)
    return torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])


def _blocks_of(decoder: TransformerDecoder) -> Blocks:
    blocks = decoder.each_block()
    last = _norm(decoder.norm) if isinstance(decoder.norm, nn.LayerNorm) else None
    around = blocks[0].around_own
    return Blocks([_block(block) for block in blocks], last, decoder.heads, around.first, around.norm.eps)


def _block(block: DecoderBlock) -> Block:
    feed_in, feed_out = (layer for layer in block.feed if isinstance(layer, nn.Linear))
    layers = (block.own.out, block.cross.query, block.cross.out, feed_in, feed_out)
    norms = [_norm(around.norm) for around in (block.around_own, block.around_cross, block.around_feed)]
    return Block([Panels(*_joined(block.own)), *(Panels(one.weight, one.bias) for one in layers)], norms)


def _norm(norm: nn.LayerNorm) -> Norm:
    return Norm(norm.weight.detach(), norm.bias.detach())
