"""Several models that predict as one, by the mean of their probabilities. Each may have source symbols of its own."""

# N hypotheses · M models · V symbols

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core.kinds import Column, State, Stepper


@dataclass(frozen=True)
class States:
    """A state for each model."""

    each: tuple[State, ...]

    def select(self, rows: Tensor) -> States:
        return States(tuple(state.select(rows) for state in self.each))


class Ensemble:
    """Models with the same target symbols. A column holds the models' columns side by side: (N, M, S, …)."""

    def __init__(self, models: Sequence[Stepper[Any]]) -> None:
        self.models = models

    def begin(self, source: Column, context: Column | None = None) -> States:
        states = []
        for number, model in enumerate(self.models):
            own_context = None if context is None else _of_model(context, number)
            states.append(model.begin(_of_model(source, number), own_context))
        return States(tuple(states))

    def advance(self, y: Tensor, state: States) -> tuple[Tensor, States]:
        steps = [model.advance(y, before) for model, before in zip(self.models, state.each, strict=True)]
        mean = torch.logsumexp(torch.stack([log_probs for log_probs, _ in steps]), 0) - math.log(len(steps))
        return mean, States(tuple(after for _, after in steps))


def _of_model(column: Column, number: int) -> Column:
    """Return one model's column, without the padding for another model's longer rows."""
    real = column.mask[:, number].any(0).nonzero()
    longest = 1 + int(real.max()) if real.numel() else 0
    return Column(column.values[:, number, :longest], column.mask[:, number, :longest])
