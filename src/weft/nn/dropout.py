"""Dropout with cheap random bits: torch draws one number a value on the CPU, which costs more than the matrix products
of a small model. In compiled code the bits are those of a value's place and a seed, in plain torch 16 of the 64 bits of
a draw (docs/LOG.md, "Dropout")."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from weft.core import native

LEVELS = 1 << 16


class Dropout(nn.Dropout):
    """Each value is zero with probability p, the others are divided by 1 − p (Srivastava 2014)."""

    def begin(self) -> None:
        """Begin a new sequence, for masks that last over time."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if native.is_supported(x):
            dropped: Tensor = _Dropped.apply(x, None, self.p)  # type: ignore[no-untyped-call]
            return dropped
        if x.device.type != "cpu":
            return super().forward(x)
        return x * self.mask(x)

    def onto(self, rest: Tensor, x: Tensor) -> Tensor:
        """rest + dropout(x), in one pass where that is compiled."""
        if not self.training or self.p == 0 or rest.dtype != torch.float32 or not native.is_supported(x):
            dropped: Tensor = self(x)
            return rest + dropped
        added: Tensor = _Dropped.apply(x, rest, self.p)  # type: ignore[no-untyped-call]
        return added

    def mask(self, x: Tensor) -> Tensor:
        """What to multiply x with: 0 or 1 / (1 − p)."""
        if x.device.type != "cpu":
            return torch.empty_like(x).bernoulli_(1 - self.p) / (1 - self.p)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        kept = bits >= round(self.p * LEVELS) - LEVELS // 2
        return kept.to(x.dtype) * (1 / (1 - self.p))


class _Dropped(torch.autograd.Function):
    """The same values are dropped from the gradient, by the same seed: no mask is kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rest: Tensor | None, p: float) -> Tensor:
        compiled = native.pointwise()
        assert compiled is not None
        ctx.compiled, ctx.p, ctx.seed, ctx.format = compiled, p, int(torch.randint(2**32, ())), x.dtype
        ctx.onto = rest is not None
        if rest is None:
            return compiled.dropout(x.contiguous(), p, ctx.seed, x.dtype)
        return compiled.dropout(x.contiguous(), p, ctx.seed, rest.dtype, rest.contiguous())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        of_x = ctx.compiled.dropout(gradient.contiguous(), ctx.p, ctx.seed, ctx.format)
        return of_x, gradient if ctx.onto else None, None


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
