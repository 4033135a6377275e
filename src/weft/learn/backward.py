"""The gradients of a batch, in memory that does not grow with rows times vocabulary.

The head processes a few rows at a time, so that the scores over the whole vocabulary are never in memory for all rows.
Its gradients are collected for its inputs, and then passed down through the rest of the model at once.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from weft.core.kinds import Batch, Objective
from weft.learn.teacher_forced import MOST_SCORES
from weft.nn.model import Model


class Backward:
    """Computes the gradients of a model's objective."""

    def __init__(self, model: Model, objective: Objective, precision: str, device: torch.device) -> None:
        self.model, self.objective = model, objective
        self._half = torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")

    def __call__(self, batch: Batch, count: Tensor) -> Tensor:
        """Compute the gradients of the loss divided by `count`; return the sum of the loss."""
        with self._half:
            states, memory = self.model.decode(batch)
        ends, source = [], memory.states.detach()
        if self.model.head.sees_source:
            source.requires_grad_()
        total = torch.zeros((), device=states.device)
        for some in self._parts(states):
            ends.append(states.detach()[some].requires_grad_())
            with self._half:
                emission = self.model.head(ends[-1], replace(memory, states=source).select(some))
            loss = self.objective(emission, batch.rows(some)).total
            (loss / count).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        of_states = torch.cat([end.grad for end in ends if end.grad is not None])
        if source.grad is None:
            torch.autograd.backward([states], [of_states])
        else:
            torch.autograd.backward([states, memory.states], [of_states, source.grad])
        return total

    def _parts(self, states: Tensor) -> list[slice]:
        """Slices of rows whose scores over all symbols are at most MOST_SCORES numbers."""
        rows = max(1, MOST_SCORES // (states.shape[1] * self.model.head.symbols))
        return [slice(first, first + rows) for first in range(0, states.shape[0], rows)]
