"""What a model predicts at each step, as distributions that know their own likelihood, best value and samples."""

# B batch · T target length · V symbols

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.kinds import Column
from weft.core.noise import Noise
from weft.core.pair import END, PAD, START


@dataclass(frozen=True)
class Choice:
    """A choice of one symbol at each step, by unnormalised scores."""

    logits: Tensor  # (…, V)
    never: Sequence[int] = (PAD, START)  # ids that are never written, even by an untrained model
    mask: Tensor | None = None  # which steps are real, of CTC, whose steps are not those of the target
    frames: Choice | None = None  # what CTC beside attention predicts at each position of the source

    @property
    def log_probs(self) -> Tensor:
        return torch.log_softmax(self.logits.float(), dim=-1)

    def nll(self, wanted: Column) -> Tensor:
        """Return −log p of each wanted symbol (B, T)."""
        each = self.log_probs.gather(-1, wanted.values[..., None])[..., 0]
        return -each.masked_fill(~wanted.mask, 0.0)

    def best(self) -> Tensor:
        """Return the most probable symbol."""
        return self.written().argmax(-1)

    def draw(self, noise: Noise) -> Tensor:
        """Return a symbol that is drawn by its probability."""
        allowed = self.written().float()
        return (allowed + noise.gumbel(allowed)).argmax(-1)

    def mean(self, others: Sequence[Choice]) -> Choice:
        """Return the choice by the mean of the probabilities."""
        if not others:
            return self
        return Choice(torch.stack([e.log_probs for e in (self, *others)]).logsumexp(0), self.never)

    def scaled(self, unit: Tensor) -> Choice:
        return self

    def stops(self) -> Tensor:
        """Return whether END is the most probable symbol at the last step (B,)."""
        return self.best()[:, -1] == END

    def written(self) -> Tensor:
        """Return the scores, −∞ for what is never written."""
        never = torch.tensor(self.never, device=self.logits.device)
        return self.logits.index_fill(-1, never, float("-inf"))
