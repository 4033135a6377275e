"""Teacher forcing: what models predict at each step of a target, given the right symbols or numbers before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from weft.core.batching import batch_of
from weft.core.densities import Bits, Mixture, Point
from weft.core.emissions import Choice
from weft.core.kinds import Batch, Column, Emission
from weft.core.shapes import Hidden, Notes, Nothing, Shapes, Symbols
from weft.core.spans import Span
from weft.data.batches import by_length
from weft.data.sides.nothing import NoColumn
from weft.data.sides.side import Encoded, Rows
from weft.learn.objectives import CrossEntropy, Ctc, SpanLikelihood, ctc_log_probs
from weft.learn.running import running_scores
from weft.nn.model import Aligned, Model
from weft.score.table import Likelihood

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
    running: NoColumn | None = None  # how targets that are pieces of a running text are read

    @torch.inference_mode()
    def measured(self, rows: Sequence[Encoded]) -> dict[str, float]:
        """Return `loss`, without smoothing, of symbols `accuracy`, of notes and continued series `nll`.

        `rows` has each model's.

        The loss is in nats per symbol or step, that of squared errors in the square of the data's units. Accuracy is
        the percentage of symbols, END among them, that are the most probable; CTC has none. `nll` is the loss without
        that of stopping.
        """
        total = count = right = nats = 0.0
        for _, batch, emission in self._emissions(rows):
            part, number = self._loss(emission, batch)
            total, count = total + part, count + number
            if isinstance(emission, Choice) and not self._aligned:
                right += float(((emission.logits.argmax(-1) == batch.wanted.values) & batch.wanted.mask).sum())
            if isinstance(emission, Bits | Point | Mixture):
                nats += float(self._in_units(replace(emission, stop=None), batch).sum())
        loss = {"loss": total / count if count else math.nan}
        if isinstance(self.shapes.target, Notes) or self._continues:
            return {**loss, "nll": nats / count if count else math.nan}
        if self._aligned or not isinstance(self.shapes.target, Symbols):
            return loss
        return {**loss, "accuracy": 100 * right / count if count else math.nan}

    def _loss(self, emission: Emission, batch: Batch) -> tuple[float, float]:
        if isinstance(emission, Choice):
            loss = (Ctc() if self._aligned else CrossEntropy())(emission, batch)
            return float(loss.total), float(loss.count)
        if isinstance(emission, Span):
            spans = SpanLikelihood()(emission, batch)
            return float(spans.total), float(spans.count)
        return float(self._in_units(emission, batch).sum()), float(batch.wanted.mask.sum())

    def _in_units(self, emission: Emission, batch: Batch) -> Tensor:
        """Return −log p of each wanted value (B, T); of numbers in the units of the data."""
        if isinstance(emission, Choice) or not self.units:
            return emission.nll(batch.wanted)
        unit = torch.tensor(self.units, device=self.device)
        return emission.scaled(unit).nll(Column(batch.wanted.values * unit, batch.wanted.mask))

    @torch.inference_mode()
    def scores(self, rows: Sequence[Encoded]) -> list[tuple[float, ...]]:
        """Return the log-probability of every step of each target, END's included. CTC models have none."""
        targets = rows[0].target
        if self.running is not None:
            return running_scores(self.models, targets, self.running, self.device)
        step_scores: list[tuple[float, ...]] = [()] * len(targets)
        for numbers, batch, emission in self._emissions(rows):
            for row, scores in zip(numbers, (-emission.nll(batch.wanted)).tolist()):
                step_scores[row] = tuple(scores[: len(targets[row]) + self._end])
        return step_scores

    @torch.inference_mode()
    def likelihoods(self, rows: Sequence[Encoded], tick: Callable[[int], None] | None = None) -> list[Likelihood]:
        """Return how probable each target is; numbers are in the units of the data."""
        if self.running is not None:
            return [Likelihood(-sum(scores), len(scores), ended=False) for scores in self.scores(rows)]
        results: list[Likelihood] = [Likelihood(0.0, 0, False)] * len(rows[0].target)
        for numbers, batch, emission in self._emissions(rows):
            nats, lengths = self._in_units(emission, batch).sum(1), batch.wanted.mask.sum(1)
            right = self._right(emission, batch)
            for row, total, length, count in zip(numbers, nats.tolist(), lengths.tolist(), right):
                results[row] = Likelihood(total, length, bool(self._end), count)
            if tick is not None:
                tick(len(numbers))
        return results

    def _right(self, emission: Emission, batch: Batch) -> list[int]:
        """Return how many symbols of each row are the most probable ones; counted where they are hidden."""
        if not isinstance(self.shapes.target, Hidden) or not isinstance(emission, Choice):
            return [0] * batch.size
        right = (emission.logits.argmax(-1) == batch.wanted.values) & batch.wanted.mask
        counts: list[int] = right.sum(1).tolist()
        return counts

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
    def _continues(self) -> bool:
        """Return whether a series is continued, with nothing else to read."""
        return isinstance(self.shapes.source, Nothing) and not isinstance(self.shapes.target, Symbols)

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
