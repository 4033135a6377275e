"""From symbol ids to vectors."""

# B batch · T length · V symbols · E embedding width · D width handed on

from __future__ import annotations

from torch import Tensor, nn

from weft.core.kinds import PAD
from weft.nn.dropout import Dropout
from weft.nn.positions import NoPositions


class Embed(nn.Module):
    """Vectors from a table, times √E, projected if the next part is of another width; then positions and dropout."""

    def __init__(self, table: nn.Embedding, width: int, positions: NoPositions, dropout: float) -> None:
        super().__init__()
        self.table, self.positions, self.width = table, positions, width
        own = table.embedding_dim
        self.project: nn.Module = nn.Identity() if own == width else nn.Linear(own, width)
        self.dropout = Dropout(dropout)
        self.scale = own**0.5

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        x = self.project(self.table(ids) * self.scale)  # (B, T, D)
        out: Tensor = self.dropout(self.positions.add(x, start))
        return out


def table(symbols: int, width: int) -> nn.Embedding:
    """Vectors of length about 1, so that a tied output matrix starts with scores of sensible size."""
    made = nn.Embedding(symbols, width, padding_idx=PAD)
    nn.init.normal_(made.weight, std=width**-0.5)
    nn.init.zeros_(made.weight[PAD].detach())
    return made
