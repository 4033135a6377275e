"""Teacher forcing: what models predict at each step of a target, given the right symbols or numbers before it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from weft.core.batching import batch_of
from weft.core.emissions import Choice
from weft.core.kinds import Batch, Column, Emission
from weft.core.shapes import Shapes, Symbols
from weft.data.batches import by_length
from weft.data.sides.side import Encoded, Rows
from weft.learn.objectives import CrossEntropy, Ctc, ctc_log_probs
from weft.nn.model import Aligned, Model

LEAST_TOKENS = 1024  # in a batch that is only measured, where those to learn from are small
MOST_SCORES = 3_000_000  # scores over symbols in memory at a time (12 MB in float32)


@dataclass(frozen=True)
class TeacherForced:
    """One or several models, given the targets; the mean of their probabilities counts.

    Each model has the sources in symbols of its own. `units` are those of encoded numbers, by feature.
    """

    models: Sequence[Model]
    shapes: Shapes
    batch_tokens: int
    device: torch.device
    units: tuple[float, ...] = ()

    @torch.inference_mode()
    def measured(self, rows: Sequence[Encoded]) -> dict[str, float]:
        """Return `loss`, without smoothing, and of symbols `accuracy`; `rows` has each model's.

        The loss is in nats per symbol or step, that of squared errors in the square of the data's units. Accuracy is
        the percentage of symbols, END among them, that are the most probable; CTC has none.
        """
        total = count = right = 0.0
        for _, batch, emission in self._emissions(rows):
            part, number = self._loss(emission, batch)
            total, count = total + part, count + number
            if isinstance(emission, Choice) and not self._aligned:
                right += float(((emission.logits.argmax(-1) == batch.wanted.values) & batch.wanted.mask).sum())
        loss = {"loss": total / count if count else math.nan}
        if self._aligned or not isinstance(self.shapes.target, Symbols):
            return loss
        return {**loss, "accuracy": 100 * right / count if count else math.nan}

    def _loss(self, emission: Emission, batch: Batch) -> tuple[float, float]:
        if isinstance(emission, Choice):
            loss = (Ctc() if self._aligned else CrossEntropy())(emission, batch)
            return float(loss.total), float(loss.count)
        unit = torch.tensor(self.units, device=self.device)
        in_units = Column(batch.wanted.values * unit, batch.wanted.mask)
        return float(emission.scaled(unit).nll(in_units).sum()), float(batch.wanted.mask.sum())

    @torch.inference_mode()
    def scores(self, rows: Sequence[Encoded]) -> list[tuple[float, ...]]:
        """Return the log-probability of every step of each target, END's included. CTC models have none."""
        targets = rows[0].target
        step_scores: list[tuple[float, ...]] = [()] * len(targets)
        for numbers, batch, emission in self._emissions(rows):
            for row, scores in zip(numbers, (-emission.nll(batch.wanted)).tolist()):
                step_scores[row] = tuple(scores[: len(targets[row]) + self._end])
        return step_scores

    @torch.inference_mode()
    def log_probs(self, rows: Sequence[Encoded]) -> list[float]:
        """Return the log-probability of each target; −∞ where CTC cannot align it with its source."""
        if not self._aligned:
            return [sum(scores) for scores in self.scores(rows)]
        log_probs = [0.0] * len(rows[0].target)
        for numbers, batch, emission in self._emissions(rows):
            assert isinstance(emission, Choice)
            for row, log_prob in zip(numbers, ctc_log_probs(emission, batch).tolist()):
                log_probs[row] = log_prob
        return log_probs

    @property
    def _aligned(self) -> bool:
        return isinstance(self.models[0], Aligned)

    @property
    def _end(self) -> int:
        """Return how many steps a target has besides those that are encoded."""
        return int(isinstance(self.shapes.target, Symbols) and self.shapes.target.ended)

    def _emissions(self, rows: Sequence[Encoded]) -> Iterator[tuple[npt.NDArray[np.int64], Batch, Emission]]:
        """Yield rows of like length, the batch of the first model, and the emission of all models together."""
        targets, target = rows[0].target, self.shapes.target
        source_lengths = np.maximum.reduce(
            [_lengths(side) for each in rows for side in (each.source, each.context) if side is not None]
        )
        symbols = target.count if isinstance(target, Symbols) else 16
        most_tokens = max(256, MOST_SCORES // symbols // len(self.models))
        tokens = min(max(LEAST_TOKENS, self.batch_tokens), most_tokens)
        for numbers in by_length(source_lengths, _lengths(targets), tokens):
            batches = [self._batch(each, numbers, targets) for each in rows]
            each = [model(batch) for model, batch in zip(self.models, batches)]
            yield numbers, batches[0], each[0].mean(each[1:])

    def _batch(self, rows: Encoded, numbers: npt.NDArray[np.int64], targets: Rows) -> Batch:
        context = None if rows.context is None else [rows.context[n] for n in numbers]
        source = [rows.source[n] for n in numbers]
        return batch_of(source, [targets[n] for n in numbers], context, self.shapes).to(self.device)


def _lengths(rows: Rows) -> npt.NDArray[np.int32]:
    return np.array([len(row) + 1 for row in rows], dtype=np.int32)
