"""What the encoder hands to a recurrent decoder besides attention: one summary for each of its layers."""

# B batch · S source length · D width

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from weft.core.kinds import Memory


class Zeros(nn.Module):
    """Nothing: the decoder starts from zeros."""

    def forward(self, memory: Memory) -> Memory:
        return replace(memory, final=())


class Last(nn.Module):
    """The encoder's last state as it is; its top one where the decoder has more layers."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, memory: Memory) -> Memory:
        return replace(memory, final=_stretched(memory.final, self.layers))


class Mean(nn.Module):
    """The mean of the encoder's states over the real places, for every layer."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, memory: Memory) -> Memory:
        real = memory.mask[..., None].to(memory.states.dtype)
        mean = (memory.states * real).sum(1) / real.sum(1)
        return replace(memory, final=(mean,) * self.layers)


class Projected(nn.Module):
    """φ(W s + b) of the last state, with a matrix for each decoder layer."""

    def __init__(self, width: int, decoder_width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, decoder_width) for _ in range(layers))

    def forward(self, memory: Memory) -> Memory:
        final = _stretched(memory.final, len(self.layers))
        return replace(memory, final=tuple(torch.tanh(layer(f)) for layer, f in zip(self.layers, final, strict=True)))


def _stretched(final: tuple[Tensor, ...], layers: int) -> tuple[Tensor, ...]:
    """The top `layers` summaries, the topmost repeated where there are too few."""
    return final[-layers:] + (final[-1],) * (layers - len(final))
