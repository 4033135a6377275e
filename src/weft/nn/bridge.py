"""What the encoder hands to a recurrent decoder besides attention: one summary per layer."""

# B batch · S source length · D width

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from weft.core.kinds import Memory


class Bridge(nn.Module):
    """From an encoder of `width` to a decoder of `decoder_width` with so many layers."""

    def __init__(self, width: int, decoder_width: int, layers: int) -> None:
        super().__init__()
        self.layers = layers


class Zeros(Bridge):
    """Nothing: the decoder starts from zeros."""

    def forward(self, memory: Memory) -> Memory:
        return replace(memory, final=())


class Last(Bridge):
    """The encoder's last state as it is; its top one where the decoder has more layers."""

    def forward(self, memory: Memory) -> Memory:
        return replace(memory, final=_stretched(memory.final, self.layers))


class Mean(Bridge):
    """The mean of the encoder's states over the real positions, for every layer."""

    def forward(self, memory: Memory) -> Memory:
        real = memory.mask[..., None].to(memory.states.dtype)
        mean = (memory.states * real).sum(1) / real.sum(1)
        return replace(memory, final=(mean,) * self.layers)


class Projected(Bridge):
    """φ(W s + b) of the last state, with a matrix for each decoder layer."""

    def __init__(self, width: int, decoder_width: int, layers: int) -> None:
        super().__init__(width, decoder_width, layers)
        self.project = nn.ModuleList(nn.Linear(width, decoder_width) for _ in range(layers))

    def forward(self, memory: Memory) -> Memory:
        final = zip(self.project, _stretched(memory.final, self.layers), strict=True)
        return replace(memory, final=tuple(torch.tanh(layer(f)) for layer, f in final))


def _stretched(final: tuple[Tensor, ...], layers: int) -> tuple[Tensor, ...]:
    """The top `layers` summaries, the topmost repeated where there are too few."""
    return final[-layers:] + (final[-1],) * (layers - len(final))
