"""What the decoder reads in training: the right tokens, its own output, or a random choice between them per token.

Its own output is computed step by step without gradients; then training runs over what was read all at once, with
gradients. That equals feeding while stepping, because no gradient passes through a choice of tokens; only dropout is
drawn anew. END in the middle is read like any token and does not end the loss.
"""

# B batch · T target length

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from weft.core.kinds import Batch, Column, Emitter
from weft.core.pair import PAD, START, UNKNOWN

Schedule = Callable[[float], float]


def linear(share: float) -> float:
    """1 − share"""
    return 1 - share


def exponential(share: float) -> float:
    """k^share with k = 1/100"""
    return math.exp(share * math.log(0.01))


def inverse_sigmoid(share: float) -> float:
    """k / (k + exp(share · n / k)) with k = 20 and n = 180: falls slowly, then fast around 1/3, then slowly"""
    return 20 / (20 + math.exp(share * 180 / 20))


SCHEDULES: dict[str, Schedule] = {
    "linear": linear,
    "exponential": exponential,
    "inverse-sigmoid": inverse_sigmoid,
}


@dataclass(frozen=True)
class Feeding:
    """Replaces `given` of a batch by what the decoder reads at this share of the training time."""

    kind: str = "teacher"
    schedule: str = "linear"
    least: float = 0.0
    token_dropout: float = 0.0

    def teacher_share(self, share: float) -> float:
        """Return the probability that the decoder reads the right token (scheduled sampling, Bengio 2015)."""
        if self.kind == "scheduled":
            return max(self.least, min(1.0, SCHEDULES[self.schedule](share)))
        return 0.0 if self.kind == "own" else 1.0

    def __call__(self, model: Emitter[Any], batch: Batch, share: float) -> Batch:
        given, mask, teacher = batch.given.values, batch.given.mask, self.teacher_share(share)
        if self.token_dropout:
            hidden = _coins(mask, self.token_dropout) & (given != START)
            given = given.masked_fill(hidden & mask, UNKNOWN)
        if teacher < 1:
            given = _own(model, batch, given, _coins(mask, 1 - teacher))
        return batch if given is batch.given.values else replace(batch, given=Column(given, mask))


def _coins(like: Tensor, probability: float) -> Tensor:
    return torch.rand(like.shape, device=like.device) < probability


@torch.no_grad()
def _own(model: Emitter[Any], batch: Batch, given: Tensor, own: Tensor) -> Tensor:
    """Return `given` with the model's own best output of the step before wherever `own` is True; the first stays."""
    state, y, read = model.begin(batch.source, batch.context), given[:, 0], [given[:, 0]]
    hidden = ~batch.given.mask
    if given.dim() > 2:  # vectors, not ids
        own, hidden = own[..., None], hidden[..., None]
    for step in range(1, given.shape[1]):
        emission, state = model.emit(y, state)
        y = torch.where(own[:, step], emission.best()[:, 0].to(given.dtype), given[:, step])
        read.append(y)
    return torch.stack(read, dim=1).masked_fill(hidden, PAD)
