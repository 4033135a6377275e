"""Joint decoding: every symbol is scored by (1 − w) of the decoder's log-probability and w of that of CTC.

CTC's is log p(the output begins with h·c) − log p(it begins with h), and for END that the output is h (Watanabe 2017).
The searches know nothing of it: they see a model whose log-probabilities are these sums. Padding is a frame that is
surely blank, which changes no sum, so that the result does not depend on the other lines of a batch.

Limits: each step takes time in proportion to frames × symbols; vocabularies of words are slow.
"""

# B lines · N hypotheses · S frames · V symbols

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from weft.core.kinds import AlignedStepper, Column, State, Stepper
from weft.core.pair import END, PAD
from weft.search.ensemble import Ensemble
from weft.search.rules import NEVER

LEAST = -1e4  # the log-probability of a symbol that CTC cannot write: finite, so that a forced prefix keeps a score


@dataclass(frozen=True)
class Prefixes:
    """What CTC says of hypotheses: log p of the paths that write each one, by how they end, after every frame.

    All in float64 on the CPU, whatever the device of the model: long sums, and MPS has no float64.
    """

    frames: Tensor  # (B, S, V)
    rows: Tensor  # (N,) the line of each hypothesis
    last: Tensor  # (N,) the last symbol; PAD where nothing is written
    symbol: Tensor  # (N, S)
    blank: Tensor  # (N, S)
    begun: Tensor  # (N,) log p that the output begins with the hypothesis

    @classmethod
    def empty(cls, log_probs: Tensor, mask: Tensor) -> Prefixes:
        """Return one hypothesis a line, of no symbols."""
        frames = log_probs.cpu().double()
        sure = torch.full_like(frames[0, 0], NEVER)
        sure[PAD] = 0.0
        frames = torch.where(mask.cpu()[..., None], frames, sure)
        blank = frames[:, :, PAD].cumsum(1)
        rows = torch.arange(len(mask))
        last, never = torch.full_like(rows, PAD), torch.full_like(blank, NEVER)
        return cls(frames, rows, last, never, blank, blank.new_zeros(len(rows)))

    def select(self, rows: Tensor) -> Prefixes:
        rows = rows.cpu()
        values = self.rows[rows], self.last[rows], self.symbol[rows], self.blank[rows], self.begun[rows]
        return Prefixes(self.frames, *values)

    def extended(self, y: Tensor) -> Prefixes:
        """Return the hypotheses with one more symbol each (N,)."""
        repeated, total = (y == self.last)[:, None], torch.logaddexp(self.symbol, self.blank)
        entering = self._entering(torch.where(repeated, self.blank, total))
        of_symbol, of_blank = self.frames[self.rows, :, y], self.frames[self.rows, :, PAD]  # (N, S)
        symbol, blank, begun = (torch.full_like(self.begun, NEVER) for _ in range(3))
        symbols, blanks = [], []
        for t in range(entering.shape[1]):
            blank = torch.logaddexp(symbol, blank) + of_blank[:, t]
            symbol = torch.logaddexp(symbol, entering[:, t]) + of_symbol[:, t]
            begun = torch.logaddexp(begun, entering[:, t] + of_symbol[:, t])
            symbols.append(symbol)
            blanks.append(blank)
        return replace(self, last=y, symbol=torch.stack(symbols, 1), blank=torch.stack(blanks, 1), begun=begun)

    def next(self) -> Tensor:
        """Return the log-probability of each next symbol (N, V)."""
        total = torch.logaddexp(self.symbol, self.blank)
        entering, again = self._entering(total), self._entering(self.blank)  # the same symbol needs a blank between
        scores = torch.full_like(self.frames[self.rows, 0], NEVER)
        own = self.last[:, None]
        for t in range(total.shape[1]):
            before = entering[:, t : t + 1].expand_as(scores).scatter(1, own, again[:, t : t + 1])
            scores = torch.logaddexp(scores, before + self.frames[self.rows, t])
        scores[:, PAD], scores[:, END] = NEVER, total[:, -1]
        return (scores - self.begun[:, None]).nan_to_num(nan=LEAST).clamp(min=LEAST)

    def _entering(self, before: Tensor) -> Tensor:
        """Return log p of what may stand before a new symbol at each frame (N, S)."""
        first = torch.where(self.last == PAD, 0.0, NEVER).to(before)
        return torch.cat([first[:, None], before[:, :-1]], 1)


@dataclass(frozen=True)
class JointState:
    """The state of the decoder, and what CTC says of the hypotheses."""

    inner: State
    prefixes: Prefixes
    begun: bool = False

    def select(self, rows: Tensor) -> JointState:
        return replace(self, inner=self.inner.select(rows), prefixes=self.prefixes.select(rows))


class JointSearch:
    """A model with CTC beside its decoder, as searches see it."""

    def __init__(self, model: AlignedStepper[Any], weight: float) -> None:
        self.model, self.weight = model, weight

    def begin(self, source: Column, context: Column | None = None) -> JointState:
        inner, (log_probs, mask) = self.model.begin_aligned(source, context)
        return JointState(inner, Prefixes.empty(log_probs, mask))

    def advance(self, y: Tensor, state: JointState) -> tuple[Tensor, JointState]:
        written, inner = self.model.advance(y, state.inner)
        prefixes = state.prefixes.extended(y.cpu()) if state.begun else state.prefixes  # START is not written
        scores = (1 - self.weight) * written + self.weight * prefixes.next().to(written)
        return scores, JointState(inner, prefixes, begun=True)


def joint(model: Stepper[Any], weight: float) -> Stepper[Any]:
    """Return the model as it is searched jointly; a model without CTC beside its decoder as it is."""
    if isinstance(model, Ensemble):
        return Ensemble([joint(member, weight) for member in model.models])
    return JointSearch(model, weight) if weight and isinstance(model, AlignedStepper) else model
