"""From the decoder's states to an Emission."""

# B batch · T length · D width · E embedding width · V symbols

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from weft.core.kinds import Emission, Memory


class Tokens(nn.Module):
    """Scores over the target's symbols: W o + b, with W the embedding itself when tied (Press 2017)."""

    sees_source = False

    def __init__(self, width: int, table: nn.Embedding, tied: bool) -> None:
        super().__init__()
        own, self.symbols = table.embedding_dim, table.num_embeddings
        self.project: nn.Module = nn.Identity() if width == own else nn.Linear(width, own)
        self.weight = table.weight if tied else nn.Parameter(torch.empty_like(table.weight).normal_(std=own**-0.5))
        self.bias = nn.Parameter(torch.zeros(self.symbols))

    def forward(self, out: Tensor, memory: Memory | None) -> Emission:
        return Emission(linear(self.project(out), self.weight, self.bias))  # (…, V)
