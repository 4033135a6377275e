"""One summary of a whole sequence, for models without a decoder."""

# B batch · S source length · D width

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.core.kinds import Memory
from weft.core.masks import hide
from weft.core.trace import note
from weft.nn.dropout import Dropout


class Pool(nn.Module):
    """From what an encoder of `width` leaves behind to one vector a row (B, D)."""

    def __init__(self, width: int) -> None:
        super().__init__()

    def forward(self, memory: Memory) -> Tensor:
        raise NotImplementedError


class Last(Pool):
    """The encoder's last state: of a recurrence, the one after the last position read in each direction."""

    def forward(self, memory: Memory) -> Tensor:
        return memory.final[-1]


class Mean(Pool):
    """The mean of the states over the real positions."""

    def forward(self, memory: Memory) -> Tensor:
        real = memory.mask[..., None].to(memory.states.dtype)
        return (memory.states * real).sum(1) / real.sum(1)


class Query(Pool):
    """Σ αᵢ hᵢ with α = softmax(qᵀφ(W h + b)): a learned query attends to the states (Yang 2016)."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.key, self.query = nn.Linear(width, width), nn.Parameter(torch.empty(width))
        nn.init.normal_(self.query, std=width**-0.5)

    def forward(self, memory: Memory) -> Tensor:
        scores = torch.tanh(self.key(memory.states)) @ self.query  # (B, S)
        weights = torch.softmax(hide(scores, memory.mask).float(), dim=-1).to(memory.states.dtype)
        weights = note("pool.query", weights)
        return (weights[:, None] @ memory.states)[:, 0]  # (B, D)


class Parts(Pool):
    """relu(N(V relu(N(W [m₁; …; m_P])))): a sequence is divided into P equal parts, with mean states mₚ.

    N is layer norm. As many numbers for each sequence, whatever its length, and their order is that of time: for short
    sounds, such as words, that are spoken faster or slower. A part is a triangle about its middle that reaches the
    middles of its neighbours; of sequences with fewer positions than parts it is wider.
    """

    def __init__(self, width: int, parts: int, dropout: Dropout) -> None:
        super().__init__(width)
        self.parts, self.dropout = parts, dropout
        self.layers = nn.ModuleList([nn.Linear(parts * width, width), nn.Linear(width, width)])
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, memory: Memory) -> Tensor:
        weights = self.weights(memory.mask).to(memory.states.dtype)  # (B, P, S)
        x = (weights @ memory.states).flatten(1)  # (B, P · D)
        for layer, norm in zip(self.layers, self.norms):
            x = torch.relu(norm(layer(self.dropout(x))))
        return x

    def weights(self, mask: Tensor) -> Tensor:
        """Return how much each position counts in each part (B, P, S); each part sums to 1."""
        count = mask.sum(1, keepdim=True).clamp(min=1)  # (B, 1)
        middle = ((mask.cumsum(1) - 0.5) / count * self.parts - 0.5).clamp(0, self.parts - 1)  # (B, S), in parts
        reach = (self.parts / count).clamp(min=1)[..., None]  # (B, 1, 1)
        parts = torch.arange(self.parts, device=mask.device)[None, :, None]
        near = (1 - (middle[:, None] - parts).abs() / reach).clamp(min=0) * mask[:, None]  # (B, P, S)
        return near / near.sum(2, keepdim=True).clamp(min=1e-6)
