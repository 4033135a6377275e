"""AttentionUse at the source: project, score, weigh, mix. The score and the weigher are parts of their own."""

# B lines · N hypotheses · T queries · S keys · D width · H heads

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from weft.core.kinds import Memory
from weft.core.lines import Lines
from weft.core.masks import hide
from weft.core.trace import note
from weft.nn.fused import FusedAttention
from weft.nn.scores import Score
from weft.nn.weighers import Weigher, softmax

Project = Callable[[int, int], nn.Module]
ONWARDS = (0.0, 2.0, 0.0, 0.0)  # initial location weights: the next position is likely,
BACKWARDS = (0.0, 0.0, 0.0, 2.0)  # or the one before


@dataclass(frozen=True)
class PreparedSource:
    """Sources prepared for attention at many steps: what each head's score needs of the keys, the values, the mask."""

    keys: tuple[Tensor, ...]  # (B, S, …) per head
    values: Tensor  # (B, S, D)
    mask: Tensor  # (B, S)
    lines: Lines

    def select(self, rows: Tensor) -> PreparedSource:
        lines, kept = self.lines.select(rows)
        if kept is None:
            return replace(self, lines=lines)
        return PreparedSource(tuple(k[kept] for k in self.keys), self.values[kept], self.mask[kept], lines)


def identity(inputs: int, outputs: int) -> nn.Module:
    """No projection."""
    return nn.Identity()


def linear(inputs: int, outputs: int) -> nn.Module:
    """W x"""
    return nn.Linear(inputs, outputs, bias=False)


def mlp(inputs: int, outputs: int) -> nn.Module:
    """W₂ φ(W₁ x + b)"""
    return nn.Sequential(nn.Linear(inputs, outputs), nn.Tanh(), nn.Linear(outputs, outputs, bias=False))


class Attention(nn.Module):
    """context = Σ weigh(score(q, k))ᵢ vᵢ over the real positions of the source, with q, k and v projected on demand.

    Several heads each see their slice of q, k and v with a score of their own; their contexts are concatenated.
    Location-aware attention (after Chorowski 2015): with `moves`, the score of position s also gains Σ mₖ α'ₛ₋ₖ for
    k = 2, 1, 0, −1, where α' are the head's weights at the step before and mₖ are four learned numbers.
    """

    def __init__(
        self,
        query: int,
        memory: int,
        score: type[Score],
        weigh: Weigher,
        project: Project = identity,
        heads: int = 1,
        moves: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.moves = None if moves is None else nn.Parameter(torch.tensor([moves] * heads))  # (H, 4)
        self.query, self.key, self.value = project(query, query), project(memory, query), project(memory, query)
        inner = memory if project is identity else query  # the width of keys and values
        self.width, self.heads, self.weigh = inner, heads, weigh
        self.scores = nn.ModuleList(score(query // heads, inner // heads) for _ in range(heads))

    def prepare(self, memory: Memory) -> PreparedSource:
        keys = self.key(memory.states).chunk(self.heads, dim=-1)
        prepared = tuple(score.keys(k) for score, k in zip(self._scores(), keys, strict=True))
        return PreparedSource(prepared, self.value(memory.states), memory.mask, Lines(memory.mask.shape[0]))

    def forward(self, query: Tensor, source: PreparedSource) -> Tensor:
        """Return the contexts (N, T, C) of the queries (N, T, D) of all hypotheses."""
        return source.lines.unfold(self._mixed(self._weights(source.lines.fold(query), source), source))

    def move(self, query: Tensor, source: PreparedSource, before: Tensor) -> tuple[Tensor, Tensor]:
        """Return context and weights for one query per hypothesis (N, 1, D), given the weights before it (N, H, S)."""
        assert self.moves is not None
        location = torch.einsum("nhsm,hm->hns", pad(before, (2, 1)).unfold(-1, self.moves.shape[1], 1), self.moves)
        gained = [source.lines.fold(of_head[:, None]) for of_head in location]  # (B, each, S) per head
        weights = self._weights(source.lines.fold(query), source, gained)  # (B, H, each, S)
        return source.lines.unfold(self._mixed(weights, source)), weights.transpose(1, 2).flatten(0, 1)

    def first(self, source: PreparedSource) -> Tensor | None:
        """Return the weights before the first step, zeros, if the attention is location-aware."""
        if self.moves is None:
            return None
        return source.values.new_zeros(source.lines.count * source.lines.each, self.heads, source.mask.shape[1])

    def _weights(self, query: Tensor, source: PreparedSource, gained: Sequence[Tensor] = ()) -> Tensor:
        mask, queries = source.mask[:, None], self.query(query).chunk(self.heads, dim=-1)
        scores = [score(q, k) for score, q, k in zip(self._scores(), queries, source.keys, strict=True)]
        if gained:
            scores = [score + more for score, more in zip(scores, gained, strict=True)]
        weights = torch.stack([self.weigh(hide(score, mask)) for score in scores], dim=1)  # (B, H, T, S)
        return note("decode.cross", weights)

    def _mixed(self, weights: Tensor, source: PreparedSource) -> Tensor:
        if self.heads == 1:
            return weights[:, 0] @ source.values  # (B, T, D)
        values = torch.stack(source.values.chunk(self.heads, dim=-1), dim=1)  # (B, H, S, d)
        return (weights @ values).transpose(1, 2).flatten(2)

    def fused(self, source: PreparedSource) -> FusedAttention | None:
        """Return what the compiled code needs; None where it does not have this kind of attention."""
        if (
            self.heads > 1
            or source.lines.each > 1
            or self.weigh is not softmax
            or not isinstance(self.query, nn.Identity)
        ):
            return None
        (score,) = self._scores()
        inputs = score.fused(source.keys[0], source.values, source.mask)
        return inputs if inputs is None or self.moves is None else replace(inputs, location=self.moves[0])

    def _scores(self) -> list[Score]:
        return [score for score in self.scores if isinstance(score, Score)]
