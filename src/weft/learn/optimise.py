"""AdamW, gradient clipping, and the running average of the weights, which is what predicts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.errors import UserError


def freeze(model: nn.Module, parts: Sequence[str]) -> None:
    """Hold the parameters of some parts still; `embed` are the tables of embeddings."""
    if not parts:
        return
    names = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    held = {"source_reader" if part == "encoder" else "target_reader" if part == "decoder" else part for part in parts}
    for name, parameter in model.named_parameters():
        part, table = name.partition(".")[0], id(parameter) in names
        if ("embed" in parts and table) or (not table and part in (*parts, *held)):
            parameter.requires_grad_(False)
    if not any(p.requires_grad for p in model.parameters()):
        what = f"train.freeze={','.join(parts)} holds every part of the model still, so that nothing is learned"
        raise UserError(what, "setting train.freeze", "leave some of them out")


def adamw(
    model: nn.Module,
    weight_decay: float,
    embed_rate: float,
    slow: Collection[nn.Parameter] = (),
    slow_rate: float = 1.0,
) -> torch.optim.AdamW:
    """Return AdamW (Loshchilov 2019) without weight decay for vectors and embeddings.

    The learning rates are set at each step (`set_rate`); that of the embeddings is `embed_rate` times the others', and
    that of the parameters in `slow` is `slow_rate` times what it would be.
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
    groups = [part for group in groups for part in _by_rate(group, {id(p) for p in slow}, slow_rate)]
    fused = all(p.device.type != "mps" for p in model.parameters())  # not in every torch on MPS
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=fused)


def _by_rate(group: dict[str, Any], slow: Collection[int], slow_rate: float) -> list[dict[str, Any]]:
    """Return a group of parameters, or two where some of them learn at another rate."""
    if slow_rate == 1 or not slow:
        return [group]
    others = [p for p in group["params"] if id(p) not in slow]
    slowed = [p for p in group["params"] if id(p) in slow]
    return [{**group, "params": others}, {**group, "params": slowed, "times": slow_rate * group["times"]}]


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
