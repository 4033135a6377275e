"""Source and context read together: attention both ways between them, or both as one sequence."""

# B batch · S source length · C context length · D width

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from weft.core.kinds import Column, Encoder, Memory, Reader
from weft.core.masks import hide
from weft.core.pair import SPECIALS
from weft.core.trace import note
from weft.nn.context import ContextUse, EncodedContext
from weft.nn.dropout import Dropout
from weft.nn.lexical import LexicalMatch


class AttentionFlow(nn.Module):
    """Attention both ways (Seo 2017): sᵢⱼ = w·[hᵢ; uⱼ; hᵢ∘uⱼ] for states h of the source and u of the context.

    ũᵢ = Σⱼ softmax(sᵢ)ⱼ uⱼ is what position i finds in the context; h̃ = Σᵢ softmax(maxⱼ sᵢⱼ)ᵢ hᵢ is what the context
    finds in the source. Each position becomes [h; ũ; h∘ũ; h∘h̃].
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.by_source, self.by_context = (nn.Linear(width, 1, bias=False) for _ in range(2))
        self.by_both = nn.Parameter(torch.empty(width).normal_(std=width**-0.5))

    def forward(self, states: Tensor, mask: Tensor, context: Tensor, context_mask: Tensor) -> Tensor:
        scores = self.by_source(states) + self.by_context(context).transpose(1, 2)  # (B, S, C)
        scores = scores + (states * self.by_both) @ context.transpose(1, 2)
        scores = hide(scores, context_mask[:, None]).float()
        weights = torch.softmax(scores, dim=-1)
        note("flow.context", weights)
        attended = weights.to(context.dtype) @ context  # (B, S, D)
        strongest = torch.softmax(hide(scores.amax(-1), mask), dim=-1)  # (B, S)
        asked = strongest.to(states.dtype)[:, None] @ states  # (B, 1, D)
        return torch.cat([states, attended, states * attended, states * asked], dim=-1)  # (B, S, 4D)


class FlowContext(EncodedContext):
    """Attention both ways between source and context, then a further encoder over the source.

    Where both have the same tokens, each source token also knows whether it stands in the context (Chen 2017), or has
    the further features of `LexicalMatch`.
    """

    def __init__(
        self,
        reader: Reader,
        encoder: Encoder,
        second: Encoder,
        width: int,
        dropout: Dropout,
        matched: bool,
        lexical: LexicalMatch | None = None,
    ) -> None:
        super().__init__(reader, encoder)
        self.second, self.matched = second, matched
        self.flow, self.dropout, self.lexical = AttentionFlow(width), dropout, lexical
        features = int(matched) if lexical is None else lexical.width
        self.reduce = nn.Linear(4 * width + features, width)

    def extend(self, memory: Memory, context: Column) -> Memory:
        asked = self.encoded(context)
        mixed = self.flow(memory.states, memory.mask, asked.states, asked.mask)
        if self.matched or self.lexical is not None:
            assert memory.source is not None
            mixed = torch.cat([mixed, self._features(memory.source, memory.mask, context).to(mixed.dtype)], dim=-1)
        after = self.second(self.dropout(torch.relu(self.reduce(mixed))), memory.mask)
        return replace(after, source=memory.source)

    def _features(self, source: Tensor, mask: Tensor, context: Column) -> Tensor:
        """Return what source tokens have in common with the context (B, S, F)."""
        features: Tensor = matches(source, context) if self.lexical is None else self.lexical(source, mask, context)
        return features


def matches(source: Tensor, context: Column) -> Tensor:
    """Return whether each source token stands in the context (B, S, 1)."""
    words = context.mask & (context.values >= len(SPECIALS))
    same = (source[:, :, None] == context.values[:, None]) & words[:, None]
    return same.any(-1, keepdim=True)


class JointContext(ContextUse):
    """The encoder reads the source and, after it, the context, which a learned vector tells apart."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self.reader = reader
        self.segment = nn.Parameter(torch.empty(reader.width).normal_(std=reader.width**-0.5))

    def join(self, vectors: Tensor, mask: Tensor, context: Column) -> tuple[Tensor, Tensor]:
        """Return the vectors and the mask of both, one after the other."""
        self.reader.begin()
        more, real = self.reader.read(context)
        return torch.cat([vectors, more + self.segment], dim=1), torch.cat([mask, real], dim=1)

    def extend(self, memory: Memory, context: Column) -> Memory:
        """Return the states of the source alone, which know the context by now."""
        length = memory.mask.shape[1] - context.mask.shape[1]
        return replace(memory, states=memory.states[:, :length], mask=memory.mask[:, :length])
