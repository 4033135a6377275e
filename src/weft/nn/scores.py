"""How well a query fits a key: one class a formula. `keys` is what depends on the keys alone, computed once a source.

References: additive, Bahdanau 2015; dot and bilinear, Luong 2015; scaled, Vaswani 2017.
"""

# B batch · T queries · S keys · Q query width · K key width · D inner width

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dot(nn.Module):
    """q·k"""

    def __init__(self, query: int, key: int) -> None:
        super().__init__()

    def keys(self, keys: Tensor) -> Tensor:
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return torch.matmul(query, keys.transpose(1, 2))  # (B, T, S)


class Scaled(Dot):
    """q·k / √d"""

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        scores = super().forward(query, keys)
        return torch.div(scores, keys.shape[-1] ** 0.5)


class Bilinear(Dot):
    """qᵀ W k"""

    def __init__(self, query: int, key: int) -> None:
        super().__init__(query, key)
        self.weight = nn.Linear(key, query, bias=False)

    def keys(self, keys: Tensor) -> Tensor:
        out: Tensor = self.weight(keys)  # (B, S, Q)
        return out


class Additive(nn.Module):
    """wᵀ φ(W q + U k)"""

    def __init__(self, query: int, key: int) -> None:
        super().__init__()
        self.of_query = nn.Linear(query, query, bias=False)
        self.of_key = nn.Linear(key, query)
        self.weight = nn.Parameter(torch.empty(query).uniform_(-(query**-0.5), query**-0.5))

    def keys(self, keys: Tensor) -> Tensor:
        out: Tensor = self.of_key(keys)  # (B, S, D)
        return out

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        fit = torch.tanh(self.of_query(query)[:, :, None] + keys[:, None])  # (B, T, S, D)
        return torch.matmul(fit, self.weight)  # (B, T, S)
