"""A recurrent decoder: sₜ = cell([yₜ; cₜ₋₁; summary], sₜ₋₁); cₜ = attend(sₜ); oₜ = φ(W[sₜ; cₜ]).

The context cₜ₋₁ is an input when it is fed, the summary when the bridge gives it at every step. Without a fed context
all states are unrolled first, and the attention looks for all of them at once.
"""

# B batch · S source length · T target length · E embedding width · D width

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from weft.core.kinds import Memory
from weft.nn.attention import Attention, Looked
from weft.nn.dropout import Dropout
from weft.nn.embed import Embed
from weft.nn.unroll import Layers, Stack


@dataclass(frozen=True)
class RecurrentState:
    """Each layer's state, the prepared source, the context of the step before, the summary, and the place."""

    layers: Layers
    source: Looked | None
    context: Tensor | None  # (B, D), only when fed
    summary: Tensor | None  # (B, D), only when given at every step
    place: int = 0

    def select(self, rows: Tensor) -> RecurrentState:
        return RecurrentState(
            tuple(tuple(s[rows] for s in layer) for layer in self.layers),
            None if self.source is None else self.source.select(rows),
            None if self.context is None else self.context[rows],
            None if self.summary is None else self.summary[rows],
            self.place,
        )


class RecurrentDecoder(nn.Module):
    def __init__(
        self,
        embed: Embed,
        stack: Stack,
        width: int,
        memory_width: int,
        attention: Attention | None,
        feed: bool,
        every: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.embed, self.stack, self.width, self.memory_width = embed, stack, width, memory_width
        self.attention, self.feed, self.every = attention, feed and attention is not None, every
        self.join = nn.Linear(width + memory_width, width) if attention is not None else None
        self.dropout = Dropout(dropout)

    def start(self, memory: Memory) -> RecurrentState:
        rows = memory.states.shape[0]
        return RecurrentState(
            layers=self.stack.start(rows, memory.final),
            source=None if self.attention is None else self.attention.prepare(memory),
            context=memory.states.new_zeros(rows, self.memory_width) if self.feed else None,
            summary=memory.final[-1] if self.every else None,
        )

    def step(self, y: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        out, after = self._step(self.embed(y[:, None], state.place)[:, 0], state)
        return out, after

    def unroll(self, y: Tensor, state: RecurrentState) -> Tensor:
        x = self.embed(y, state.place)  # (B, T, E)
        if not self.feed:
            return self._look(self.stack.sequence(self._with_summary(x, state), state.layers), state)[0]
        outs = []
        for one in x.unbind(1):
            out, state = self._step(one, state)
            outs.append(out)
        return torch.stack(outs, dim=1)

    def _step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """One symbol's vector (B, E) to one output (B, D)."""
        x = self._with_summary(x, state)
        if state.context is not None:
            x = torch.cat([x, state.context], dim=-1)
        h, layers = self.stack.step(x, state.layers)
        out, context = self._look(h[:, None], state)
        context = context[:, 0] if self.feed and context is not None else None
        return out[:, 0], replace(state, layers=layers, context=context, place=state.place + 1)

    def _with_summary(self, x: Tensor, state: RecurrentState) -> Tensor:
        if state.summary is None:
            return x
        summary = state.summary if x.dim() == 2 else state.summary[:, None].expand(-1, x.shape[1], -1)
        return torch.cat([x, summary], dim=-1)

    def _look(self, h: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor | None]:
        """States (B, T, D) to outputs (B, T, D), and the contexts if there is attention."""
        if self.attention is None or self.join is None or state.source is None:
            return self.dropout(h), None
        context = self.attention(h, state.source)
        return self.dropout(torch.tanh(self.join(torch.cat([h, context], dim=-1)))), context
