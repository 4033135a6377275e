"""Hypotheses of one line share what was read of it: it is kept once a line, not once a hypothesis."""

# B lines · N hypotheses · T queries · D width

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Lines:
    """`count` lines with `each` hypotheses side by side."""

    count: int
    each: int = 1

    def select(self, rows: Tensor) -> tuple[Lines, Tensor | None]:
        """What hypotheses `rows` make of it, and the lines that they need: None where these are all, in order."""
        lines = rows // self.each
        kept, counts = torch.unique_consecutive(lines, return_counts=True)
        even = counts.numel() > 0 and bool((counts == counts[0]).all())
        compact = Lines(kept.numel(), int(counts[0])) if even else Lines(lines.numel())
        kept = kept if even else lines
        same = compact.count == self.count and torch.equal(kept, torch.arange(self.count, device=rows.device))
        return compact, None if same else kept

    def fold(self, x: Tensor) -> Tensor:
        """A line's hypotheses as so many more queries: (N, T, D) → (B, each · T, D)."""
        return x if self.each == 1 else x.reshape(self.count, self.each * x.shape[1], x.shape[2])

    def unfold(self, x: Tensor) -> Tensor:
        """(B, each · T, D) → (N, T, D)"""
        return x if self.each == 1 else x.reshape(self.count * self.each, -1, x.shape[2])
