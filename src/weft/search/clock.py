"""The time that a search may take: when it is over, every open hypothesis ends where it is.

Somebody who no longer wants the result can also abandon a search, with `abandoned_if`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_is_abandoned: ContextVar[Callable[[], bool] | None] = ContextVar("weft_abandoned", default=None)


class Abandoned(Exception):
    """Nobody waits for the result of this search any more."""


@contextmanager
def abandoned_if(condition: Callable[[], bool]) -> Iterator[None]:
    """Raise Abandoned from a search inside the block as soon as the condition holds, which every step looks at."""
    token = _is_abandoned.set(condition)
    try:
        yield
    finally:
        _is_abandoned.reset(token)


class Clock:
    """Rings after some seconds; 0: never."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._until = time.monotonic() + seconds if seconds else float("inf")
        self.rang = False

    def is_over(self) -> bool:
        abandoned = _is_abandoned.get()
        if abandoned is not None and abandoned():
            raise Abandoned
        self.rang = self.rang or time.monotonic() > self._until
        return self.rang

    def limits(self, limits: Tensor) -> Tensor:
        """Return the most symbols of each line (B,): as given, or none any more when the time is over."""
        return torch.zeros_like(limits) if self.is_over() else limits


NO_LIMIT = Clock()
