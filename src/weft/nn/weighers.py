"""From scores to attention weights: one function per scheme. The scores of padding are −∞.

References: sparsemax, Martins 2016; straight-through, Bengio 2013; kernel, Nadaraya 1964 and Katharopoulos 2020.
"""

# … batch, heads, queries · S keys

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Weigher = Callable[[Tensor], Tensor]


def softmax(scores: Tensor) -> Tensor:
    """exp(sᵢ) / Σ exp(sⱼ)"""
    return torch.softmax(scores, dim=-1)


def nearest(scores: Tensor) -> Tensor:
    """1 for the best key alone: no gradient reaches queries and keys, only the values."""
    best = scores.argmax(dim=-1, keepdim=True)
    return torch.zeros_like(scores).scatter(-1, best, 1.0).detach()


def straight_through(scores: Tensor) -> Tensor:
    """1 for the best key alone in the forward pass, the gradient of softmax in the backward pass."""
    soft = softmax(scores)
    return nearest(scores) + (soft - soft.detach())  # the bracket is exactly zero


def exact(scores: Tensor) -> Tensor:
    """Equal weights for keys that equal the query (a score of 0 in rbf), nothing when there is none; no gradient."""
    match = (scores >= 0).to(scores.dtype)
    return match / match.sum(-1, keepdim=True).clamp(min=1)


def sparsemax(scores: Tensor) -> Tensor:
    """The nearest point of the simplex: max(sᵢ − τ, 0) with τ such that the weights sum to 1."""
    ordered = scores.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    above = ordered.masked_fill(ordered == float("-inf"), 0.0).cumsum(-1) - 1  # Σ of the best k, less 1
    inside = ranks * ordered > above
    count = inside.sum(-1, keepdim=True)
    tau = above.gather(-1, count - 1) / count
    return (scores - tau).clamp(min=0)


def kernel(scores: Tensor) -> Tensor:
    """κ(sᵢ) / Σ κ(sⱼ), κ(s) = exp(s) for s ≤ 0 and 1 + s above: on rbf, the Gaussian kernel divided by its sum."""
    return softmax(torch.where(scores > 0, torch.log1p(scores.clamp(min=0)), scores))  # of log κ, which cannot vanish
