"""Dropout with cheap random bits: torch draws one number a value on the CPU, which costs more than the matrix products
of a small model; 16 of the 64 bits of a draw are enough for one value (3 times faster, docs/LOG.md)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LEVELS = 1 << 16


class Dropout(nn.Dropout):
    """Each value is zero with probability p, the others are divided by 1 − p (Srivastava 2014)."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return super().forward(x)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        kept = bits >= round(self.p * LEVELS) - LEVELS // 2
        return x * (kept.to(x.dtype) * (1 / (1 - self.p)))
