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
    """A generator for each row."""

    each: Sequence[np.random.Generator]

    def gumbel(self, like: Tensor) -> Tensor:
        """Return Gumbel noise of the shape of `like` (N, …): argmax(log p + it) is a draw from p."""
        return torch.from_numpy(np.stack([random.gumbel(size=like.shape[1:]) for random in self.each])).to(like)

    def normal(self, like: Tensor) -> Tensor:
        """Return standard normal noise of the shape of `like` (N, …)."""
        return torch.from_numpy(np.stack([random.standard_normal(size=like.shape[1:]) for random in self.each])).to(
            like
        )
