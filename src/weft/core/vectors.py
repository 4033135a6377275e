"""Vectors of sources and targets that belong together: their similarity, and what is equal among them."""

# B batch · N further targets · D width

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.kinds import Column
from weft.core.noise import Noise

MULTIPLIER = 6364136223846793005  # of a row's key (Knuth)


@dataclass(frozen=True)
class Vector:
    """Sources, their targets and further targets as vectors of length 1; `scale` is 1/τ."""

    sources: Tensor  # (B, D)
    targets: Tensor  # (B, D)
    others: Tensor  # (N, D)
    scale: Tensor

    def scores(self) -> Tensor:
        """Return cos(source, target)/τ of every source with every target, the further ones last (B, B + N)."""
        return (self.scale * self.sources @ torch.cat([self.targets, self.others]).T).float()

    def nll(self, wanted: Column) -> Tensor:
        """Return −log p of each target among those of the batch (B, 1)."""
        own = torch.arange(len(self.sources), device=self.sources.device)
        keys = row_keys(wanted)
        equal = (keys[:, None] == keys) & ~torch.eye(len(keys), dtype=torch.bool, device=keys.device)
        scores = self.scores()[:, : len(keys)].masked_fill(equal, float("-inf"))
        return -torch.log_softmax(scores, dim=-1).gather(1, own[:, None])

    def best(self) -> Tensor:
        """Return the vectors that targets near the sources would have (B, 1, D)."""
        return self.sources[:, None]

    def draw(self, noise: Noise) -> Tensor:
        return self.best()

    def mean(self, others: Sequence[Vector]) -> Vector:
        """Return vectors whose similarities are the means of those of several models."""
        models = (self, *others)
        if len(models) == 1:
            return self
        sources, targets, further = (
            torch.cat(vectors, -1) * len(models) ** -0.5 for vectors in zip(*map(_parts, models))
        )
        return Vector(sources, targets, further, torch.stack([model.scale for model in models]).mean())

    def scaled(self, unit: Tensor) -> Vector:
        return self

    def stops(self) -> Tensor:
        return torch.ones(len(self.sources), dtype=torch.bool, device=self.sources.device)


def _parts(model: Vector) -> tuple[Tensor, Tensor, Tensor]:
    return model.sources, model.targets, model.others


def row_keys(column: Column) -> Tensor:
    """Return a number for each row of ids (B,), the same for the same ids."""
    powers, power = [], 1
    for _ in range(column.values.shape[1]):
        power = power * MULTIPLIER % 2**64
        powers.append(power - 2**64 if power >= 2**63 else power)
    return (column.values * torch.tensor(powers, device=column.device)).sum(1)
