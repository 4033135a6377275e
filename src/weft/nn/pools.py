"""One summary of a whole sequence, for models without a decoder."""

# B batch · S source length · D width

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.core.kinds import Memory
from weft.core.masks import hide
from weft.core.trace import note


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
