"""Cells over time: layers, directions, padding, and the fast path where a cell has one.

Padding stands at the end of a row, so what a forward recurrence makes of real places never depends on it; the
backward one reads each row's real places in reverse order.
"""

# B batch · T length · D width

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from weft.core.masks import last_real, reverse_real
from weft.nn.cells import Recurrence
from weft.nn.dropout import Dropout

Layers = tuple[tuple[Tensor, ...], ...]


@runtime_checkable
class Sequenced(Protocol):
    """A cell that can take all steps in one call."""

    def sequence(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]: ...


def over_time(cell: Recurrence, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """One cell over (B, T, I): every h (B, T, D), and the state after the last place."""
    if isinstance(cell, Sequenced):
        return cell.sequence(x, state)
    outs = []
    for inputs in cell.inputs(x).unbind(1):
        h, state = cell.step(inputs, state)
        outs.append(h)
    return torch.stack(outs, dim=1), state


class Stack(nn.Module):
    """Cells on top of each other, read forwards; dropout between them."""

    def __init__(self, cells: Sequence[Recurrence], dropout: float) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        self.dropout = Dropout(dropout)

    def start(self, rows: int, final: tuple[Tensor, ...]) -> Layers:
        """The first states: zeros, or what `final` holds for each layer."""
        if not final:
            return tuple(cell.start(rows) for cell in self._cells())
        return tuple(cell.begin(summary) for cell, summary in zip(self._cells(), final, strict=True))

    def step(self, x: Tensor, states: Layers) -> tuple[Tensor, Layers]:
        after = []
        for layer, (cell, state) in enumerate(zip(self._cells(), states, strict=True)):
            x, new = cell(x if layer == 0 else self.dropout(x), state)
            after.append(new)
        return x, tuple(after)

    def sequence(self, x: Tensor, states: Layers) -> Tensor:
        for layer, (cell, state) in enumerate(zip(self._cells(), states, strict=True)):
            x, _ = over_time(cell, x if layer == 0 else self.dropout(x), state)
        return x

    def _cells(self) -> list[Recurrence]:
        return [cell for cell in self.cells if isinstance(cell, Recurrence)]


class Reader(nn.Module):
    """Layers that read a padded sequence forwards, or forwards and backwards with both halves joined."""

    def __init__(self, forwards: Sequence[Recurrence], backwards: Sequence[Recurrence], dropout: float) -> None:
        super().__init__()
        self.forwards, self.backwards = nn.ModuleList(forwards), nn.ModuleList(backwards)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """(B, T, I), (B, T) → the top states (B, T, D) and each layer's last one (B, D)."""
        final = []
        for layer, ahead in enumerate(self.forwards):
            x = x if layer == 0 else self.dropout(x)
            states = self._read(ahead, x)
            last = last_real(states, mask)
            if len(self.backwards):
                back = self._read(self.backwards[layer], reverse_real(x, mask))
                last = torch.cat([last, last_real(back, mask)], dim=-1)
                states = torch.cat([states, reverse_real(back, mask)], dim=-1)
            x = states
            final.append(last)
        return x, tuple(final)

    @staticmethod
    def _read(cell: nn.Module, x: Tensor) -> Tensor:
        assert isinstance(cell, Recurrence)
        return over_time(cell, x, cell.start(x.shape[0]))[0]
