"""Token embeddings: from ids to vectors."""

# B batch · T length · V symbols · E embedding width · D width handed on

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.core.kinds import Column
from weft.core.pair import PAD
from weft.nn.dropout import Dropout
from weft.nn.positions import NoPositions


class TokenReader(nn.Module):
    """Vectors from a table, times √E, projected if the next part is of another width; then positions and dropout.

    In training, Gaussian `noise` is added (its standard deviation relative to a vector's own). The symbol
    `without_position`, if there is one, is read without its position, to show what comes of that.
    """

    def __init__(
        self,
        table: nn.Embedding,
        width: int,
        positions: NoPositions,
        dropout: Dropout,
        noise: float = 0.0,
        without_position: int | None = None,
    ) -> None:
        super().__init__()
        self.without_position = without_position
        self.table, self.positions, self.width, self.noise = table, positions, width, noise
        own, left = table.embedding_dim, width - positions.room
        self.project: nn.Module = nn.Identity() if own == left else nn.Linear(own, left)
        self.dropout = dropout
        self.scale = own**0.5

    def begin(self) -> None:
        """Begin a new sequence: a dropout mask that lasts over time is drawn anew."""
        self.dropout.begin()

    def read(self, column: Column) -> tuple[Tensor, Tensor]:
        """Return the vectors (B, S, D) of a column, and its mask."""
        return self(column.values), column.mask

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        """Return the vectors (B, T, D) of ids (B, T), the first of which is at position `start`."""
        x = self.table(ids) * self.scale
        if self.noise and self.training:
            x = x + self.noise * torch.randn_like(x)
        x = self.project(x)  # (B, T, D)
        placed = self.positions.add(x, start)
        if self.without_position is not None:
            placed = torch.where((ids == self.without_position)[..., None], x, placed)
        out: Tensor = self.dropout(placed)
        return out


def table(symbols: int, width: int) -> nn.Embedding:
    """Return vectors of length about 1, so that a tied output matrix starts with scores of sensible size."""
    vectors = nn.Embedding(symbols, width, padding_idx=PAD)
    nn.init.normal_(vectors.weight, std=width**-0.5)
    nn.init.zeros_(vectors.weight[PAD].detach())
    return vectors
