"""Pictures: a small residual network of convolutions, trained from scratch; its grid, or its columns, is what is read.

Batch norm has the statistics of real pixels alone, so that padding changes nothing. In training they are those of the
batch; else running ones, which no batch-mate changes. The running statistics are parameters without a gradient: so
checkpoints, averages of weights and `--init` hold them (He 2016, Ioffe 2015).
"""

# B batch · C channels · H rows · W columns · S positions handed on · D width

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from weft.core.kinds import Column
from weft.core.shapes import Picture
from weft.nn.dropout import Dropout
from weft.nn.positions import NoPositions

DEVIATION = 255 / 4  # about that of pixels
MOMENTUM = 0.1  # of the running statistics
LANES = 16  # channels last is faster, but oneDNN of torch 2 writes beyond its memory for other numbers of filters
STEADY = 1e-5  # what is added to a variance


class BatchNorm(nn.Module):
    """γ (x − μ) / √(σ² + ε) + β over the real columns of a batch; outside training μ and σ² are running averages."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.mean = nn.Parameter(torch.zeros(channels), requires_grad=False)
        self.variance = nn.Parameter(torch.ones(channels), requires_grad=False)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """Normalise (B, C, H, W); `real` (B, 1, 1, W) is 1 at real columns, None if all are. Padding must be 0."""
        parts = self.scale, self.shift
        if not self.training or real is None:
            return batch_norm(x, self.mean, self.variance, *parts, self.training, MOMENTUM, STEADY)
        count = real.sum() * x.shape[2]
        mean = x.sum((0, 2, 3)) / count
        variance = ((x - mean[:, None, None]).square() * real).sum((0, 2, 3)) / count
        with torch.no_grad():
            self.mean.lerp_(mean, MOMENTUM)
            self.variance.lerp_(variance * count / (count - 1).clamp(min=1), MOMENTUM)
        factor = self.scale * torch.rsqrt(variance + STEADY)
        return x * factor[:, None, None] + (self.shift - mean * factor)[:, None, None]


class Residual(nn.Module):
    """relu(s + B(conv(relu(B(conv x))))), where the shortcut s is x or, if the size changes, B(conv₁ₓ₁ x)."""

    def __init__(self, inputs: int, outputs: int, stride: tuple[int, int]) -> None:
        super().__init__()
        self.stride = stride
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([BatchNorm(outputs), BatchNorm(outputs)])
        changes = inputs != outputs or stride != (1, 1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if changes else None
        self.shortcut_norm = BatchNorm(outputs) if changes else None

    def forward(self, x: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return vectors and which columns are real; padding is 0 before and after."""
        after = None if real is None else real[..., :: self.stride[1]]
        inner = hidden(torch.relu(self.norms[0](hidden(self.first(x), after), after)), after)
        out = self.norms[1](hidden(self.second(inner), after), after)
        short = x
        if self.shortcut is not None and self.shortcut_norm is not None:
            short = self.shortcut_norm(hidden(self.shortcut(x), after), after)
        return hidden(torch.relu(out + short), after), after


def hidden(x: Tensor, real: Tensor | None) -> Tensor:
    """Return x with zeros in columns that are padding."""
    return x if real is None else x * real


class PictureNetwork(nn.Module):
    """A convolution, then a residual block for each halving, with twice as many filters in the first two of them."""

    def __init__(self, shape: Picture, filters: int, halvings: int, width_halvings: int) -> None:
        super().__init__()
        self.shape = shape
        self.stem, self.norm = nn.Conv2d(shape.channels, filters, 3, 1, 1, bias=False), BatchNorm(filters)
        sizes = [filters * 2 ** min(level, 2) for level in range(halvings + 1)]
        strides = [(2, 2 if level < width_halvings else 1) for level in range(halvings)]
        self.blocks = nn.ModuleList(Residual(i, o, s) for i, o, s in zip(sizes, sizes[1:], strides))
        self.filters, self.height = sizes[-1], _halved(shape.height, halvings)
        self.order = torch.channels_last if filters % LANES == 0 else torch.contiguous_format

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return vectors (B, C', H', W') of pixels (B, W, H · C), and which columns are real (B, W')."""
        real = None if bool(mask.all()) else mask[:, None, None].to(x.dtype)
        pixels = x.reshape(*x.shape[:2], self.shape.height, self.shape.channels).permute(0, 3, 2, 1)  # (B, C, H, W)
        pixels = pixels.contiguous(memory_format=self.order)
        x = hidden(torch.relu(self.norm(hidden(self.stem(hidden(pixels, real)), real), real)), real)
        for block in self.blocks:
            x, real = block(x, real)
        left = mask if real is None else real[:, 0, 0] > 0
        return x, left if real is not None else left.new_ones(x.shape[0], x.shape[3])


def _halved(size: int, times: int) -> int:
    for _ in range(times):
        size = -(-size // 2)
    return size


class Grid(nn.Module):
    """W x + b at each cell of the grid, and a learned vector for its row and for its column."""

    def __init__(self, shape: Picture, filters: int, halvings: int, width: int) -> None:
        super().__init__()
        self.network = PictureNetwork(shape, filters, halvings, halvings)
        self.project = nn.Linear(self.network.filters, width)
        columns = _halved(shape.width, halvings)
        self.rows, self.columns = (
            nn.Parameter(torch.randn(size, width) * 0.1) for size in (self.network.height, columns)
        )

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        grid, real = self.network(x, mask)
        vectors = self.project(grid.permute(0, 2, 3, 1))  # (B, H', W', D)
        vectors = vectors + self.rows[:, None] + self.columns[: vectors.shape[2]]
        return vectors.flatten(1, 2), real[:, None].expand(-1, vectors.shape[1], -1).flatten(1)


class Columns(nn.Module):
    """W [x₁; …; x_H] + b: all rows of a column are one position, from the left to the right."""

    def __init__(self, shape: Picture, filters: int, halvings: int, width: int, factor: int) -> None:
        super().__init__()
        self.network = PictureNetwork(shape, filters, halvings, factor.bit_length() - 1)
        self.project = nn.Linear(self.network.filters * self.network.height, width)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        grid, real = self.network(x, mask)
        return self.project(grid.permute(0, 3, 1, 2).flatten(2)), real  # (B, W', D)


class PictureReader(nn.Module):
    """A network that makes vectors of pixels; then positions and dropout.

    In training, Gaussian `noise` is added to the pixels, of which 1 is about a deviation.
    """

    def __init__(
        self, network: Grid | Columns, width: int, positions: NoPositions, dropout: Dropout, noise: float = 0.0
    ) -> None:
        super().__init__()
        self.network, self.positions, self.width, self.noise = network, positions, width, noise
        self.dropout = dropout

    def begin(self) -> None:
        """Begin a new sequence: a dropout mask that lasts over time is drawn anew."""
        self.dropout.begin()

    def read(self, column: Column) -> tuple[Tensor, Tensor]:
        """Return vectors (B, S, D) of pictures (B, W, H · C), and their mask (B, S)."""
        values = column.values / DEVIATION
        if self.noise and self.training:
            values = values + self.noise * torch.randn_like(values)
        x, mask = self.network(values, column.mask)
        return self.dropout(self.positions.add(x, 0)), mask
