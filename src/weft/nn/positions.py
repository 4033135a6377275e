"""Position schemes. A scheme is a set of hooks; attention itself knows nothing about positions.

- `room` is how many values of a vector it needs for itself;
- `add(x, start)` acts on token vectors (B, T, D) whose first position is `start`;
- `turn(x, start)` acts on the queries and keys of self-attention (B, H, T, d), by `turns`;
- `bias(queries, keys, start)` is added to the scores of self-attention, the first query at `start`: (H, T, S), or
  (L, H, T, S) from a scheme that has a bias of its own for each layer.

References: sinusoid, Vaswani 2017; learned, Gehring 2017; relative, Shaw 2018 and Press 2022; bucketed, Raffel 2020;
rotary, Su 2021; alibi, Press 2022.
"""

# B batch · T length or queries · S keys · D width · H heads · d width of a head · L layers

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

PLACES = 512  # learned vectors; later positions share the last
BUCKETS, FARTHEST = 32, 128  # of distances, and the distance from which on all share the last bucket


@dataclass(frozen=True)
class Attended:
    """What a scheme may need to know about the self-attention that it acts in."""

    heads: int = 1
    both_ways: bool = True  # whether a position sees later ones too
    layers: int = 0  # of blocks, each with a bias of its own; 0: one bias for all
    max_distance: int = 16  # the distance k at which a relative bias is clipped


