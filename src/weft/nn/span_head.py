"""From the states of a source to where a span of it begins and ends."""

# B batch · S source length · M sentences · D width

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from weft.core.kinds import Memory
from weft.core.masks import hide
from weft.core.spans import Span
from weft.nn.sentences import numbered

FARTHEST = 32  # sentences from the start and from the end that have a place of their own
EDGE = 4.0  # by how much the first and the last token of a sentence are likelier than others, at first


class SpanHead(nn.Module):
    """Begins are scored by w·h; ends by v·φ(W [h; b; h∘b]), where b is the expected state of the begin."""

    sees_source = False  # but for its mask
    symbols = 2

    def __init__(self, width: int, longest: int, none: bool) -> None:
        super().__init__()
        self.longest, self.none = longest, none
        self.begin, self.end = nn.Linear(width, 1), nn.Linear(width, 1)
        self.mix = nn.Linear(3 * width, width)

    def forward(self, out: Tensor, memory: Memory | None) -> Span:
        """Return the emission of states (B, S, D)."""
        assert memory is not None
        begins = hide(self.begin(out)[..., 0], memory.mask)  # (B, S)
        likely = torch.softmax(begins.float(), dim=-1).to(out.dtype)[:, None] @ out  # (B, 1, D)
        mixed = torch.cat([out, likely.expand_as(out), out * likely], dim=-1)
        ends = hide(self.end(torch.tanh(self.mix(mixed)))[..., 0], memory.mask)
        positions = torch.arange(out.shape[1], device=out.device)
        return Span(begins, ends, (positions * memory.mask).amax(1), self.longest, self.none)


class SentenceHead(nn.Module):
    """Each sentence s is scored by v·relu(W Σ hᵢ / √n + aₛ + zₛ) over its n states: a from the start, z from the end.

    Every token has the score of its sentence, and the first and the last one of it more, so that spans are sentences.
    """

    sees_source = True
    symbols = 2

    def __init__(self, width: int, longest: int, none: bool, ends: Sequence[bool], dropout: float) -> None:
        """`ends` says of each token whether it ends a sentence."""
        super().__init__()
        self.longest, self.none = longest, none
        self.mix, self.score, self.dropout = nn.Linear(width, width), nn.Linear(width, 1), nn.Dropout(dropout)
        self.from_start, self.from_end = (nn.Embedding(FARTHEST, width) for _ in range(2))
        for table in (self.from_start, self.from_end):
            nn.init.zeros_(table.weight)
        self.edge = nn.Parameter(torch.full((2,), EDGE))
        self.ends: Tensor
        self.register_buffer("ends", torch.tensor(ends), persistent=False)

    def forward(self, out: Tensor, memory: Memory | None) -> Span:
        """Return the emission of states (B, S, D)."""
        assert memory is not None
        assert memory.source is not None, "sentences are known by their tokens"
        numbers, inside = numbered(self.ends[memory.source], memory.mask)
        scores = self._scores(out, memory.mask, numbers).gather(1, numbers)  # (B, S)
        following = torch.cat([(numbers[:, 1:] == numbers[:, :-1]) & memory.mask[:, 1:], memory.mask[:, :1] & False], 1)
        begins = hide(scores + self.edge[0] * (inside == 0), memory.mask)
        ends = hide(scores + self.edge[1] * ~following, memory.mask)
        positions = torch.arange(out.shape[1], device=out.device)
        return Span(begins, ends, (positions * memory.mask).amax(1), self.longest, self.none)

    def _scores(self, out: Tensor, mask: Tensor, numbers: Tensor) -> Tensor:
        """Return the score of each sentence (B, M)."""
        count = int(numbers.max()) + 1
        sums = out.new_zeros(out.shape[0], count, out.shape[2])
        sums = sums.scatter_add(1, numbers[..., None].expand_as(out), out * mask[..., None])
        lengths = out.new_zeros(out.shape[0], count).scatter_add(1, numbers, mask.to(out.dtype))
        place = torch.arange(count, device=out.device)
        after = ((lengths > 0).sum(1, keepdim=True) - 1 - place).clamp(0, FARTHEST - 1)  # (B, M)
        mixed = self.mix(sums / lengths.clamp(min=1).sqrt()[..., None]) + self.from_end(after)
        mixed = mixed + self.from_start(place.clamp(max=FARTHEST - 1))
        scores: Tensor = self.score(self.dropout(torch.relu(mixed)))[..., 0]
        return scores
