"""AdamW, the length of the gradient, and the running average of the weights that predicts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def adamw(model: nn.Module, weight_decay: float, of_embeddings: float) -> torch.optim.AdamW:
    """AdamW (Loshchilov 2019); vectors and embeddings are not drawn to zero, and embeddings have a rate of their own.

    The rates come with each step (`put_rate`): `of_embeddings` is theirs in multiples of the others'.
    """
    known = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    tables = [p for p in model.parameters() if id(p) in known]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    matrices = [p for p in model.parameters() if p.dim() >= 2 and id(p) not in known]
    groups = [
        {"params": matrices, "weight_decay": weight_decay, "times": 1.0},
        {"params": vectors, "weight_decay": 0.0, "times": 1.0},
        {"params": tables, "weight_decay": 0.0, "times": of_embeddings},
    ]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)


def put_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The rate of the next step, each group's by its own multiple."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["times"]


class Average:
    """w̄ ← d w̄ + (1−d) w after every step, with d rising to its value so that early weights are soon forgotten."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self._own = decay, list(model.parameters())
        self.reset()

    def reset(self) -> None:
        """Begin from the model's weights of now."""
        self.updates = 0
        self.weights = [p.detach().clone() for p in self._own] if self.decay else []

    def update(self) -> None:
        if not self.decay:
            return
        self.updates += 1
        decay = min(self.decay, self.updates / (self.updates + 10))
        torch._foreach_lerp_(self.weights, [p.detach() for p in self._own], 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model has the averaged weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for parameter, averaged in zip(self._own, self.weights):
            parameter.data, averaged.data = averaged.data, parameter.data


def shorten(model: nn.Module, longest: float) -> Tensor:
    """Shorten the gradient to length `longest`; its length before."""
    return nn.utils.clip_grad_norm_(model.parameters(), longest)
