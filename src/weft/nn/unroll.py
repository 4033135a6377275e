"""Cells over time: layers, directions, padding, and the fast path where a cell has one.

Padding is at the end of a row, so the states of a forward recurrence at real positions never depend on it; the backward
one reads the real positions of each row in reverse order. If a mask has holes, they are moved to the end first and back
afterwards: a recurrence skips them.
"""

# B batch · T length · D width

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from weft.core.masks import last_real, real_first, reorder, reverse_start
from weft.nn import fused
from weft.nn.cells import Recurrence
from weft.nn.dropout import Dropout, OverTime

Layers = tuple[tuple[Tensor, ...], ...]


@runtime_checkable
class TorchKernel(Protocol):
    """A cell for which torch has a kernel that computes all steps in one call."""

    faster: bool  # whether it is faster than Weft's compiled code

    def sequence(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]: ...


def over_time(cell: Recurrence, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Apply one cell to (B, T, I): every h (B, T, D), and the state after the last step."""
    kernel = cell if isinstance(cell, TorchKernel) else None
    fused_cell = cell.fused() if fused.available(x) and not (kernel is not None and kernel.faster) else None
    if fused_cell is not None:
        return fused.over_time(fused_cell, x, state)
    if kernel is not None:
        return kernel.sequence(x, state)
    outs = []
    for inputs in cell.inputs(x).unbind(1):
        h, state = cell.step(inputs, state)
        outs.append(h)
    return torch.stack(outs, dim=1), state


@dataclass(frozen=True)
class LayerOptions:
    """Dropout before each layer of a recurrence, a residual connection around it, and a layer norm after it."""

    dropout: float = 0.0
    over_time: bool = False
    residual: bool = False
    norm: bool = False

    def make_dropout(self) -> Dropout:
        return OverTime(self.dropout) if self.over_time else Dropout(self.dropout)


class SublayerConnection(nn.Module):
    """What is computed before and after one layer of a recurrence; the cell is not part of it."""

    def __init__(self, options: LayerOptions, width: int, first: bool) -> None:
        super().__init__()
        self.residual = options.residual and not first
        self.dropout: nn.Module = nn.Identity() if first else options.make_dropout()
        self.norm: nn.Module = nn.LayerNorm(width) if options.norm else nn.Identity()

    def enter(self, x: Tensor) -> Tensor:
        out: Tensor = self.dropout(x)
        return out

    def leave(self, x: Tensor, h: Tensor) -> Tensor:
        """Return the output of the layer, given its input x and what the recurrence computed from it."""
        out: Tensor = self.norm(x + h if self.residual else h)
        return out


class Stack(nn.Module):
    """Layers of cells that read a sequence forwards."""

    def __init__(self, cells: Sequence[Recurrence], options: LayerOptions) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        self.layers = nn.ModuleList(
            SublayerConnection(options, cell.width, number == 0) for number, cell in enumerate(cells)
        )

    def start(self, rows: int, final: tuple[Tensor, ...]) -> Layers:
        """Return the first states: zeros, or those that hold the summaries in `final`, one for each layer."""
        cells = [cell for cell, _ in self._parts()]
        if not final:
            return tuple(cell.start(rows) for cell in cells)
        return tuple(cell.begin(summary) for cell, summary in zip(cells, final, strict=True))

    def step(self, x: Tensor, states: Layers) -> tuple[Tensor, Layers]:
        after = []
        for (cell, layer), state in zip(self._parts(), states, strict=True):
            h, new = cell(layer.enter(x), state)
            x = layer.leave(x, h)
            after.append(new)
        return x, tuple(after)

    def sequence(self, x: Tensor, states: Layers) -> Tensor:
        for (cell, layer), state in zip(self._parts(), states, strict=True):
            x = layer.leave(x, over_time(cell, layer.enter(x), state)[0])
        return x

    @property
    def only_cell(self) -> Recurrence | None:
        """The cell, if there is one layer without a norm."""
        ((cell, layer), *more) = self._parts()
        return None if more or not isinstance(layer.norm, nn.Identity) else cell

    def _parts(self) -> list[tuple[Recurrence, SublayerConnection]]:
        pairs = zip(self.cells, self.layers, strict=True)
        return [(c, la) for c, la in pairs if isinstance(c, Recurrence) and isinstance(la, SublayerConnection)]


class Reader(nn.Module):
    """Layers that read a padded sequence forwards, or forwards and backwards with both halves joined."""

    def __init__(self, forwards: Sequence[Recurrence], backwards: Sequence[Recurrence], options: LayerOptions) -> None:
        super().__init__()
        self.forwards, self.backwards = nn.ModuleList(forwards), nn.ModuleList(backwards)
        widths = [cell.width * (2 if backwards else 1) for cell in forwards]
        self.layers = nn.ModuleList(
            SublayerConnection(options, width, number == 0) for number, width in enumerate(widths)
        )

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """(B, T, I), (B, T) → the top states (B, T, D) and each layer's last one (B, D)."""
        order = real_first(mask)
        if order is None:
            return self._forward(x, mask)
        states, final = self._forward(reorder(x, order), reorder(mask, order))
        return reorder(states, order.argsort(1)), final

    def _forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read rows whose padding is at the end."""
        final, lengths = [], mask.sum(1, keepdim=True)  # (B, 1)
        for number, (forward, layer) in enumerate(zip(self.forwards, self.layers, strict=True)):
            assert isinstance(layer, SublayerConnection)
            entering = layer.enter(x)
            states = self._read(forward, entering)
            if len(self.backwards):
                back = self._read(self.backwards[number], reverse_start(entering, lengths))
                last = torch.cat([last_real(states, mask), last_real(back, mask)], dim=-1)
                states = torch.cat([states, reverse_start(back, lengths)], dim=-1)
            else:
                last = last_real(states, mask)
            x = layer.leave(x, states)
            final.append(layer.norm(last))
        return x, tuple(final)

    @staticmethod
    def _read(cell: nn.Module, x: Tensor) -> Tensor:
        assert isinstance(cell, Recurrence)
        return over_time(cell, x, cell.start(x.shape[0]))[0]
