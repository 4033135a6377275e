"""What the encoder hands to a recurrent decoder besides attention: one summary per layer."""

# B batch · S source length · D width

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from weft.core.kinds import Memory


class Bridge(nn.Module):
    """From an encoder of `width` to a decoder of `decoder_width` with so many layers.

    With `whole_state`, both are LSTMs, and the cell state c is handed over beside the hidden state h.
    """

    def __init__(self, width: int, decoder_width: int, layers: int, whole_state: bool = False) -> None:
        super().__init__()
        self.layers, self.whole_state = layers, whole_state


class Zeros(Bridge):
    """Nothing: the decoder starts from zeros."""

    def forward(self, memory: Memory) -> Memory:
        return replace(memory, final=(), cells=())


class Last(Bridge):
    """The encoder's last state as it is; its top one where the decoder has more layers."""

    def forward(self, memory: Memory) -> Memory:
        cells = _stretched(memory.cells, self.layers) if self.whole_state else ()
        return replace(memory, final=_stretched(memory.final, self.layers), cells=cells)


class Mean(Bridge):
    """The mean of the encoder's states over the real positions, for every layer."""

    def forward(self, memory: Memory) -> Memory:
        real = memory.mask[..., None].to(memory.states.dtype)
        mean = (memory.states * real).sum(1) / real.sum(1)
        return replace(memory, final=(mean,) * self.layers, cells=())


class Projected(Bridge):
    """φ(W h + b) of the last state, with a matrix for each decoder layer; and V c + d, where c is handed over."""

    def __init__(self, width: int, decoder_width: int, layers: int, whole_state: bool = False) -> None:
        super().__init__(width, decoder_width, layers, whole_state)
        self.project = nn.ModuleList(self.make_layer(width, decoder_width) for _ in range(layers))
        of_cells = layers if whole_state else 0
        self.project_cell = nn.ModuleList(self.make_layer(width, decoder_width) for _ in range(of_cells))

    @staticmethod
    def make_layer(width: int, decoder_width: int) -> nn.Module:
        return nn.Linear(width, decoder_width)

    def forward(self, memory: Memory) -> Memory:
        final = zip(self.project, _stretched(memory.final, self.layers), strict=True)
        cells = zip(self.project_cell, _stretched(memory.cells, self.layers) if self.whole_state else (), strict=True)
        return replace(
            memory,
            final=tuple(torch.tanh(layer(h)) for layer, h in final),
            cells=tuple(layer(c) for layer, c in cells),
        )


class Mlp(Projected):
    """φ(W₂ φ(W₁ h + b₁) + b₂) of the last state, for each decoder layer; and V₂ φ(V₁ c + d₁) + d₂."""

    @staticmethod
    def make_layer(width: int, decoder_width: int) -> nn.Module:
        hidden, out = nn.Linear(width, decoder_width), nn.Linear(decoder_width, decoder_width)
        return nn.Sequential(hidden, nn.Tanh(), out)


def _stretched(final: tuple[Tensor, ...], layers: int) -> tuple[Tensor, ...]:
    """The top `layers` summaries, the topmost repeated where there are too few."""
    return final[-layers:] + (final[-1],) * (layers - len(final))
