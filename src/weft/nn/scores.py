"""Attention scores of a query and a key: one class per formula. `keys` is computed once per source.

References: additive, Bahdanau 2015; dot, bilinear and concat, Luong 2015; scaled, Vaswani 2017; cosine, Graves 2014.
"""

# B batch · T queries · S keys · Q query width · K key width · D inner width

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from weft.core import native
from weft.nn.fused import FusedAttention


class Score(nn.Module):
    """From queries (B, T, Q) and prepared keys to scores (B, T, S)."""

    same_width = True  # whether query and key must be of one width

    def __init__(self, query: int, key: int) -> None:
        super().__init__()

    def keys(self, keys: Tensor) -> Tensor:
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        raise NotImplementedError

    def fused(self, keys: Tensor, values: Tensor, mask: Tensor) -> FusedAttention | None:
        """Return prepared keys (B, S, …) and values for the compiled code; None: it does not have this score."""
        return None


class Dot(Score):
    """q·k"""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.matmul(query, keys.transpose(1, 2))

    def fused(self, keys: Tensor, values: Tensor, mask: Tensor) -> FusedAttention | None:
        return FusedAttention(keys, values, mask)


class Scaled(Dot):
    """q·k / √d"""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.div(super().forward(query, keys), keys.shape[-1] ** 0.5)

    def fused(self, keys: Tensor, values: Tensor, mask: Tensor) -> FusedAttention | None:
        return FusedAttention(keys, values, mask, scale=keys.shape[-1] ** -0.5)


class ScaledByWidth(Dot):
    """q·k / d"""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.div(super().forward(query, keys), keys.shape[-1])

    def fused(self, keys: Tensor, values: Tensor, mask: Tensor) -> FusedAttention | None:
        return FusedAttention(keys, values, mask, scale=1 / keys.shape[-1])


class Cosine(Dot):
    """q·k / ‖q‖‖k‖"""

    def keys(self, keys: Tensor) -> Tensor:
        return normalize(keys, dim=-1)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().forward(normalize(query, dim=-1), keys)

    def fused(self, keys: Tensor, values: Tensor, mask: Tensor) -> FusedAttention | None:
        return None


class Rbf(Score):
    """−γ‖q − k‖², γ > 0 learned from 1/√d; taken by differences, so that equal vectors score 0 and nothing else does"""

    def __init__(self, query: int, key: int) -> None:
        super().__init__(query, key)
        self.log_gamma = nn.Parameter(torch.tensor(key**-0.5).log())

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        apart = (query[:, :, None] - keys[:, None]).square().sum(-1)  # (B, T, S)
        return -self.log_gamma.exp() * apart


class Bilinear(Dot):
    """qᵀ W k"""

    same_width = False

    def __init__(self, query: int, key: int) -> None:
        super().__init__(query, key)
        self.weight = nn.Linear(key, query, bias=False)

    def keys(self, keys: Tensor) -> Tensor:
        out: Tensor = self.weight(keys)  # (B, S, Q)
        return out


class Additive(Score):
    """wᵀ φ(W q + U k + b)"""

    same_width = False
    biased = True

    def __init__(self, query: int, key: int) -> None:
        super().__init__(query, key)
        self.of_query = nn.Linear(query, query, bias=False)
        self.of_key = nn.Linear(key, query, bias=self.biased)
        self.weight = nn.Parameter(torch.empty(query).uniform_(-(query**-0.5), query**-0.5))

    def keys(self, keys: Tensor) -> Tensor:
        out: Tensor = self.of_key(keys)  # (B, S, D)
        return out

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        projected, compiled = self.of_query(query), native.pointwise()
        if compiled is not None and native.is_plain(projected, keys, self.weight):
            return compiled.additive_scores(projected, keys, self.weight)
        fit = torch.tanh(projected[:, :, None] + keys[:, None])  # (B, T, S, D)
        return torch.matmul(fit, self.weight)  # (B, T, S)

    def fused(self, keys: Tensor, values: Tensor, mask: Tensor) -> FusedAttention | None:
        return FusedAttention(keys, values, mask, self.of_query.weight, self.weight)


class Concat(Additive):
    """vᵀ φ(W [k; q]): the halves of W act on key and query apart, so that the key's is computed once"""

    biased = False
