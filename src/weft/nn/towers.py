"""Towers, each of which reads a source or a target into one vector, and the head that compares vectors."""

# B batch · S length · D width · H further targets of each row

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, normalize

from weft.core.kinds import Column, Encoder, Memory, Reader
from weft.core.masks import reverse_real
from weft.core.pair import SPECIALS
from weft.core.vectors import Vector

SCALES = (1.0, 100.0)  # of similarities, at most (Radford 2021)


class Tower(nn.Module):
    """A reader, an encoder and a pool: from a column to one vector a row."""

    alike = False  # whether a row has the same vector in every batch, to the last bit

    def __init__(self, reader: Reader, encoder: Encoder, pool: nn.Module) -> None:
        super().__init__()
        self.reader, self.encoder, self.pool = reader, encoder, pool

    def forward(self, column: Column) -> Tensor:
        """Return vectors (B, D)."""
        self.reader.begin()
        read = Column(reverse_real(column.values, column.mask), column.mask) if self.encoder.reverse else column
        vectors: Tensor = self.pool(self.encoder(*self.reader.read(read)))
        return vectors


class BagTower(nn.Module):
    """Σₜ (1 + log nₜ) eₜ over the different tokens t of a row, which stands nₜ times in it; e has its weight, too.

    In training, each token is left out with probability `dropout`. Special tokens and unknown ones do not count.
    """

    alike = True

    def __init__(self, table: nn.Embedding, dropout: float) -> None:
        super().__init__()
        self.table, self.dropout = table, dropout

    def forward(self, column: Column) -> Tensor:
        """Return vectors (B, D)."""
        ids, first = column.values.sort(dim=1).values, column.values.new_full((column.size, 1), -1)
        new = ids != torch.cat([first, ids[:, :-1]], dim=1)  # where a token stands for the first time
        counted = new & (ids >= len(SPECIALS))
        which = new.flatten().cumsum(0) - 1
        count = torch.bincount(which, minlength=1)[which].view_as(ids)  # (B, S)
        weights = (1 + count.float().log()) * counted
        if self.training and self.dropout:
            weights = weights * (torch.rand_like(weights) >= self.dropout)
        kept = weights > 0
        lengths = kept.sum(1)
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)[:-1]])
        return embedding_bag(ids[kept], self.table.weight, offsets, mode="sum", per_sample_weights=weights[kept])


AnyTower = Tower | BagTower


class VectorHead(nn.Module):
    """Makes vectors as long as 1; the scale of their similarities, 1/τ, is learned."""

    sees_source = False
    symbols = 1

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)))

    def forward(self, out: Tensor, memory: Memory | None) -> Vector:
        """Return the emission of the vectors of source, target and further targets of each row (B, 2 + H, D)."""
        out = normalize(out, dim=-1)
        return Vector(out[:, 0], out[:, 1], out[:, 2:].flatten(0, 1), self.scale())

    def scale(self) -> Tensor:
        """Return 1/τ."""
        return self.log_scale.exp().clamp(*SCALES)
