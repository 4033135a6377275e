"""Random numbers for sampling, drawn so that a row's numbers never depend on the rows beside it."""

# N rows

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Noise:
    """A generator for each row; a temperature below 1 makes draws vary less, and draws from p^(1 / temperature)."""

    each: Sequence[np.random.Generator]
    temperature: float = 1.0

    def gumbel(self, like: Tensor) -> Tensor:
        """Return Gumbel noise of the shape of `like` (N, …): argmax(log p + it) is a draw from p."""
        drawn = np.stack([random.gumbel(size=like.shape[1:]) for random in self.each])
        return torch.from_numpy(drawn * self.temperature).to(like)

    def logistic(self, like: Tensor) -> Tensor:
        """Return logistic noise of the shape of `like` (N, …): log p/(1 − p) + it is above 0 with probability p."""
        drawn = np.stack([random.logistic(size=like.shape[1:]) for random in self.each])
        return torch.from_numpy(drawn * self.temperature).to(like)

    def normal(self, like: Tensor) -> Tensor:
        """Return standard normal noise of the shape of `like` (N, …)."""
        drawn = np.stack([random.standard_normal(size=like.shape[1:]) for random in self.each])
        return torch.from_numpy(drawn * self.temperature**0.5).to(like)
