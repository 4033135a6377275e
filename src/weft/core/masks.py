"""Masks are True where a symbol is real. Masking scores happens here and nowhere else."""

# B batch · S source length · T target length · H heads

from __future__ import annotations

import torch
from torch import Tensor


def causal(length: int, before: int, device: torch.device) -> Tensor:
    """(T, before + T), True where a new place may look: at all places before, and at itself."""
    return torch.ones(length, before + length, dtype=torch.bool, device=device).tril(before)


def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores with the places that are not real set to −∞; a mask of numbers (see `biased`) is added."""
    if mask is None:
        return scores
    return scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask


def biased(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """A mask (…, T, S) and a bias of scores (H, T, S) as one: numbers to add, −∞ where the mask is False."""
    if bias is None or mask is None:
        return mask if bias is None else bias[None]
    return hide(bias[None], mask)


def biased_layers(mask: Tensor | None, bias: Tensor | None, layers: int) -> list[Tensor | None]:
    """`biased` for each layer: with the same bias (H, T, S), or with the layer's own of (L, H, T, S)."""
    if bias is None or bias.dim() == 3:
        return [biased(mask, bias)] * layers
    return [biased(mask, of_layer) for of_layer in bias]


def last_real(states: Tensor, mask: Tensor) -> Tensor:
    """Return the state at the last real position of each row: (B, S, D), (B, S) → (B, D)."""
    positions = torch.arange(mask.shape[1], device=mask.device)
    last = (positions * mask).amax(1)
    return states[torch.arange(states.shape[0], device=states.device), last]


def real_first(mask: Tensor) -> Tensor | None:
    """Return the order (B, S) that moves the real positions of each row to its start; None where they are there."""
    if not bool((mask[:, 1:] > mask[:, :-1]).any()):
        return None
    return mask.to(torch.uint8).argsort(dim=1, descending=True, stable=True)


def reorder(x: Tensor, order: Tensor) -> Tensor:
    """Return the positions of each row (B, S, …) in another order (B, S)."""
    return x.gather(1, order.view(*order.shape, *[1] * (x.dim() - 2)).expand(x.shape))


def reverse_start(x: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the first positions of each row, as many as `lengths` (B, 1) says. Its own inverse. (B, S, …)"""
    positions = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
    return reorder(x, torch.where(positions < lengths, lengths - 1 - positions, positions))


def reverse_real(x: Tensor, mask: Tensor) -> Tensor:
    """Reverse the real positions of each row, and leave the others where they are. Its own inverse. (B, S, …)"""
    order, lengths = real_first(mask), mask.sum(1, keepdim=True)
    if order is None:
        return reverse_start(x, lengths)
    return reorder(reverse_start(reorder(x, order), lengths), order.argsort(1))
