"""Several models as one: log of the mean of their probabilities. Each may read the source in its own symbols."""

# N hypotheses · M models · V symbols

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core.kinds import State, Stepper


@dataclass(frozen=True)
class States:
    """One state a model."""

    each: tuple[State, ...]

    def select(self, rows: Tensor) -> States:
        return States(tuple(state.select(rows) for state in self.each))


class Ensemble:
    """Models with the same target symbols. A source is the models' sources side by side: (N, M, S)."""

    def __init__(self, models: Sequence[Stepper[Any]]) -> None:
        self.models = models

    def begin(self, source: Tensor, mask: Tensor) -> States:
        begun = []
        for place, model in enumerate(self.models):
            longest = int(mask[:, place].sum(1).max())  # what another model's longer source padded is cut off
            begun.append(model.begin(source[:, place, :longest], mask[:, place, :longest]))
        return States(tuple(begun))

    def advance(self, y: Tensor, state: States) -> tuple[Tensor, States]:
        both = [model.advance(y, own) for model, own in zip(self.models, state.each, strict=True)]
        mean = torch.logsumexp(torch.stack([log_probs for log_probs, _ in both]), 0) - math.log(len(both))
        return mean, States(tuple(after for _, after in both))
