"""Frames of sound: from many narrow vectors to fewer wide ones."""

# B batch · T frames · S positions handed on · F features · D width

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from weft.core.kinds import Column
from weft.core.shapes import Picture
from weft.nn.dropout import Dropout
from weft.nn.positions import NoPositions
from weft.nn.readers.pictures import Columns

FILTERS, HALVINGS = 16, 3  # of the convolutions


class Stacked(nn.Module):
    """W [x₁; …; x_k] + b: k neighbouring frames are one position."""

    def __init__(self, features: int, width: int, factor: int) -> None:
        super().__init__()
        self.factor = factor
        self.project = nn.Linear(features * factor, width)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x, mask = padded_to(x, mask, self.factor)
        joined = x.reshape(x.shape[0], -1, self.factor * x.shape[2])  # (B, S, k F)
        return self.project(joined), mask[:, :: self.factor]


class Convolved(nn.Module):
    """A residual network of convolutions over time and bands, as over a picture (`nn/readers/pictures.py`)."""

    def __init__(self, features: int, width: int, factor: int, bands: int = 0) -> None:
        """`bands` are how many of the features are energies; where there are more, the rest are their deltas."""
        super().__init__()
        self.bands = bands or features
        shape = Picture(features // self.bands, self.bands)
        self.columns = Columns(shape, FILTERS, HALVINGS, width, factor)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        if x.shape[2] > self.bands:  # the energy and the delta of a band together
            x = x.reshape(*x.shape[:2], -1, self.bands).transpose(2, 3).flatten(2)
        vectors, real = self.columns(x, mask)
        return vectors, real


def padded_to(x: Tensor, mask: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """Return rows whose length is a multiple of `factor`."""
    more = -x.shape[1] % factor
    return pad(x * mask[..., None], (0, 0, 0, more)), pad(mask, (0, more))


class SoundReader(nn.Module):
    """A network that lowers the rate of frames by `factor`; then positions and dropout.

    In training, Gaussian `noise` is added to the frames.
    """

    def __init__(
        self,
        network: Stacked | Convolved,
        width: int,
        positions: NoPositions,
        dropout: Dropout,
        noise: float = 0.0,
    ) -> None:
        super().__init__()
        self.network, self.positions, self.width, self.noise = network, positions, width, noise
        self.dropout = dropout

    def begin(self) -> None:
        """Begin a new sequence: a dropout mask that lasts over time is drawn anew."""
        self.dropout.begin()

    def read(self, column: Column) -> tuple[Tensor, Tensor]:
        """Return vectors (B, S, D) of frames (B, T, F), and their mask (B, S)."""
        values = column.values
        if self.noise and self.training:
            values = values + self.noise * torch.randn_like(values)
        x, mask = self.network(values, column.mask)
        return self.dropout(self.positions.add(x, 0)), mask
