"""Probes: small models that read something off states, trained on some lines and judged on others.

A probe alone says little: with enough parameters it learns anything. Each is therefore trained a second time on a
control task, the same labels dealt to the lines anew; selectivity is the accuracy less that of the control (Hewitt and
Liang 2019).
"""

# N rows · D width · C classes

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from weft.look.inspect.plots import Array
from weft.look.inspect.units import Ints

STEPS = {"linear": 80, "mlp": 60}
MOST_ROWS = 20_000  # that train a probe, evenly spread
STRETCH = 5_000  # symbols of a running text that are on the same side
HIDDEN = 64  # units of an MLP probe
DECAY = 1e-3  # of weights, for rows of variance 1


@dataclass(frozen=True)
class Split:
    """Which rows train a probe, and which judge it: none does both."""

    train: Ints
    test: Ints

    @classmethod
    def of_groups(cls, groups: Ints) -> Split:
        """Split rows so that all rows of a group (a line) are on the same side: odd groups train, even ones judge."""
        return cls(np.flatnonzero(groups % 2 == 1), np.flatnonzero(groups % 2 == 0))

    @classmethod
    def stretches(cls, count: int) -> Split:
        """Split a running text into stretches that judge and train in turn, a short one in the middle.

        So both sides have what is frequent in one chapter and rare in another.
        """
        return cls.of_groups(np.arange(count) // max(1, min(STRETCH, -(-count // 2))))


def standardised(states: Array, split: Split) -> Tensor:
    """Return states with mean 0 and variance 1 on the rows that train."""
    train = states[split.train]
    scale = train.std(0)
    return torch.from_numpy(((states - train.mean(0)) / np.where(scale > 1e-6, scale, 1.0)).astype(np.float32))


def outputs(states: Array, labels: Array, split: Split, kind: str = "linear", classes: int = 0, seed: int = 1) -> Array:
    """Train a probe; return its outputs on all rows: logits of classes (N, C), or without classes a number (N, 1)."""
    x = standardised(states, split)
    rows = split.train[:: -(-len(split.train) // MOST_ROWS)]
    wanted = torch.from_numpy(labels[rows])
    with torch.random.fork_rng(), torch.enable_grad():
        torch.manual_seed(seed)
        probe = _probe(kind, x.shape[1], max(1, classes))
        loss = _loss(wanted, classes)
        _fit(probe, x[rows], loss, STEPS[kind])
    with torch.no_grad():
        return np.asarray(probe(x).numpy())


def _probe(kind: str, width: int, classes: int) -> nn.Module:
    if kind == "linear":
        linear = nn.Linear(width, classes)
        nn.init.zeros_(linear.weight)
        return linear
    return nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))


def _loss(wanted: Tensor, classes: int) -> Callable[[Tensor], Tensor]:
    """Return the loss of classes, of one or several yes-or-no questions (unknown ones are NaN), or of a number."""
    if wanted.dim() == 2 or classes == 1:
        known = ~wanted.isnan().reshape(len(wanted), -1)
        truth = wanted.nan_to_num().reshape(len(wanted), -1).float()
        weight = known.float() / known.sum()
        return lambda out: nn.functional.binary_cross_entropy_with_logits(out, truth, weight, reduction="sum")
    if classes:
        return lambda out: nn.functional.cross_entropy(out, wanted.long())
    return lambda out: nn.functional.mse_loss(out[:, 0], wanted.float())


def _fit(probe: nn.Module, x: Tensor, loss: Callable[[Tensor], Tensor], steps: int) -> None:
    """Minimise the loss over all rows at once."""
    optimiser = torch.optim.LBFGS(probe.parameters(), max_iter=steps, line_search_fn="strong_wolfe")
    weights = [p for p in probe.parameters() if p.dim() == 2]

    def closure() -> Tensor:
        optimiser.zero_grad()
        total = loss(probe(x)) + DECAY * sum((w**2).sum() for w in weights) / 2
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimiser.step(closure)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Accuracy:
    """How often a probe is right on lines that did not train it, beside its control and the most frequent label."""

    right: float
    control: float
    majority: float

    @property
    def selectivity(self) -> float:
        return self.right - self.control


def accuracy(states: Array, labels: Array, split: Split, kind: str = "linear", seed: int = 1) -> Accuracy:
    """Judge a probe, and the same probe for labels dealt to the rows anew.

    Labels are classes 0 … C−1 (N,), or answers to yes-or-no questions (N, C), NaN where a question has none; of
    questions the accuracy is the mean over all answers.
    """
    dealt = np.random.default_rng(seed).permutation(labels)
    classes = labels.shape[1] if labels.ndim == 2 else max(2, int(labels.max()) + 1)
    right, control = (_right(outputs(states, each, split, kind, classes), each, split) for each in (labels, dealt))
    return Accuracy(right, control, majority(labels, split))


def majority(labels: Array, split: Split) -> float:
    """Return how often the most frequent label of the rows that train is right on the others."""
    train, test = labels[split.train], labels[split.test]
    if labels.ndim == 1:
        return float((test == np.bincount(train.astype(int)).argmax()).mean())
    guess = np.nanmean(train, axis=0) >= 0.5
    return float((test == guess)[~np.isnan(test)].mean())


def _right(logits: Array, labels: Array, split: Split) -> float:
    guess, truth = logits[split.test], labels[split.test]
    if labels.ndim == 1:
        return float((guess.argmax(1) == truth).mean())
    return float(((guess > 0) == truth)[~np.isnan(truth)].mean())
