"""What the decoder reads in training: the right symbols, its own output, or a coin's choice between them per symbol.

Its own output is found by stepping through the sequence without gradients; then training goes over what was read all
at once, with gradients. That is the same as feeding while stepping, because no gradient passes through a choice of
symbols; only dropout is drawn anew. END in the middle is read like any symbol and does not end the loss.
"""

# B batch · T target length

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from weft.core.kinds import Batch, Stepper
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
    """Turns a batch into one whose `given` is what the decoder shall read at this share of the training time."""

    kind: str = "teacher"
    schedule: str = "linear"
    least: float = 0.0
    token_dropout: float = 0.0

    def right(self, share: float) -> float:
        """The share of right symbols among those read (Bengio 2015)."""
        if self.kind == "scheduled":
            return max(self.least, min(1.0, SCHEDULES[self.schedule](share)))
        return 0.0 if self.kind == "own" else 1.0

    def __call__(self, model: Stepper[Any], batch: Batch, share: float) -> Batch:
        given, right = batch.given, self.right(share)
        if self.token_dropout:
            hidden = _coins(given, self.token_dropout) & (given != START)
            given = given.masked_fill(hidden & batch.target_mask, UNKNOWN)
        if right < 1:
            given = _own(model, replace(batch, given=given), _coins(given, 1 - right))
        return replace(batch, given=given)


def _coins(like: Tensor, probability: float) -> Tensor:
    return torch.rand(like.shape, device=like.device) < probability


@torch.no_grad()
def _own(model: Stepper[Any], batch: Batch, own: Tensor) -> Tensor:
    """`given`, with the model's own best symbol of the step before wherever `own` is True; START stays."""
    going, y, read = model.begin(batch.source, batch.source_mask), batch.given[:, 0], [batch.given[:, 0]]
    for place in range(1, batch.given.shape[1]):
        log_probs, going = model.advance(y, going)
        y = torch.where(own[:, place], _best(log_probs), batch.given[:, place])
        read.append(y)
    return torch.stack(read, dim=1).masked_fill(~batch.target_mask, PAD)


def _best(log_probs: Tensor) -> Tensor:
    """The most probable symbol; PAD and START are never written, whatever a model says that has learned nothing."""
    never = torch.tensor([PAD, START], device=log_probs.device)
    return log_probs.index_fill(-1, never, -math.inf).argmax(-1)
