"""What a model predicts at each step of a series: a point, a Gaussian or a mixture of Gaussians; of notes, bits.

Where there is `stop`, it is the logit of the probability that a step is the last one, and the likelihood of a step has
that of having gone on or ended there as well.
"""

# B batch · T target length · F features · M components · K notes

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from weft.core.kinds import Column
from weft.core.noise import Noise

LOG_2_PI = math.log(2 * math.pi)
NO_DISTANCE = 1e-12  # the square of the least distance, which keeps its gradient finite


@dataclass(frozen=True)
class Point:
    """A mean at each step, by squared error; with a scale, a Gaussian whose features are independent."""

    centre: Tensor  # (B, T, F)
    scale: Tensor | None = None  # (B, T, F), the standard deviation
    stop: Tensor | None = None  # (B, T) logits

    def nll(self, wanted: Column) -> Tensor:
        """Return ½‖y − μ‖² of each step, or −log N(y; μ, diag s²) where there is a scale (B, T)."""
        if self.scale is None:
            each = (wanted.values - self.centre.float()).square().sum(-1) / 2
        else:
            each = _gaussian(wanted.values, self.centre, self.scale)
        return _masked(each, self.stop, wanted)

    def best(self) -> Tensor:
        """Return the mean (B, T, F)."""
        return self.centre.float()

    def draw(self, noise: Noise) -> Tensor:
        """Return a sample; without a scale there is nothing to sample by, and it is the mean."""
        if self.scale is None:
            return self.best()
        return self.best() + self.scale.float() * noise.normal(self.centre)

    def mean(self, others: Sequence[Point]) -> Point:
        """Return the mean of the means; of Gaussians, the Gaussian with the mean and variance of their mixture."""
        if not others:
            return self
        points = (self, *others)
        centre = torch.stack([point.best() for point in points]).mean(0)
        scales = [point.scale.float() for point in points if point.scale is not None]
        stop = _mean_stop([point.stop for point in points])
        if not scales:
            return replace(self, centre=centre, stop=stop)
        squares = torch.stack([s.square() + (p.best() - centre).square() for s, p in zip(scales, points, strict=True)])
        return Point(centre, squares.mean(0).sqrt(), stop)

    def scaled(self, unit: Tensor) -> Point:
        """Return the same in other units, by feature (F,)."""
        scale = None if self.scale is None else self.scale.float() * unit
        return replace(self, centre=self.best() * unit, scale=scale)

    def stops(self) -> Tensor:
        """Return whether the last step is likely to be the end (B,)."""
        return _stops(self.stop)


@dataclass(frozen=True)
class Track(Point):
    """A mean at each step, by the distance from where it should be; where steps are predicted, from their sum."""

    steps: bool = False  # whether the centre has steps

    def nll(self, wanted: Column) -> Tensor:
        """Return ‖Σ (y − μ)‖ over the steps so far, or ‖y − μ‖ where no steps are predicted (B, T)."""
        error = wanted.values - self.centre.float()
        error = error.cumsum(1) if self.steps else error
        return _masked((error.square().sum(-1) + NO_DISTANCE).sqrt(), self.stop, wanted)


@dataclass(frozen=True)
class Mixture:
    """Σ π_m N(y; μ_m, diag s_m²) at each step (Bishop 1994)."""

    logits: Tensor  # (B, T, M) of the weights
    centres: Tensor  # (B, T, M, F)
    scales: Tensor  # (B, T, M, F)
    stop: Tensor | None = None  # (B, T) logits

    def nll(self, wanted: Column) -> Tensor:
        """Return −log Σ π_m N(y; μ_m, diag s_m²) of each step (B, T)."""
        parts = self._log_weights - _gaussian(wanted.values[..., None, :], self.centres, self.scales)  # (B, T, M)
        return _masked(-parts.logsumexp(-1), self.stop, wanted)

    def best(self) -> Tensor:
        """Return the mean of the component with the largest weight (B, T, F), not the mean of all.

        The mean of all may lie where nothing is probable, such as between two ways round an obstacle.
        """
        return _chosen(self.centres, self.logits.argmax(-1))

    def draw(self, noise: Noise) -> Tensor:
        """Return a sample: of a component that is drawn by its weight."""
        component = (self._log_weights + noise.gumbel(self._log_weights)).argmax(-1)
        centre, scale = _chosen(self.centres, component), _chosen(self.scales, component)
        return centre + scale * noise.normal(centre)

    def mean(self, others: Sequence[Mixture]) -> Mixture:
        """Return the mixture of all components, in which every model weighs alike."""
        if not others:
            return self
        all_of = (self, *others)
        return Mixture(
            torch.cat([mixture._log_weights for mixture in all_of], dim=-1),
            torch.cat([mixture.centres.float() for mixture in all_of], dim=-2),
            torch.cat([mixture.scales.float() for mixture in all_of], dim=-2),
            _mean_stop([mixture.stop for mixture in all_of]),
        )

    def scaled(self, unit: Tensor) -> Mixture:
        """Return the same in other units, by feature (F,)."""
        return replace(self, centres=self.centres.float() * unit, scales=self.scales.float() * unit)

    def stops(self) -> Tensor:
        """Return whether the last step is likely to be the end (B,)."""
        return _stops(self.stop)

    @property
    def _log_weights(self) -> Tensor:
        return torch.log_softmax(self.logits.float(), dim=-1)


