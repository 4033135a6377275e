"""The gradients of a batch, in memory that does not grow with rows times vocabulary.

The head processes a few rows at a time, so that the scores over the whole vocabulary are never in memory for all rows.
Its gradients are collected for its inputs, and then passed down through the rest of the model at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from weft.core.kinds import Batch, Memory, Objective
from weft.learn.teacher_forced import MOST_SCORES
from weft.nn.model import LanguageModel, Model


class Backward:
    """Computes the gradients of a model's objective."""

    def __init__(
        self, model: Model, objective: Objective, precision: str, device: torch.device, carries: bool = False
    ) -> None:
        """`carries`: each batch of a language model goes on from the state that it ended with the batch before."""
        self.model, self.objective, self._carries, self._device = model, objective, carries, device
        self.carried: Any = None  # that state; None: a batch begins from nothing
        self._half = torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")

    def __call__(self, batch: Batch, count: Tensor) -> Tensor:
        """Compute the gradients of the loss divided by `count`; return the sum of the loss."""
        with self._half:
            states, memory = self._decode(batch)
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
        if not states.requires_grad:  # nothing below the head learns
            return total
        grads = [end.grad for end in ends if end.grad is not None]
        of_states = grads[0] if len(grads) == 1 else torch.cat(grads)
        if source.grad is None:
            torch.autograd.backward([states], [of_states])
        else:
            torch.autograd.backward([states, memory.states], [of_states, source.grad])
        return total

    def _decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        if not self._carries or not isinstance(self.model, LanguageModel):
            return self.model.decode(batch)
        states, memory, after = self.model.decode_from(batch, self.carried)
        self.carried = after.detached()
        return states, memory

    def carried_tensors(self) -> list[Tensor]:
        """Return the carried state as tensors, for a checkpoint."""
        return [] if self.carried is None else list(self.carried.tensors())

    def carry_on(self, tensors: Sequence[Tensor]) -> None:
        """Go on from a state that `carried_tensors` returned."""
        if tensors and isinstance(self.model, LanguageModel):
            on_device = [tensor.to(self._device) for tensor in tensors]
            self.carried = self.model.start(on_device[0].shape[0], self._device).with_tensors(on_device)

    def _parts(self, states: Tensor) -> list[slice]:
        """Slices of rows whose scores over all symbols are at most MOST_SCORES numbers."""
        rows = max(1, MOST_SCORES // (states.shape[1] * self.model.head.symbols))
        return [slice(first, first + rows) for first in range(0, states.shape[0], rows)]
