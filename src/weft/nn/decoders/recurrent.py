"""A recurrent decoder: sₜ = cell([yₜ; c; summary], sₜ₋₁), oₜ = join(sₜ, cₜ).

The query of the context cₜ is sₜ (after the step, Luong 2015) or sₜ₋₁ (before it, Bahdanau 2015). A fed context is an
input of the next step, or of this one where it is known already. The summary is an input when the bridge gives it at
every step, and so is the value of a context column that is read step by step. Without a fed context all states are
unrolled first, and attention runs over all of them at once.
"""

# B batch · S source length · T target length · E embedding width · D width · C context width

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from weft.core.kinds import Memory
from weft.core.trace import note, scope
from weft.nn import fused
from weft.nn.attention import Attention, PreparedSource
from weft.nn.cells import blend
from weft.nn.context import at_steps
from weft.nn.dropout import Dropout, begin_all
from weft.nn.fused import FusedAttention
from weft.nn.unroll import Layers, Stack


@dataclass(frozen=True)
class RecurrentState:
    """Each layer's state, the prepared source, the context of the step before, the summary, and the position."""

    layers: Layers
    source: PreparedSource | None
    context: Tensor | None  # (B, C), only when fed to the next step
    summary: Tensor | None  # (B, D), only when given at every step
    top: Tensor | None  # (B, D), the output of the stack at the step before, only when it is the query
    attended: Tensor | None  # (B, H, S), the attention weights of the step before, only for location-aware attention
    beside: Tensor | None = None  # (B, T, E), of a column that is read step by step
    place: int = 0

    def select(self, rows: Tensor) -> RecurrentState:
        return RecurrentState(
            tuple(tuple(s[rows] for s in layer) for layer in self.layers),
            None if self.source is None else self.source.select(rows),
            None if self.context is None else self.context[rows],
            None if self.summary is None else self.summary[rows],
            None if self.top is None else self.top[rows],
            None if self.attended is None else self.attended[rows],
            None if self.beside is None else self.beside[rows],
            self.place,
        )

    def tensors(self) -> list[Tensor]:
        """Return the states of all layers, (B, D) each."""
        return [tensor for layer in self.layers for tensor in layer]

    def with_tensors(self, tensors: Sequence[Tensor]) -> RecurrentState:
        """Return the state with these states of the layers, in the order of `tensors`."""
        rest = iter(tensors)
        return replace(self, layers=tuple(tuple(next(rest) for _ in layer) for layer in self.layers))

    def detached(self) -> RecurrentState:
        """Return the state without its history, at position 0: gradients end here."""
        return replace(self.with_tensors([tensor.detach() for tensor in self.tensors()]), place=0)


class Concat(nn.Module):
    """o = φ(W [s; c] + b)"""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.both = nn.Linear(width + context, width)

    def forward(self, h: Tensor, context: Tensor) -> Tensor:
        return torch.tanh(self.both(torch.cat([h, context], dim=-1)))


class Gate(nn.Module):
    """g = σ(W [s; c] + b); o = g∘s + (1−g)∘φ(V c)"""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width + context, width)
        self.of_context = nn.Linear(context, width, bias=False)

    def forward(self, h: Tensor, context: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(torch.cat([h, context], dim=-1)))
        return blend(torch.tanh(self.of_context(context)), h, gate)


class Context(nn.Module):
    """o = φ(W c + b): the readout sees the context alone"""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.of_context = nn.Linear(context, width)

    def forward(self, h: Tensor, context: Tensor) -> Tensor:
        return torch.tanh(self.of_context(context))


@dataclass(frozen=True)
class AttentionUse:
    """How a recurrent decoder uses its attention."""

    feed: bool = True
    before: bool = False  # the query is the state before the step


