"""Training objectives: from an Emission and a Batch to a sum and a count."""

# B batch · S source length · T target length · V symbols

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, ctc_loss

from weft.core import native
from weft.core.emissions import Choice
from weft.core.kinds import Batch, Emission, Loss, Objective
from weft.core.masks import real_first, reorder
from weft.core.pair import PAD
from weft.core.vectors import Vector, row_keys


@dataclass(frozen=True)
class CrossEntropy:
    """−log p(wanted), with probability ε spread over all symbols (torch's formula), summed over real positions.

    With `weights`, one for each symbol, the term of a position is multiplied by the weight of what is wanted there
    (and of the other symbols, for the part that smoothing spreads: torch's formula).
    """

    smoothing: float = 0.0
    weights: Tensor | None = None  # (V,)

    def __call__(self, emission: Choice, batch: Batch) -> Loss:
        logits, wanted = emission.logits.flatten(0, 1), batch.wanted.values.flatten()
        if logits.requires_grad and self.weights is None and native.is_supported(logits):
            total = _FusedCrossEntropy.apply(logits, wanted, self.smoothing)  # type: ignore[no-untyped-call]
        else:
            total = cross_entropy(
                logits.float(),
                wanted,
                weight=self.weights,
                ignore_index=PAD,
                reduction="sum",
                label_smoothing=self.smoothing,
            )
        return Loss(total, batch.wanted.mask.sum())


class _FusedCrossEntropy(torch.autograd.Function):
    """Cross-entropy whose gradient is computed in the forward pass, while the scores are in cache."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
        compiled = native.pointwise()
        assert compiled is not None
        total, gradient = compiled.cross_entropy(logits.contiguous(), wanted.contiguous(), PAD, smoothing)
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx: Any, grad_total: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_total.to(gradient.dtype), None, None


@dataclass(frozen=True)
class Ctc:
    """−log Σ p(alignment) over all alignments of a target with its source's positions; PAD is the blank (Graves 2006).

    With smoothing ε, (1 − ε) of that and ε of the mean −log p over all symbols at every place. A target that cannot be
    aligned, because it needs more places than its source has, adds nothing to the sum and nothing to the count.
    """

    smoothing: float = 0.0

    def __call__(self, emission: Choice, batch: Batch) -> Loss:
        log_probs, mask = _real_first(emission, batch)  # (B, S, V), (B, S)
        places, symbols = mask.sum(1), batch.wanted.mask.sum(1) - 1  # without END
        wanted, by_time = batch.wanted.values, log_probs.transpose(0, 1)
        total = ctc_loss(by_time, wanted, places, symbols, blank=PAD, reduction="sum", zero_infinity=True)
        doubled = (wanted[:, 1:] == wanted[:, :-1]) & batch.wanted.mask[:, 1:]  # a blank goes between
        fits = (symbols + doubled.sum(1) <= places)[:, None]  # (B, 1)
        if self.smoothing:
            spread = -(log_probs.mean(-1) * (mask & fits)).sum()
            total = torch.lerp(total, spread, self.smoothing)
        return Loss(total, (batch.wanted.mask & fits).sum())


@dataclass(frozen=True)
class CtcBeside:
    """(1 − λ) of the cross-entropy of the decoder and λ of the CTC loss of the encoder's states (Watanabe 2017).

    Label smoothing is that of the cross-entropy. A target that CTC cannot align is learned by the decoder alone.
    """

    smoothing: float
    share: float

    def __call__(self, emission: Choice, batch: Batch) -> Loss:
        assert emission.frames is not None, "the model has CTC beside its decoder"
        written = CrossEntropy(self.smoothing)(emission, batch)
        aligned = Ctc()(emission.frames, batch)
        return Loss((1 - self.share) * written.total + self.share * aligned.total, written.count)


def ctc_log_probs(emission: Choice, batch: Batch) -> Tensor:
    """Return log Σ p(alignment) of each target (B,); −∞ for one that needs more positions than its source has."""
    log_probs, mask = _real_first(emission, batch)
    places, symbols = mask.sum(1), batch.wanted.mask.sum(1) - 1  # without END
    return -ctc_loss(log_probs.transpose(0, 1), batch.wanted.values, places, symbols, blank=PAD, reduction="none")


def _real_first(emission: Choice, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return log-probabilities (B, S, V) and mask (B, S) with the real positions of each source at its start."""
    mask = batch.source.mask if emission.mask is None else emission.mask
    order = real_first(mask)
    if order is None:
        return emission.log_probs, mask
    return reorder(emission.log_probs, order), reorder(mask, order)


