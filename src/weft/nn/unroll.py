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
from weft.core.trace import note, scope, tracing
from weft.nn import fused
from weft.nn.cells import Recurrence
from weft.nn.dropout import Dropout, OverTime
from weft.nn.lstm import LongShort

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
    if kernel is not None and not tracing():
        return kernel.sequence(x, state)
    outs = []
    for inputs in cell.inputs(x).unbind(1):
        h, state = noted(*cell.step(inputs, state))
        outs.append(h)
    return torch.stack(outs, dim=1), state


def noted(h: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the output and the state after a step, whose h is the output, as those who trace have left them."""
    if not tracing():
        return h, state
    h = note(".h", h)
    return h, (h, *(note(".c", c) for c in state[1:]))


def read_whole_state(cell: LongShort, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return all states (B, T, D), and h and c after the last real position of each row, whose padding is at its end.

    Rows are read with their padding first. Without input and without bias a step leaves a state of zeros as it is; so
    every row begins from zeros, and all end at the last step, which is the one whose c the kernels return.
    """
    start = cell.start(x.shape[0])
    if bool(mask.all()):
        states, (h, c) = over_time(cell, x, start)
        return states, h, c
    positions, lengths, real = torch.arange(x.shape[1], device=x.device), mask.sum(1, keepdim=True), mask[..., None]
    with_real = torch.cat([x * real, real.to(x.dtype)], dim=-1)  # (B, T, I + 1)
    padding_first = reorder(with_real, (positions + lengths) % x.shape[1])
    states, (h, c) = over_time(cell.with_bias_as_input(), padding_first, start)
    return reorder(states, (positions - lengths) % x.shape[1]), h, c


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

    def start(self, rows: int, final: tuple[Tensor, ...], memories: tuple[Tensor, ...] = ()) -> Layers:
        """Return the first states: zeros, or those that hold the summaries in `final`, one for each layer.

        Where there are `memories` too (the c of an LSTM, beside the h in `final`), they are the whole states.
        """
        cells = [cell for cell, _ in self._parts()]
        if not final:
            return tuple(cell.start(rows) for cell in cells)
        if memories:
            return tuple(zip(final, memories, strict=True))
        return tuple(cell.begin(summary) for cell, summary in zip(cells, final, strict=True))

    def step(self, x: Tensor, states: Layers) -> tuple[Tensor, Layers]:
        after = []
        for number, ((cell, layer), state) in enumerate(zip(self._parts(), states, strict=True)):
            with scope(str(number)):
                h, new = noted(*cell(layer.enter(x), state))
            x = layer.leave(x, h)
            after.append(new)
        return x, tuple(after)

    def sequence(self, x: Tensor, states: Layers) -> Tensor:
        """Return the top states of all steps (B, T, D)."""
        return self.read(x, states)[0]

    def read(self, x: Tensor, states: Layers) -> tuple[Tensor, Layers]:
        """Do the same, and return each layer's state after the last step."""
        after = []
        for number, ((cell, layer), state) in enumerate(zip(self._parts(), states, strict=True)):
            with scope(str(number)):
                h, last = over_time(cell, layer.enter(x), state)
            x = layer.leave(x, h)
            after.append(last)
        return x, tuple(after)

    @property
    def only_cell(self) -> Recurrence | None:
        """The cell, if there is one layer without a norm."""
        ((cell, layer), *more) = self._parts()
        return None if more or not isinstance(layer.norm, nn.Identity) else cell

    def _parts(self) -> list[tuple[Recurrence, SublayerConnection]]:
        pairs = zip(self.cells, self.layers, strict=True)
        return [(c, la) for c, la in pairs if isinstance(c, Recurrence) and isinstance(la, SublayerConnection)]


class Reader(nn.Module):
    """Layers that read a padded sequence forwards, or forwards and backwards with both halves joined.

    With `whole_state`, the cells are LSTMs, and the c after the last real position is returned as well.
    """

    def __init__(
        self,
        forwards: Sequence[Recurrence],
        backwards: Sequence[Recurrence],
        options: LayerOptions,
        whole_state: bool = False,
    ) -> None:
        super().__init__()
        self.whole_state = whole_state
        self.forwards, self.backwards = nn.ModuleList(forwards), nn.ModuleList(backwards)
        widths = [cell.width * (2 if backwards else 1) for cell in forwards]
        self.layers = nn.ModuleList(
            SublayerConnection(options, width, number == 0) for number, width in enumerate(widths)
        )

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
        """(B, T, I), (B, T) → the top states (B, T, D), and each layer's last h and, with `whole_state`, c (B, D)."""
        order = real_first(mask)
        if order is None:
            return self._forward(x, mask)
        states, final, memories = self._forward(reorder(x, order), reorder(mask, order))
        return reorder(states, order.argsort(1)), final, memories

    def _forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Read rows whose padding is at the end."""
        final, memories, lengths = [], [], mask.sum(1, keepdim=True)  # (B, 1)
        for number, (forward, layer) in enumerate(zip(self.forwards, self.layers, strict=True)):
            assert isinstance(layer, SublayerConnection)
            entering = layer.enter(x)
            with scope(f"{number}.forward"):
                states, *last = self._read(forward, entering, mask)
            if len(self.backwards):
                with scope(f"{number}.backward"):
                    back, *first = self._read(self.backwards[number], reverse_start(entering, lengths), mask)
                last = [torch.cat(both, dim=-1) for both in zip(last, first, strict=True)]
                states = torch.cat([states, reverse_start(back, lengths)], dim=-1)
            x = layer.leave(x, states)
            final.append(layer.norm(last[0]))
            memories += last[1:]
        return x, tuple(final), tuple(memories)

    def _read(self, cell: nn.Module, x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """Return all states (B, T, D), and the state after the last real position: h, or h and c."""
        assert isinstance(cell, Recurrence)
        if self.whole_state:
            assert isinstance(cell, LongShort)
            return read_whole_state(cell, x, mask)
        states = over_time(cell, x, cell.start(x.shape[0]))[0]
        return states, last_real(states, mask)
