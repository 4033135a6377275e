"""A span of the source, as a distribution over where it begins and where it ends."""

# B batch · S source length · T positions of spans, two each · N spans

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.kinds import Column
from weft.core.noise import Noise


@dataclass(frozen=True)
class Span:
    """p(begin, end) = p(begin) p(end); scores are −∞ where there is no token, or where no span may begin or end."""

    begins: Tensor  # (B, S)
    ends: Tensor  # (B, S)
    lasts: Tensor  # (B,) the position of END, which stands for «no span»
    longest: int  # tokens of a span
    none: bool  # whether «no span» may be predicted

    def nll(self, wanted: Column) -> Tensor:
        """Return −log Σ p(begin) p(end) over the spans of each row that are right (B, 1); 0 for a row without any."""
        begins, ends = (torch.log_softmax(scores.float(), dim=-1) for scores in (self.begins, self.ends))
        real = wanted.mask[:, 0::2]  # (B, N)
        each = begins.gather(1, wanted.values[:, 0::2]) + ends.gather(1, wanted.values[:, 1::2])
        spans = torch.logsumexp(each.masked_fill(~real, float("-inf")), dim=1, keepdim=True)  # (B, 1)
        return -spans.masked_fill(~real.any(1, keepdim=True), 0.0)

    def best(self) -> Tensor:
        """Return the most probable span of each row (B, 2)."""
        return self.ranked(1)[1][:, 0]

    def ranked(self, count: int) -> tuple[Tensor, Tensor]:
        """Return the scores (B, N) and the first and last tokens (B, N, 2) of the best spans, the best first."""
        scores = self._allowed().flatten(1)
        best, places = scores.topk(min(count, scores.shape[1]), dim=1)
        length = self.begins.shape[1]
        return best, torch.stack([places // length, places % length], dim=-1)

    def best_of_begins(self) -> tuple[Tensor, Tensor]:
        """Return the score (B, S) and the first and last token (B, S, 2) of the best span from each token on."""
        best, ends = self._allowed().max(2)
        return best, torch.stack([torch.arange(best.shape[1], device=best.device).expand_as(ends), ends], dim=-1)

    def _allowed(self) -> Tensor:
        """Return the score of every span (B, S, S), −∞ for those that are too long, reversed, or hold END."""
        length, device = self.begins.shape[1], self.begins.device
        distance = torch.arange(length, device=device) - torch.arange(length, device=device)[:, None]
        fits = ((distance >= 0) & (distance < self.longest))[None]  # (1, S, S)
        end = torch.arange(length, device=device) == self.lasts[:, None]  # (B, S)
        both = end[:, :, None] & end[:, None]
        fits = (fits & ~end[:, :, None] & ~end[:, None]) | (both & self.none)
        return (self.begins[:, :, None] + self.ends[:, None]).float().masked_fill(~fits, float("-inf"))

    def draw(self, noise: Noise) -> Tensor:
        """Return a begin and an end that are drawn at random (B, 2)."""
        return torch.stack([(s.float() + noise.gumbel(s.float())).argmax(-1) for s in (self.begins, self.ends)], dim=-1)

    def mean(self, others: Sequence[Span]) -> Span:
        """Return the span by the means of the probabilities of begin and end."""
        if not others:
            return self
        models = (self, *others)
        begins = torch.stack([torch.log_softmax(span.begins.float(), -1) for span in models]).logsumexp(0)
        ends = torch.stack([torch.log_softmax(span.ends.float(), -1) for span in models]).logsumexp(0)
        return Span(begins, ends, self.lasts, self.longest, self.none)

    def scaled(self, unit: Tensor) -> Span:
        return self

    def stops(self) -> Tensor:
        return torch.ones(self.begins.shape[0], dtype=torch.bool, device=self.begins.device)
