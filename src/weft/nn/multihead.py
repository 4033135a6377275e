"""Multi-head attention (Vaswani 2017): scaled softmax by torch's fused kernel, other scores step by step.

Positions act as hooks on queries, keys and scores. Inside `trace()` the weights are computed step by step, to be seen.
"""

# B batch · T queries · S keys · H heads · d width of a head · D = H·d

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from weft.core.masks import hide
from weft.core.native.decoding import Decoding
from weft.core.trace import note, tracing
from weft.nn.dropout import Dropout
from weft.nn.panels import Packed
from weft.nn.scores import Scaled, Score
from weft.nn.weighers import Weigher, softmax

FEW_KEYS, FEW_KEYS_IN_HALVES = 24, 96  # docs/LOG.md, "Attention over few keys"


class MultiHead(nn.Module):
    """Wₒ [head₁; …], headᵢ = weigh(score(qᵢ, kᵢ)) vᵢ with q, k, v projected from their inputs."""

    def __init__(
        self,
        width: int,
        heads: int,
        memory_width: int | None = None,
        score: type[Score] = Scaled,
        weigh: Weigher = softmax,
    ) -> None:
        super().__init__()
        self.heads, self.weigh = heads, weigh
        self.joined: Callable[[Tensor], Tensor] | None = None  # all three by one product, in a model that only predicts
        self.fused = score is Scaled and weigh is softmax
        self.scores = nn.ModuleList(score(width // heads, width // heads) for _ in range(heads))
        memory_width = memory_width or width
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.key, self.value = nn.Linear(memory_width, width), nn.Linear(memory_width, width)
        for matrix in (self.query, self.key, self.value, self.out):
            nn.init.xavier_uniform_(matrix.weight)
            nn.init.zeros_(matrix.bias)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, H, T, d)"""
        return x.view(*x.shape[:2], self.heads, x.shape[2] // self.heads).transpose(1, 2)

    def of_one(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of the same positions (B, T, D), each split into heads."""
        if self.joined is None or torch.is_grad_enabled():
            projected = together(x, self.query, self.key, self.value)
        else:
            projected = self.joined(x).chunk(3, dim=-1)
        query, key, value = (self.split(part) for part in projected)
        return query, key, value

    def joint(self) -> tuple[Tensor, Tensor]:
        """Return the joint matrix and bias of query, key and value."""
        layers = (self.query, self.key, self.value)
        return torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])

    @torch.no_grad()
    def pack(self, compiled: Decoding) -> set[nn.Module]:
        """Compute query, key and value by one product from now on, where they read the same positions."""
        if self.query.in_features != self.key.in_features:
            return set()
        self.joined = Packed(compiled, *self.joint())
        return {self.query, self.key, self.value}

    def unpack(self) -> None:
        self.joined = None

    def attend(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, name: str, causal: bool = False
    ) -> Tensor:
        """Return the output (B, T, D) of queries, keys and values that are split into heads.

        `mask` is True where a key may be seen, or holds numbers to add to the scores. The weights are noted as `name`.
        `causal`: the mask hides what comes later and nothing else, so that torch's kernel need not read it.
        """
        if self.fused and not tracing():
            mixed = _causal(query, keys, values) if causal else _fused(query, keys, values, mask)
        else:
            weights = self.weigh(hide(self._scored(query, keys), mask))  # (B, H, T, S)
            mixed = note(name, weights) @ values
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out

    def _scored(self, query: Tensor, keys: Tensor) -> Tensor:
        each = zip(self.scores, query.unbind(1), keys.unbind(1), strict=True)
        return torch.stack([score(q, score.keys(k)) for score, q, k in each if isinstance(score, Score)], dim=1)


def together(x: Tensor, *layers: nn.Linear) -> tuple[Tensor, ...]:
    """Apply several layers to the same input; where gradients are needed, by one product that reads it once."""
    if not torch.is_grad_enabled():
        return tuple(layer(x) for layer in layers)
    weight, bias = torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])
    return tuple(torch.split(linear(x, weight, bias), [layer.out_features for layer in layers], dim=-1))


def _fused(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Torch's kernel; on a CPU in float32, because its backward pass in bfloat16 is ten times as slow (docs/LOG.md).

    Where gradients are needed, plain products over few keys are faster on a CPU, forward and backward.
    """
    half = query.dtype == torch.bfloat16
    if query.device.type != "cpu":
        return scaled_dot_product_attention(query, keys, values, attn_mask=mask)
    if torch.is_grad_enabled() and keys.shape[2] <= (FEW_KEYS_IN_HALVES if half else FEW_KEYS):
        scores = query @ keys.transpose(2, 3) * query.shape[3] ** -0.5
        return torch.softmax(hide(scores.float() if half else scores, mask), dim=-1).to(values.dtype) @ values
    if not half:
        return scaled_dot_product_attention(query, keys, values, attn_mask=mask)
    with torch.autocast("cpu", enabled=False):
        return scaled_dot_product_attention(query.float(), keys.float(), values.float(), attn_mask=mask)


def _causal(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Torch's kernel, which skips the scores of later positions; on a CPU in float32 (see `_fused`)."""
    if query.device.type != "cpu" or query.dtype != torch.bfloat16:
        return scaled_dot_product_attention(query, keys, values, is_causal=True)
    with torch.autocast("cpu", enabled=False):
        return scaled_dot_product_attention(query.float(), keys.float(), values.float(), is_causal=True)


class ResidualNorm(nn.Module):
    """Residual connection and norm around a part: x + f(norm(x)) (Xiong 2020), or norm(x + f(x)) (Vaswani 2017)."""

    def __init__(self, width: int, norm: str, dropout: float) -> None:
        super().__init__()
        self.norm, self.first, self.dropout = nn.LayerNorm(width), norm == "pre", Dropout(dropout)

    def before(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x) if self.first else x
        return out

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.dropout.onto(x, y)
        out: Tensor = x if self.first else self.norm(x)
        return out


class FeedForward(nn.Sequential):
    """W₂ max(0, W₁ x + b₁) + b₂"""

    def __init__(self, width: int, inner: int, dropout: float) -> None:
        first, second = nn.Linear(width, inner), nn.Linear(inner, width)
        super().__init__(first, nn.ReLU(), Dropout(dropout), second)
        for layer in (first, second):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)


def last_norm(width: int, norm: str) -> nn.Module:
    """Return the norm after the last block, which pre-norm blocks need."""
    return nn.LayerNorm(width) if norm == "pre" else nn.Identity()