class NoPositions(nn.Module):
    """No position information; a recurrence does without."""

    room = 0
    in_attention = False  # whether it acts within self-attention alone
    even_heads = False  # whether a head's width must be even

    def __init__(self, width: int = 0, attended: Attended = Attended()) -> None:
        """For vectors of `width`, and the self-attention that reads them."""
        super().__init__()

    def add(self, x: Tensor, start: int) -> Tensor:
        return x

    def turn(self, x: Tensor, start: int) -> Tensor:
        turns = self.turns(start, x.shape[2], x.shape[3], x)
        if turns is None:
            return x
        (cos, sin), (left, right) = turns, x.chunk(2, dim=-1)  # (T, d/2) and (B, H, T, d/2) each
        return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)

    def turns(self, start: int, length: int, width: int, like: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the cosines and sines of the angles that `turn` rotates by, per position (T, d/2)."""
        return None

    def bias(self, queries: int, keys: int, start: int) -> Tensor | None:
        return None


class Sinusoid(NoPositions):
    """x + p, p_{t,2i} = sin(t / 10000^{2i/D}), p_{t,2i+1} = cos(…)."""

    def add(self, x: Tensor, start: int) -> Tensor:
        return x + _waves(start, x.shape[1], x.shape[2], x)


class SinusoidConcat(NoPositions):
    """[x; p]: a quarter of the vector holds the sinusoid of the position, the rest the token."""

    def __init__(self, width: int = 0, attended: Attended = Attended()) -> None:
        super().__init__()
        self.room = max(2, width // 4)

    def add(self, x: Tensor, start: int) -> Tensor:
        waves = _waves(start, x.shape[1], self.room, x)
        return torch.cat([x, waves.expand(x.shape[0], -1, -1)], dim=-1)


class Learned(NoPositions):
    """x + p_t, one vector per position; positions beyond the last share it."""

    def __init__(self, width: int = 0, attended: Attended = Attended()) -> None:
        super().__init__()
        self.table = nn.Embedding(PLACES, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def add(self, x: Tensor, start: int) -> Tensor:
        places = torch.arange(start, start + x.shape[1], device=x.device).clamp(max=PLACES - 1)
        out: Tensor = x + self.table(places)
        return out


class Relative(NoPositions):
    """sᵢⱼ + π(j − i) per layer and head, clipped at k: 2k + 1 numbers per head; or the same numbers in every layer."""

    in_attention = True
    shared = False  # whether all layers have the same table, whatever is asked for

    def __init__(self, width: int = 0, attended: Attended = Attended()) -> None:
        super().__init__()
        self.both_ways, self.max_distance = attended.both_ways, attended.max_distance
        layers = [attended.layers] if attended.layers and not self.shared else []
        self.table = nn.Parameter(torch.zeros(*layers, attended.heads, self.kinds))

    @property
    def kinds(self) -> int:
        """The number of distances with a bias of their own."""
        return 2 * self.max_distance + 1

    def kind(self, distance: Tensor) -> Tensor:
        return distance.clamp(-self.max_distance, self.max_distance) + self.max_distance

    def bias(self, queries: int, keys: int, start: int) -> Tensor | None:
        return self.table[..., self.kind(_distances(queries, keys, start, self.table.device))]


class Bucketed(Relative):
    """sᵢⱼ + π(bucket(j − i)) per head: near distances one by one, far ones in growing buckets.

    All layers have the same table, as in T5.
    """

    shared = True

    @property
    def kinds(self) -> int:
        return BUCKETS

    def kind(self, distance: Tensor) -> Tensor:
        count = BUCKETS // 2 if self.both_ways else BUCKETS
        ahead = torch.where(distance > 0, count, 0) if self.both_ways else torch.zeros_like(distance)
        far = distance.abs() if self.both_ways else (-distance).clamp(min=0)
        single = count // 2
        steps = torch.log(far.clamp(min=1) / single) / math.log(FARTHEST / single) * (count - single)
        return ahead + torch.where(far < single, far, (single + steps.long()).clamp(max=count - 1))


class Alibi(NoPositions):
    """sᵢⱼ − m|i − j|, m = 2^{−8h/H} for head h = 1 … H."""

    in_attention = True

    def __init__(self, width: int = 0, attended: Attended = Attended()) -> None:
        super().__init__()
        heads = attended.heads
        slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
        self.slopes: Tensor
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(self, queries: int, keys: int, start: int) -> Tensor | None:
        return -self.slopes[:, None, None] * _distances(queries, keys, start, self.slopes.device).abs()


class Rotary(NoPositions):
    """Rotates each pair of a head's values by an angle proportional to the position: q·k depends on the distance."""

    in_attention = True
    even_heads = True

    def turns(self, start: int, length: int, width: int, like: Tensor) -> tuple[Tensor, Tensor] | None:
        both = _some(_turn_table, start, length, width, like)
        return both[:, 0], both[:, 1]


def _distances(queries: int, keys: int, start: int, device: torch.device) -> Tensor:
    """j − i for key j and query i = start …: (T, S)."""
    return torch.arange(keys, device=device) - torch.arange(start, start + queries, device=device)[:, None]


def _waves(start: int, length: int, width: int, like: Tensor) -> Tensor:
    """Return interleaved sines and cosines: (length, width)."""
    return _some(_wave_table, start, length, width, like)


def _some(
    table: Callable[[int, int, torch.dtype, torch.device], Tensor], start: int, length: int, width: int, like: Tensor
) -> Tensor:
    """Return positions `start` … of a cached table, which is made twice as long where it is too short."""
    places = max(PLACES, 1 << (start + length - 1).bit_length())
    return table(places, width, like.dtype, like.device)[start : start + length]


@lru_cache(maxsize=16)
def _wave_table(places: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        angles = _angles(places, width + width % 2, device)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width].to(dtype).contiguous()


@lru_cache(maxsize=16)
def _turn_table(places: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the cosines and sines of each position's angles: (places, 2, width/2)."""
    with torch.inference_mode(False):
        angles = _angles(places, width, device)
        return torch.stack([angles.cos(), angles.sin()], dim=1).to(dtype)


def _angles(places: int, width: int, device: torch.device) -> Tensor:
    """t · 10000^{−2i/width} for t = 0 …, in float32 whatever is computed from them: (places, width/2).

    In bfloat16 the angle 511 would be off by up to 1.
    """
    rates = 10000.0 ** (-torch.arange(0, width, 2, device=device, dtype=torch.float32) / width)
    return torch.arange(places, device=device, dtype=torch.float32)[:, None] * rates
