"""Telling places apart. A scheme is a set of hooks; attention itself knows nothing of positions.

- `add(x, start)` acts on symbol vectors (B, T, D) whose first place is `start`;
- `turn(x, start)` acts on the queries and keys of self-attention (B, H, T, d).

References: sinusoid, Vaswani 2017; rotary, Su 2021.
"""

# B batch · T length · D width · H heads · d width of a head

from __future__ import annotations

import torch
from torch import Tensor, nn


class NoPositions(nn.Module):
    """Places are not told apart; a recurrence does that by itself."""

    def add(self, x: Tensor, start: int) -> Tensor:
        return x

    def turn(self, x: Tensor, start: int) -> Tensor:
        return x


class Sinusoid(NoPositions):
    """x + p, p_{t,2i} = sin(t / 10000^{2i/D}), p_{t,2i+1} = cos(…)."""

    def add(self, x: Tensor, start: int) -> Tensor:
        angles = _angles(start, x.shape[1], x.shape[2] + x.shape[2] % 2, x)  # (T, ⌈D/2⌉)
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # (T, D or D + 1)
        return x + waves[:, : x.shape[2]]


class Rotary(NoPositions):
    """Turns each pair of a head's values by an angle that grows with the place, so that q·k depends on the distance."""

    def turn(self, x: Tensor, start: int) -> Tensor:
        angles = _angles(start, x.shape[2], x.shape[3], x)  # (T, d/2)
        cos, sin = angles.cos(), angles.sin()
        left, right = x.chunk(2, dim=-1)  # (B, H, T, d/2) each
        return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)


def _angles(start: int, length: int, width: int, like: Tensor) -> Tensor:
    """t · 10000^{−2i/width} for t = start … start+length−1: (length, width/2)."""
    rates = 10000.0 ** (-torch.arange(0, width, 2, device=like.device, dtype=torch.float32) / width)
    places = torch.arange(start, start + length, device=like.device, dtype=torch.float32)
    return (places[:, None] * rates).to(like.dtype)
