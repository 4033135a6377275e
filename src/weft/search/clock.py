"""The time that a search may take: when it is over, every open hypothesis ends where it is."""

from __future__ import annotations

import time

import torch
from torch import Tensor


class Clock:
    """Rings after some seconds; 0: never."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._until = time.monotonic() + seconds if seconds else float("inf")
        self.rang = False

    def is_over(self) -> bool:
        self.rang = self.rang or time.monotonic() > self._until
        return self.rang

    def limits(self, limits: Tensor) -> Tensor:
        """Return the most symbols of each line (B,): as given, or none any more when the time is over."""
        return torch.zeros_like(limits) if self.is_over() else limits


NO_LIMIT = Clock()