@dataclass(frozen=True)
class Bits:
    """Whether each note sounds at a step: independent Bernoulli variables."""

    logits: Tensor  # (B, T, K)
    stop: Tensor | None = None  # (B, T) logits

    def nll(self, wanted: Column) -> Tensor:
        """Return −Σ_k [y_k log p_k + (1 − y_k) log(1 − p_k)] of each step (B, T)."""
        each = binary_cross_entropy_with_logits(self.logits.float(), wanted.values, reduction="none").sum(-1)
        return _masked(each, self.stop, wanted)

    def best(self) -> Tensor:
        """Return the notes that are more likely to sound than not, as 0 and 1 (B, T, K)."""
        return (self.logits.float() > 0).float()

    def draw(self, noise: Noise) -> Tensor:
        """Return a sample: each note sounds with its probability, whatever the others do."""
        logits = self.logits.float()
        return (logits + noise.logistic(logits) > 0).float()

    def mean(self, others: Sequence[Bits]) -> Bits:
        """Return the mean probability of each note."""
        if not others:
            return self
        logits = torch.stack([bits.logits.float() for bits in (self, *others)])
        mean = logsigmoid(logits).logsumexp(0) - logsigmoid(-logits).logsumexp(0)
        return Bits(mean, _mean_stop([bits.stop for bits in (self, *others)]))

    def scaled(self, unit: Tensor) -> Bits:
        return self

    def stops(self) -> Tensor:
        """Return whether the last step is likely to be the end (B,)."""
        return _stops(self.stop)


def _gaussian(y: Tensor, centre: Tensor, scale: Tensor) -> Tensor:
    """Return −log N(y; μ, diag s²), summed over features."""
    scale = scale.float()
    each = ((y - centre.float()) / scale).square() / 2 + scale.log() + LOG_2_PI / 2
    return each.sum(-1)


def _chosen(parts: Tensor, component: Tensor) -> Tensor:
    """Return one component of each step: (B, T, M, F), (B, T) → (B, T, F)."""
    index = component[..., None, None].expand(*component.shape, 1, parts.shape[-1])
    return parts.float().gather(-2, index)[..., 0, :]


def _masked(each: Tensor, stop: Tensor | None, wanted: Column) -> Tensor:
    """Return the terms of real steps, 0 elsewhere; with those of stopping, where that is learned."""
    if stop is not None:
        each = each + binary_cross_entropy_with_logits(stop.float(), _is_last(wanted.mask).float(), reduction="none")
    return each.masked_fill(~wanted.mask, 0.0)


def _is_last(mask: Tensor) -> Tensor:
    """Return True at the last real step of each row (B, T)."""
    steps = torch.arange(mask.shape[1], device=mask.device)
    return mask & (steps == (steps * mask).amax(1, keepdim=True))


def _mean_stop(each: Sequence[Tensor | None]) -> Tensor | None:
    """Return the logit of the mean probability of stopping."""
    known = [stop.float() for stop in each if stop is not None]
    return torch.stack(known).sigmoid().mean(0).logit(eps=1e-7) if known else None


def _stops(stop: Tensor | None) -> Tensor:
    assert stop is not None, "numbers.stop=learned is needed to know where a series ends"
    return stop[:, -1] > 0
