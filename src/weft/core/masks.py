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


def last_real(states: Tensor, mask: Tensor) -> Tensor:
    """The state at each row's last real place: (B, S, D), (B, S) → (B, D)."""
    last = mask.sum(1).clamp(min=1) - 1
    return states[torch.arange(states.shape[0], device=states.device), last]


def reverse_real(x: Tensor, mask: Tensor) -> Tensor:
    """Each row's real places in reverse order, padding left where it is. Its own inverse. (B, S, …)."""
    lengths = mask.sum(1, keepdim=True)  # (B, 1)
    places = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
    index = torch.where(places < lengths, lengths - 1 - places, places)  # (B, S)
    return x.gather(1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand(x.shape))