def class_weights(counts: Tensor, power: float) -> Tensor:
    """Return weights in proportion to count^−power whose mean over the data is 1; symbols that never occur have 1."""
    often = counts.cpu().double()
    weights = torch.where(often > 0, often.clamp(min=1) ** -power, 1.0)
    mean = (weights * often).sum() / often.sum().clamp(min=1)
    return torch.where(often > 0, weights / mean, 1.0).float().to(counts.device)


@dataclass(frozen=True)
class Likelihood:
    """What an emission itself says of the wanted values, summed over real steps: squared error, distance or −log p."""

    def __call__(self, emission: Emission, batch: Batch) -> Loss:
        return Loss(emission.nll(batch.wanted).sum(), batch.wanted.mask.sum())


@dataclass(frozen=True)
class SpanLikelihood:
    """−log p of the spans that are right, of which several count together; summed over rows that have any."""

    def __call__(self, emission: Emission, batch: Batch) -> Loss:
        return Loss(emission.nll(batch.wanted).sum(), batch.wanted.mask.any(1).sum())


@dataclass(frozen=True)
class Contrastive:
    """−log softmax of cos(source, target)/τ over the batch's targets, and over its sources, half of each; by row.

    Equal targets are not negatives, nor are targets of equal sources. Further targets of the batch are negatives of
    every row.
    """

    def __call__(self, emission: Vector, batch: Batch) -> Loss:
        targets, sources = row_keys(batch.wanted), row_keys(batch.source)
        candidates = targets if batch.others is None else torch.cat([targets, row_keys(batch.others)])
        rows = torch.arange(len(targets), device=targets.device)
        right = (targets[:, None] == candidates) | (
            torch.nn.functional.pad(sources[:, None] == sources, (0, len(candidates) - len(sources)))
        )
        right[rows, rows] = False
        scores = emission.scores().masked_fill(right, float("-inf"))
        back = scores[:, : len(targets)].T
        total = cross_entropy(scores, rows, reduction="sum") + cross_entropy(back, rows, reduction="sum")
        return Loss(total / 2, torch.tensor(len(targets), device=targets.device))


def predictions(objective: Objective, batch: Batch) -> Tensor:
    """Return how many predictions the loss of a batch is the mean of: rows of spans and vectors, else positions."""
    real = batch.wanted.mask
    return real.any(1).sum() if isinstance(objective, SpanLikelihood | Contrastive) else real.sum()


def span_likelihood(smoothing: float = 0.0) -> SpanLikelihood:
    """Return the objective of spans, whose positions are not smoothed."""
    return SpanLikelihood()


def contrastive(smoothing: float = 0.0) -> Contrastive:
    """Return the objective of vectors, whose negatives are not smoothed."""
    return Contrastive()


def likelihood(smoothing: float = 0.0) -> Likelihood:
    """Return the objective of numbers and notes, which have no labels to smooth."""
    return Likelihood()


OBJECTIVES: dict[str, Callable[..., Objective]] = {
    "cross-entropy": CrossEntropy,
    "ctc": Ctc,
    "squared": likelihood,
    "distance": likelihood,
    "gaussian": likelihood,
    "mixture": likelihood,
    "notes": likelihood,
    "span": span_likelihood,
    "contrastive": contrastive,
}
