"""Looking at the source: score, weigh, mix. The score and the weigher are parts of their own."""

# B batch · T queries · S keys · D width

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from weft.core.kinds import Memory
from weft.core.masks import hide
from weft.core.trace import note
from weft.nn.scores import Additive, Dot

Weigher = Callable[[Tensor], Tensor]


def softmax(scores: Tensor) -> Tensor:
    """exp(sᵢ) / Σ exp(sⱼ) over the keys."""
    return torch.softmax(scores, dim=-1)


@dataclass(frozen=True)
class Looked:
    """A source prepared for many looks: keys, values and mask."""

    keys: Tensor  # (B, S, D)
    values: Tensor  # (B, S, D)
    mask: Tensor  # (B, S)

    def select(self, rows: Tensor) -> Looked:
        return Looked(self.keys[rows], self.values[rows], self.mask[rows])


class Attention(nn.Module):
    """context = Σ weigh(score(q, k))ᵢ vᵢ over the real places of the source."""

    def __init__(self, score: Dot | Additive, weigh: Weigher) -> None:
        super().__init__()
        self.score, self.weigh = score, weigh

    def prepare(self, memory: Memory) -> Looked:
        return Looked(self.score.keys(memory.states), memory.states, memory.mask)

    def forward(self, query: Tensor, source: Looked) -> Tensor:
        weights = self.weigh(hide(self.score(query, source.keys), source.mask[:, None]))  # (B, T, S)
        note("decode.cross", weights)
        return weights @ source.values  # (B, T, D)
