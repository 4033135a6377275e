"""Continuing a running text, which has no end: a search stops at the limit of its length, and that costs nothing.

A Transformer sees a window of the text. Where it is full, the last half of it is read again, as the beginning of a new
one; so a prompt may be of any length, and so may its continuation.
"""

# N hypotheses · t symbols read · V symbols

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core.kinds import Column, Stepper
from weft.core.pair import END, START


@dataclass(frozen=True)
class EndlessState:
    """The model's state and, where it sees a window, what has been read."""

    inner: Any
    read: Tensor | None  # (N, t)

    def select(self, rows: Tensor) -> EndlessState:
        return EndlessState(self.inner.select(rows), None if self.read is None else self.read[rows])


class Endless:
    """A language model of running text; `window`: how many symbols it sees, 0 if all."""

    def __init__(self, model: Stepper[Any], window: int = 0) -> None:
        self._model, self._window = model, window

    def begin(self, source: Column, context: Column | None = None) -> EndlessState:
        if not self._window:
            return EndlessState(self._model.begin(source), None)
        kept = source.values[:, -(self._window // 2 + 1) :]
        return EndlessState(self._begun(kept), kept)

    def _begun(self, values: Tensor) -> Any:
        return self._model.begin(Column(values, torch.ones_like(values, dtype=torch.bool)))

    def advance(self, y: Tensor, state: EndlessState) -> tuple[Tensor, EndlessState]:
        inner, read = state.inner, state.read
        if read is not None and not bool((y == START).all()):
            read = torch.cat([read, y[:, None]], dim=1)
            if read.shape[1] >= self._window:
                read = read[:, -(self._window // 2 + 1) :]
                inner = self._begun(read)
        log_probs, inner = self._model.advance(y, inner)
        log_probs[:, END] = 0.0
        return log_probs, EndlessState(inner, read)
