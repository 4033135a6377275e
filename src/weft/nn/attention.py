"""Looking at the source: project, score, weigh, mix. The score and the weigher are parts of their own."""

# B lines · N hypotheses · T queries · S keys · D width · H heads

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from weft.core.kinds import Memory
from weft.core.lines import Lines
from weft.core.masks import hide
from weft.core.trace import note
from weft.nn.fused import Sight
from weft.nn.scores import Score
from weft.nn.weighers import Weigher, softmax

Project = Callable[[int, int], nn.Module]


@dataclass(frozen=True)
class Looked:
    """Sources prepared for many looks: what each head's score needs of the keys, the values, and the mask."""

    keys: tuple[Tensor, ...]  # one (B, S, …) a head
    values: Tensor  # (B, S, D)
    mask: Tensor  # (B, S)
    lines: Lines

    def select(self, rows: Tensor) -> Looked:
        lines, kept = self.lines.select(rows)
        if kept is None:
            return replace(self, lines=lines)
        return Looked(tuple(k[kept] for k in self.keys), self.values[kept], self.mask[kept], lines)


def as_it_is(inputs: int, outputs: int) -> nn.Module:
    """No projection."""
    return nn.Identity()


def linear(inputs: int, outputs: int) -> nn.Module:
    """W x"""
    return nn.Linear(inputs, outputs, bias=False)


def mlp(inputs: int, outputs: int) -> nn.Module:
    """W₂ φ(W₁ x + b)"""
    return nn.Sequential(nn.Linear(inputs, outputs), nn.Tanh(), nn.Linear(outputs, outputs, bias=False))


class Attention(nn.Module):
    """context = Σ weigh(score(q, k))ᵢ vᵢ over the real places of the source, q, k and v projected if asked.

    Several heads each see their slice of q, k and v with a score of their own; their contexts stand side by side.
    """

    def __init__(
        self, query: int, memory: int, score: type[Score], weigh: Weigher, project: Project = as_it_is, heads: int = 1
    ) -> None:
        super().__init__()
        self.query, self.key, self.value = project(query, query), project(memory, query), project(memory, query)
        inner = memory if project is as_it_is else query  # the width of keys and values
        self.width, self.heads, self.weigh = inner, heads, weigh
        self.scores = nn.ModuleList(score(query // heads, inner // heads) for _ in range(heads))

    def prepare(self, memory: Memory) -> Looked:
        keys = self.key(memory.states).chunk(self.heads, dim=-1)
        ready = tuple(score.keys(k) for score, k in zip(self._scores(), keys, strict=True))
        return Looked(ready, self.value(memory.states), memory.mask, Lines(memory.mask.shape[0]))

    def forward(self, query: Tensor, source: Looked) -> Tensor:
        """Queries (N, T, D) of all hypotheses to contexts (N, T, C)."""
        return source.lines.unfold(self._look(source.lines.fold(query), source))

    def _look(self, query: Tensor, source: Looked) -> Tensor:
        mask, queries = source.mask[:, None], self.query(query).chunk(self.heads, dim=-1)
        parts = zip(self._scores(), queries, source.keys, strict=True)
        weights = torch.stack([self.weigh(hide(score(q, k), mask)) for score, q, k in parts], dim=1)  # (B, H, T, S)
        note("decode.cross", weights)
        if self.heads == 1:
            return weights[:, 0] @ source.values  # (B, T, D)
        values = torch.stack(source.values.chunk(self.heads, dim=-1), dim=1)  # (B, H, S, d)
        return (weights @ values).transpose(1, 2).flatten(2)

    def sight(self, source: Looked) -> Sight | None:
        """What the compiled code needs to look; None where it does not know this kind of attention."""
        if (
            self.heads > 1
            or source.lines.each > 1
            or self.weigh is not softmax
            or not isinstance(self.query, nn.Identity)
        ):
            return None
        (score,) = self._scores()
        return score.sight(source.keys[0], source.values, source.mask)

    def _scores(self) -> list[Score]:
        return [score for score in self.scores if isinstance(score, Score)]
