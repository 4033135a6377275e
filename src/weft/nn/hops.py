"""A context that asks the sentences of the source, several times over: a memory network (Sukhbaatar 2015)."""

# B batch · S source length · C context length · M sentences · D width

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from weft.core.kinds import Column, Encoder, Memory, Reader
from weft.core.masks import hide
from weft.core.trace import note
from weft.nn.context import EncodedContext
from weft.nn.dropout import Dropout
from weft.nn.sentences import numbered

LONGEST = 64  # words of a sentence that have a place of their own
FARTHEST = 512  # sentences from the end that have a place of their own
SPREAD = 0.1  # of the vectors that say how far a sentence is from the end, at first


class Sentences(nn.Module):
    """mₛ = Σᵢ pᵢ ∘ hᵢ + dₛ over the words i of sentence s: pᵢ is a learned place, dₛ how far s is from the end."""

    def __init__(self, width: int, ends: Sequence[bool]) -> None:
        """`ends` says of each token whether it ends a sentence."""
        super().__init__()
        self.places = nn.Parameter(1 + SPREAD * torch.randn(LONGEST, width))
        self.distances = nn.Embedding(FARTHEST, width)
        nn.init.normal_(self.distances.weight, std=SPREAD)
        self.ends: Tensor
        self.register_buffer("ends", torch.tensor(ends), persistent=False)

    def forward(self, states: Tensor, mask: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the vectors of sentences (B, M, D), the first first, and which are real (B, M)."""
        numbers, inside = numbered(self.ends[tokens], mask)
        count = int(numbers.max()) + 1
        weighed = states * self.places[inside.clamp(max=LONGEST - 1)] * mask[..., None]
        sentences = states.new_zeros(states.shape[0], count, states.shape[2])
        sentences = sentences.scatter_add(1, numbers[..., None].expand_as(weighed), weighed)
        lengths = mask.new_zeros(mask.shape[0], count, dtype=torch.long).scatter_add(1, numbers, mask.long())
        real = lengths > 0
        after = real.sum(1, keepdim=True) - real.long().cumsum(1)  # (B, M) sentences that follow
        return sentences + self.distances(after.clamp(0, FARTHEST - 1)), real


class HopsContext(EncodedContext):
    """uₖ₊₁ = relu(W [uₖ; Σₛ αₛ V mₛ]) with α = softmax(K m · Q uₖ), from what the context says; u is the summary.

    Each hop can ask for another sentence than the one before it, so that a conclusion may follow from several.
    """

    def __init__(
        self, reader: Reader, encoder: Encoder, width: int, hops: int, ends: Sequence[bool], dropout: Dropout
    ) -> None:
        super().__init__(reader, encoder)
        self.dropout = dropout
        self.sentences = Sentences(width, ends)
        self.asked = nn.Parameter(1 + SPREAD * torch.randn(LONGEST, width))
        self.key, self.value = nn.Linear(width, width), nn.Linear(width, width)
        self.query = nn.ModuleList(nn.Linear(width, width) for _ in range(hops))
        self.update = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(hops))

    def extend(self, memory: Memory, context: Column) -> Memory:
        """Return what the context finds in the source, as the only state."""
        assert memory.source is not None, "sentences are known by their tokens"
        sentences, real = self.sentences(memory.states, memory.mask, memory.source)
        keys, values, summary = self.key(sentences), self.value(sentences), self._question(context)
        for hop, (query, update) in enumerate(zip(self.query, self.update)):
            scores = (keys @ query(summary)[..., None])[..., 0] * keys.shape[-1] ** -0.5  # (B, M)
            weights = torch.softmax(hide(scores, real).float(), dim=-1).to(values.dtype)
            weights = note(f"hops.{hop}", weights)
            summary = torch.relu(update(torch.cat([summary, (weights[:, None] @ values)[:, 0]], dim=-1)))
        summary = self.dropout(summary)
        return replace(memory, states=summary[:, None], mask=real[:, :1], final=(summary,), source=None)  # (B, 1, D)

    def _question(self, context: Column) -> Tensor:
        """Return one vector for the context (B, D)."""
        asked = self.encoded(context)
        positions = torch.arange(asked.mask.shape[1], device=asked.mask.device).clamp(max=LONGEST - 1)
        weighed: Tensor = asked.states * self.asked[positions] * asked.mask[..., None]
        return weighed.sum(1)
