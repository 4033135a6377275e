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
        return x * self.mask(x)

    def mask(self, x: Tensor) -> Tensor:
        """What to multiply x with: 0 or 1 / (1 − p)."""
        if x.device.type != "cpu":
            return torch.empty_like(x).bernoulli_(1 - self.p) / (1 - self.p)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        kept = bits >= round(self.p * LEVELS) - LEVELS // 2
        return kept.to(x.dtype) * (1 / (1 - self.p))


class OverTime(Dropout):
    """The same values are dropped at every step of a sequence (Gal 2016): one mask from `begin` to the next."""

    _kept: Tensor | None = None

    def begin(self) -> None:
        self._kept = None

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D), or one step (B, D)."""
        if not self.training or self.p == 0:
            return x
        if self._kept is None:
            self._kept = self.mask(x[:, 0] if x.dim() == 3 else x).detach()
        return x * (self._kept[:, None] if x.dim() == 3 else self._kept)


def begin_all(module: nn.Module) -> None:
    """A new sequence begins: every mask that lasts over time is drawn anew."""
    for part in module.modules():
        if isinstance(part, OverTime):
            part.begin()
