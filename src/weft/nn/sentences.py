"""Which sentence each token belongs to."""

# B batch · S length

from __future__ import annotations

import torch
from torch import Tensor


def numbered(ends: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of each token's sentence, and its place there (B, S); `ends`: the token ends a sentence."""
    last = ends & mask
    numbers = last.long().cumsum(1) - last.long()  # the end of a sentence belongs to it
    positions = torch.arange(mask.shape[1], device=mask.device)
    begins = torch.cat([torch.ones_like(last[:, :1]), last[:, :-1]], dim=1)
    return numbers * mask, positions - (positions * begins).cummax(1).values
