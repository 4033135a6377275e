"""Where a context's words stand in the source: what no model has to learn first in order to compare two texts."""

# B batch · S source length · C context length · W widths

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, softplus

from weft.core.facts import TokenFacts
from weft.core.kinds import Column
from weft.core.pair import SPECIALS
from weft.nn.sentences import numbered

NEAR = (2, 5, 10, 20, 40)  # tokens on either side whose matches count together


class LexicalMatch(nn.Module):
    """Features of each source token i from words that source and context have in common.

    rᵢ = w(i) where a word of the context has the same stem as i, else 0, with a learned weight w of each token, which
    is small for words that say little. The features are: the token itself stands in the context; its stem does; rᵢ;
    Σ r over the nearest tokens, for several distances, and over its sentence; how it is written.
    """

    def __init__(self, facts: TokenFacts) -> None:
        super().__init__()
        self.weigh = nn.Embedding(len(facts.families), 1)
        nn.init.constant_(self.weigh.weight, 0.5)
        self.families: Tensor
        self.ends: Tensor
        self.looks: Tensor
        self.register_buffer("families", torch.tensor(facts.families), persistent=False)
        self.register_buffer("ends", torch.tensor(facts.ends), persistent=False)
        self.register_buffer("looks", torch.tensor(facts.looks), persistent=False)
        self.width = 4 + len(NEAR) + len(facts.looks[0])

    def forward(self, source: Tensor, mask: Tensor, context: Column) -> Tensor:
        """Return features (B, S, width)."""
        families, asked = self.families[source], self.families[context.values]
        real = context.mask & (context.values >= len(SPECIALS))
        same = ((source[:, :, None] == context.values[:, None]) & real[:, None]).any(-1)
        related = ((families[:, :, None] == asked[:, None]) & (asked >= 0)[:, None] & real[:, None]).any(-1) & mask
        weights = softplus(self.weigh(source)[..., 0]) * related  # (B, S)
        total = (softplus(self.weigh(context.values)[..., 0]) * real).sum(1, keepdim=True).clamp(min=1.0)
        near = [nearby(weights, distance) / total for distance in NEAR]
        features = [same.float(), related.float(), weights, *near, self._by_sentence(weights, source, mask) / total]
        return torch.cat([torch.stack(features, dim=-1), self.looks[source]], dim=-1)

    def _by_sentence(self, weights: Tensor, source: Tensor, mask: Tensor) -> Tensor:
        """Return the sum of the weights in each token's sentence (B, S)."""
        numbers, _ = numbered(self.ends[source], mask)
        sums = weights.new_zeros(weights.shape).scatter_add(1, numbers, weights)
        return sums.gather(1, numbers)


def nearby(values: Tensor, distance: int) -> Tensor:
    """Return the sum of the values at most `distance` positions away (B, S)."""
    sums = pad(values, (distance + 1, distance)).cumsum(1)
    return sums[:, 2 * distance + 1 :] - sums[:, : values.shape[1]]
