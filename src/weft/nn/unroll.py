"""Cells over time: layers, directions, padding, and the fast path where a cell has one.

Padding stands at the end of a row, so what a forward recurrence makes of real places never depends on it; the
backward one reads each row's real places in reverse order.
"""

# B batch · T length · D width

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from weft.core.masks import last_real, reverse_real
from weft.nn import fused
from weft.nn.cells import Recurrence
from weft.nn.dropout import Dropout, OverTime

Layers = tuple[tuple[Tensor, ...], ...]


@runtime_checkable
class Sequenced(Protocol):
    """A cell for which torch has a kernel that takes all steps in one call."""

    faster: bool  # than the compiled code

    def sequence(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]: ...


def over_time(cell: Recurrence, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """One cell over (B, T, I): every h (B, T, D), and the state after the last place."""
    torchs = cell if isinstance(cell, Sequenced) else None
    weights = cell.fused() if fused.available(x) and not (torchs is not None and torchs.faster) else None
    if weights is not None:
        return fused.over_time(weights, x, state)
    if torchs is not None:
        return torchs.sequence(x, state)
    outs = []
    for inputs in cell.inputs(x).unbind(1):
        h, state = cell.step(inputs, state)
        outs.append(h)
    return torch.stack(outs, dim=1), state


@dataclass(frozen=True)
class Between:
    """What stands between the layers of a recurrence: dropout, the input added again, a norm on what goes up."""

    dropout: float = 0.0
    over_time: bool = False
    residual: bool = False
    norm: bool = False

    def make_dropout(self) -> Dropout:
        return OverTime(self.dropout) if self.over_time else Dropout(self.dropout)


class Layer(nn.Module):
    """The way into a layer and the way out of it; what the layer itself does stands between."""

    def __init__(self, between: Between, width: int, first: bool) -> None:
        super().__init__()
        self.residual = between.residual and not first
        self.dropout: nn.Module = nn.Identity() if first else between.make_dropout()
        self.norm: nn.Module = nn.LayerNorm(width) if between.norm else nn.Identity()

    def enter(self, x: Tensor) -> Tensor:
        out: Tensor = self.dropout(x)
        return out

    def leave(self, x: Tensor, h: Tensor) -> Tensor:
        """What went in and what the recurrence made of it to what goes up."""
        out: Tensor = self.norm(x + h if self.residual else h)
        return out


class Stack(nn.Module):
    """Cells on top of each other, read forwards."""

    def __init__(self, cells: Sequence[Recurrence], between: Between) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        self.layers = nn.ModuleList(Layer(between, cell.width, place == 0) for place, cell in enumerate(cells))

    def start(self, rows: int, final: tuple[Tensor, ...]) -> Layers:
        """The first states: zeros, or what `final` holds for each layer."""
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
    def alone(self) -> Recurrence | None:
        """The cell of a stack that is nothing but one cell."""
        ((cell, layer), *more) = self._parts()
        return None if more or not isinstance(layer.norm, nn.Identity) else cell

    def _parts(self) -> list[tuple[Recurrence, Layer]]:
        both = zip(self.cells, self.layers, strict=True)
        return [(c, la) for c, la in both if isinstance(c, Recurrence) and isinstance(la, Layer)]


class Reader(nn.Module):
    """Layers that read a padded sequence forwards, or forwards and backwards with both halves joined."""

    def __init__(self, forwards: Sequence[Recurrence], backwards: Sequence[Recurrence], between: Between) -> None:
        super().__init__()
        self.forwards, self.backwards = nn.ModuleList(forwards), nn.ModuleList(backwards)
        widths = [cell.width * (2 if backwards else 1) for cell in forwards]
        self.layers = nn.ModuleList(Layer(between, width, place == 0) for place, width in enumerate(widths))

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """(B, T, I), (B, T) → the top states (B, T, D) and each layer's last one (B, D)."""
        final = []
        for place, (ahead, layer) in enumerate(zip(self.forwards, self.layers, strict=True)):
            assert isinstance(layer, Layer)
            entering = layer.enter(x)
            states = self._read(ahead, entering)
            if len(self.backwards):
                back = self._read(self.backwards[place], reverse_real(entering, mask))
                last = torch.cat([last_real(states, mask), last_real(back, mask)], dim=-1)
                states = torch.cat([states, reverse_real(back, mask)], dim=-1)
            else:
                last = last_real(states, mask)
            x = layer.leave(x, states)
            final.append(layer.norm(last))
        return x, tuple(final)

    @staticmethod
    def _read(cell: nn.Module, x: Tensor) -> Tensor:
        assert isinstance(cell, Recurrence)
        return over_time(cell, x, cell.start(x.shape[0]))[0]
