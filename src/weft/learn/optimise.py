"""AdamW, gradient clipping, and the running average of the weights, which is what predicts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def adamw(model: nn.Module, weight_decay: float, embed_rate: float) -> torch.optim.AdamW:
    """Return AdamW (Loshchilov 2019) without weight decay for vectors and embeddings.

    The learning rates are set at each step (`set_rate`); that of the embeddings is `embed_rate` times the others'.
    """
    known = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    tables = [p for p in model.parameters() if id(p) in known]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    matrices = [p for p in model.parameters() if p.dim() >= 2 and id(p) not in known]
    groups = [
        {"params": matrices, "weight_decay": weight_decay, "times": 1.0},
        {"params": vectors, "weight_decay": 0.0, "times": 1.0},
        {"params": tables, "weight_decay": 0.0, "times": embed_rate},
    ]
    fused = all(p.device.type != "mps" for p in model.parameters())  # not in every torch on MPS
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=fused)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step, each group's by its own multiple."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["times"]


class Average:
    """w̄ ← d w̄ + (1−d) w after every step, where d rises to its value, so that early weights are soon forgotten."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self._parameters = decay, list(model.parameters())
        self.reset()

    def reset(self) -> None:
        """Begin again from the model's current weights."""
        self.updates = 0
        self.weights = [p.detach().clone() for p in self._parameters] if self.decay else []

    def update(self) -> None:
        if not self.decay:
            return
        self.updates += 1
        decay = min(self.decay, self.updates / (self.updates + 10))
        torch._foreach_lerp_(self.weights, [p.detach() for p in self._parameters], 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Give the model the averaged weights inside the block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for parameter, averaged in zip(self._parameters, self.weights):
            parameter.data, averaged.data = averaged.data, parameter.data


def clip_gradient(model: nn.Module, max_norm: float) -> Tensor:
    """Scale the gradient down to the norm `max_norm` if it is larger; return its norm before."""
    return nn.utils.clip_grad_norm_(model.parameters(), max_norm)
