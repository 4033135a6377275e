"""Scaled attention by several heads side by side (Vaswani 2017), on torch's fused kernel.

Positions come in as a hook on queries and keys. While somebody traces, the weights are computed in the open.
"""

# B batch · T queries · S keys · H heads · d width of a head · D = H·d

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from weft.core.masks import hide
from weft.core.trace import note, tracing
from weft.nn.dropout import Dropout


class MultiHead(nn.Module):
    """Wₒ [head₁; …], headᵢ = softmax(qᵢ kᵢᵀ / √d) vᵢ with q, k, v projected from their inputs."""

    def __init__(self, width: int, heads: int, memory_width: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        memory_width = memory_width or width
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.key, self.value = nn.Linear(memory_width, width), nn.Linear(memory_width, width)
        for matrix in (self.query, self.key, self.value, self.out):
            nn.init.xavier_uniform_(matrix.weight)
            nn.init.zeros_(matrix.bias)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, H, T, d)"""
        return x.view(*x.shape[:2], self.heads, x.shape[2] // self.heads).transpose(1, 2)

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, name: str) -> Tensor:
        """Split queries, keys and values to the output (B, T, D); `mask` is True where a key may be seen."""
        if tracing():
            mixed = _in_the_open(query, keys, values, mask, name)
        else:
            mixed = scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


def _in_the_open(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, name: str) -> Tensor:
    scores = query @ keys.transpose(2, 3) / query.shape[-1] ** 0.5  # (B, H, T, S)
    weights = torch.softmax(hide(scores, mask), dim=-1)
    note(name, weights)
    return weights @ values


class FeedForward(nn.Sequential):
    """W₂ max(0, W₁ x + b₁) + b₂"""

    def __init__(self, width: int, inner: int, dropout: float) -> None:
        first, second = nn.Linear(width, inner), nn.Linear(inner, width)
        super().__init__(first, nn.ReLU(), Dropout(dropout), second)
        for layer in (first, second):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
