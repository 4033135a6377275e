"""Numbers: from vectors of features to vectors of a model's width."""

# B batch · T length · F features · D width handed on

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.core.kinds import Column
from weft.nn.dropout import Dropout
from weft.nn.positions import NoPositions


class FrameReader(nn.Module):
    """W x + b at each position; then positions and dropout.

    In training, Gaussian `noise` is added to the numbers. A decoder reads zeros before its first output; where it
    `starts` so, a learned vector is added at position 0, which tells these zeros from others.
    """

    def __init__(
        self,
        features: int,
        width: int,
        positions: NoPositions,
        dropout: Dropout,
        noise: float = 0.0,
        starts: bool = False,
    ) -> None:
        super().__init__()
        self.positions, self.width, self.noise = positions, width, noise
        self.project = nn.Linear(features, width - positions.room)
        self.first = nn.Parameter(torch.randn(width - positions.room) * width**-0.5) if starts else None
        self.dropout = dropout

    def begin(self) -> None:
        """Begin a new sequence: a dropout mask that lasts over time is drawn anew."""
        self.dropout.begin()

    def read(self, column: Column) -> tuple[Tensor, Tensor]:
        """Return the vectors (B, S, D) of a column, and its mask."""
        return self(column.values), column.mask

    def forward(self, values: Tensor, start: int = 0) -> Tensor:
        """Return the vectors (B, T, D) of numbers (B, T, F), the first of which is at position `start`."""
        if self.noise and self.training:
            values = values + self.noise * torch.randn_like(values)
        x = self.project(values)
        if self.first is not None and start == 0:
            x = torch.cat([x[:, :1] + self.first, x[:, 1:]], dim=1)
        out: Tensor = self.dropout(self.positions.add(x, start))
        return out


class UnreadFrames(nn.Module):
    """The same learned vector at every position, whatever the numbers are; another one at position 0.

    For a decoder whose outputs depend on the source alone: it learns as it predicts, all steps at once.
    """

    def __init__(self, width: int, positions: NoPositions, dropout: Dropout, noise: float = 0.0) -> None:
        super().__init__()
        self.positions, self.width, self.noise, self.dropout = positions, width, noise, dropout
        self.first, self.others = (nn.Parameter(torch.randn(width - positions.room) * width**-0.5) for _ in range(2))

    def begin(self) -> None:
        """Begin a new sequence: a dropout mask that lasts over time is drawn anew."""
        self.dropout.begin()

    def read(self, column: Column) -> tuple[Tensor, Tensor]:
        """Return the vectors (B, S, D) of a column, and its mask."""
        return self(column.values), column.mask

    def forward(self, values: Tensor, start: int = 0) -> Tensor:
        """Return the vectors (B, T, D) of positions `start` and after; `values` (B, T, F) say how many there are."""
        rows, steps = values.shape[:2]
        vectors: list[Tensor] = [self.first if start + step == 0 else self.others for step in range(steps)]
        x = torch.stack(vectors)[None].expand(rows, -1, -1)
        if self.noise and self.training:
            x = x + self.noise * torch.randn_like(x)
        out: Tensor = self.dropout(self.positions.add(x, start))
        return out
