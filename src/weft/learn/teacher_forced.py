"""Teacher forcing: what models predict for each target symbol, given the right symbols before it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from weft.core.emissions import Choice
from weft.core.kinds import Batch
from weft.data.batches import by_length
from weft.learn.objectives import CrossEntropy, Ctc, ctc_log_probs
from weft.nn.model import Aligned, Model

LEAST_TOKENS = 1024  # in a batch that is only measured, where those to learn from are small
MOST_SCORES = 3_000_000  # scores over symbols in memory at a time (12 MB in float32)

Rows = Sequence[list[int]]  # ids


@dataclass(frozen=True)
class TeacherForced:
    """One or several models, given the targets; the mean of their probabilities counts.

    Each model has the sources in symbols of its own.
    """

    models: Sequence[Model]
    symbols: int  # of the target
    batch_tokens: int
    device: torch.device

    @torch.inference_mode()
    def measured(self, sources: Sequence[Rows], targets: Rows) -> dict[str, float]:
        """Return `loss`, in nats per target symbol without smoothing, and `accuracy`; `sources` has each model's.

        Accuracy is the percentage of symbols, END among them, that are the most probable; CTC has none.
        """
        total = count = right = 0.0
        objective = Ctc() if self._aligned else CrossEntropy()
        for _, batch, emission in self._emissions(sources, targets):
            loss = objective(emission, batch)
            total, count = total + float(loss.total), count + float(loss.count)
            if not self._aligned:
                right += float(((emission.logits.argmax(-1) == batch.wanted.values) & batch.wanted.mask).sum())
        loss_alone = {"loss": total / count if count else math.nan}
        return loss_alone if self._aligned else {**loss_alone, "accuracy": 100 * right / count if count else math.nan}

    @torch.inference_mode()
    def scores(self, sources: Sequence[Rows], targets: Rows) -> list[tuple[float, ...]]:
        """Return the log-probability of every symbol of each target, END's included. CTC models have none."""
        token_scores: list[tuple[float, ...]] = [()] * len(targets)
        for rows, batch, emission in self._emissions(sources, targets):
            each = emission.log_probs.gather(2, batch.wanted.values[..., None])[..., 0].tolist()
            for row, scores in zip(rows, each):
                token_scores[row] = tuple(scores[: len(targets[row]) + 1])
        return token_scores

    @torch.inference_mode()
    def log_probs(self, sources: Sequence[Rows], targets: Rows) -> list[float]:
        """Return the log-probability of each target; −∞ where CTC cannot align it with its source."""
        if not self._aligned:
            return [sum(scores) for scores in self.scores(sources, targets)]
        log_probs = [0.0] * len(targets)
        for rows, batch, emission in self._emissions(sources, targets):
            for row, log_prob in zip(rows, ctc_log_probs(emission, batch).tolist()):
                log_probs[row] = log_prob
        return log_probs

    @property
    def _aligned(self) -> bool:
        return isinstance(self.models[0], Aligned)

    def _emissions(
        self, sources: Sequence[Rows], targets: Rows
    ) -> Iterator[tuple[npt.NDArray[np.int64], Batch, Choice]]:
        """Yield rows of like length, the batch of the first model, and the emission of all models together."""
        lengths = [np.array([len(row) + 1 for row in side], dtype=np.int32) for side in (*sources, targets)]
        most_tokens = max(256, MOST_SCORES // self.symbols // len(self.models))
        tokens = min(max(LEAST_TOKENS, self.batch_tokens), most_tokens)
        for rows in by_length(np.maximum.reduce(lengths[:-1]), lengths[-1], tokens):
            wanted = [targets[r] for r in rows]
            batches = [Batch.of([side[r] for r in rows], wanted).to(self.device) for side in sources]
            each = [model(batch) for model, batch in zip(self.models, batches)]
            yield rows, batches[0], each[0].mean(each[1:])