class RecurrentDecoder(nn.Module):
    def __init__(
        self,
        stack: Stack,
        width: int,
        attention: Attention | None,
        join: Concat | Gate | Context | None,
        looking: AttentionUse,
        every: bool,
        dropout: Dropout,
    ) -> None:
        super().__init__()
        self.stack, self.width, self.every, self.dropout = stack, width, every, dropout
        self.attention, self.join = attention, join
        self.feed, self.before = looking.feed and attention is not None, looking.before and attention is not None

    def start(self, memory: Memory, beside: Tensor | None = None) -> RecurrentState:
        begin_all(self)
        rows, fed_next = memory.states.shape[0], self.feed and not self.before
        layers = self.stack.start(rows, memory.final, memory.cells)
        source = None if self.attention is None else self.attention.prepare(memory)
        return RecurrentState(
            layers=layers,
            source=source,
            context=memory.states.new_zeros(rows, self._context_width) if fed_next else None,
            summary=memory.final[-1] if self.every else None,
            top=layers[-1][0] if self.before else None,
            attended=None if self.attention is None or source is None else self.attention.first(source),
            beside=beside,
        )

    @property
    def _context_width(self) -> int:
        assert self.attention is not None
        return self.attention.width

    def step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        h, context, after = self._step(self._with_more(x[:, None], state)[:, 0], state)
        return self._joined(h[:, None], context)[:, 0], after

    def unroll(self, x: Tensor, state: RecurrentState) -> Tensor:
        if not self.feed:
            return self._all_at_once(x, state)[0]
        return self._joined(*self._fed(self._with_more(x, state), state))

    def read(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        if not self.feed:
            return self._all_at_once(x, state)
        outs = []
        for step in x.unbind(1):
            out, state = self.step(step, state)
            outs.append(out)
        return torch.stack(outs, dim=1), state

    def _all_at_once(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        with scope("decode"):
            h, layers = self.stack.read(self._with_more(x, state), state.layers)  # (B, T, D)
        h = note("decode.states", h)
        query = h if state.top is None else torch.cat([state.top[:, None], h[:, :-1]], dim=1)
        context = self._look(query, state)[0]
        top = None if state.top is None else h[:, -1]
        return self._joined(h, context), replace(state, layers=layers, top=top, place=state.place + x.shape[1])

    def _fed(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor | None]:
        cell, attention = self.stack.only_cell, self._fused_attention(state)
        weights = cell.fused() if cell is not None and fused.available(x) else None
        if weights is not None and attention is not None:
            return fused.with_attention(weights, attention, x, state.layers[0])
        states, contexts = [], []
        for step in x.unbind(1):
            h, context, state = self._step(step, state)
            states.append(h[:, None])
            contexts.append(context)
        return torch.cat(states, dim=1), torch.cat([c for c in contexts if c is not None], dim=1)

    def _step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor | None, RecurrentState]:
        """From one vector (B, I) to the state (B, D), the context (B, 1, C), and the state of the next step."""
        context, attended = (None, state.attended) if state.top is None else self._look(state.top[:, None], state)
        if self.feed and context is not None:
            x = torch.cat([x, context[:, 0]], dim=-1)
        elif state.context is not None:
            x = torch.cat([x, state.context], dim=-1)
        with scope("decode"):
            h, layers = self.stack.step(x, state.layers)
        if state.top is None:
            context, attended = self._look(h[:, None], state)
        next_context = context[:, 0] if state.context is not None and context is not None else None
        top = None if state.top is None else h
        return (
            h,
            context,
            replace(state, layers=layers, context=next_context, top=top, attended=attended, place=state.place + 1),
        )

    def _with_more(self, x: Tensor, state: RecurrentState) -> Tensor:
        """Append the steps of a context column, and the summary if the bridge gives it at every step, to (B, T, E)."""
        if state.beside is not None:
            x = torch.cat([x, at_steps(state.beside, state.place, x.shape[1])], dim=-1)
        if state.summary is None:
            return x
        return torch.cat([x, state.summary[:, None].expand(-1, x.shape[1], -1)], dim=-1)

    def _fused_attention(self, state: RecurrentState) -> FusedAttention | None:
        """Return what the compiled code needs, which begins with the first symbol and attends after each step."""
        if self.attention is None or state.source is None or self.before or state.place:
            return None
        return self.attention.fused(state.source)

    def _look(self, query: Tensor, state: RecurrentState) -> tuple[Tensor | None, Tensor | None]:
        """Return the context, and the attention weights if the next step needs them."""
        if self.attention is None or state.source is None:
            return None, None
        if state.attended is not None:
            return self.attention.move(query, state.source, state.attended)
        context: Tensor = self.attention(query, state.source)
        return context, None

    def _joined(self, h: Tensor, context: Tensor | None) -> Tensor:
        """Join states (B, T, D) and contexts (B, T, C) to outputs (B, T, D)."""
        out = h if self.join is None or context is None else self.join(h, context)
        dropped: Tensor = self.dropout(out)
        return dropped
