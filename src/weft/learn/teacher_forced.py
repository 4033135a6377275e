"""What models say when they are given the right symbols so far."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from weft.core.kinds import Batch, Emission
from weft.data.batches import by_length
from weft.learn.objectives import CrossEntropy, Ctc
from weft.nn.model import Aligned, Model

LEAST_TOKENS = 1024  # in a batch that is only looked at, where those to learn from are small
MOST_SCORES = 3_000_000  # scores over symbols in memory at a time (12 MB in float32)

Rows = Sequence[list[int]]  # ids


@dataclass(frozen=True)
class TeacherForced:
    """Some models as one: each has sources in its own symbols, and the mean of their probabilities counts."""

    models: Sequence[Model]
    symbols: int  # of the target
    batch_tokens: int
    device: torch.device

    @torch.inference_mode()
    def measured(self, sources: Sequence[Rows], targets: Rows) -> dict[str, float]:
        """`loss`, nats per target symbol without smoothing, and `accuracy`; `sources` has each model's.

        Accuracy is the percentage of symbols, END among them, that are the most probable; CTC has none.
        """
        total = count = right = 0.0
        aligned = isinstance(self.models[0], Aligned)
        objective = Ctc() if aligned else CrossEntropy()
        for _, batch, emission in self._said(sources, targets):
            loss = objective(emission, batch)
            total, count = total + float(loss.total), count + float(loss.count)
            if not aligned:
                right += float(((emission.logits.argmax(-1) == batch.wanted) & batch.target_mask).sum())
        found = {"loss": total / count if count else math.nan}
        return found if aligned else {**found, "accuracy": 100 * right / count if count else math.nan}

    @torch.inference_mode()
    def scores(self, sources: Sequence[Rows], targets: Rows) -> list[tuple[float, ...]]:
        """The log-probability of every symbol of each target, END's included."""
        found: list[tuple[float, ...]] = [()] * len(targets)
        for rows, batch, emission in self._said(sources, targets):
            each = emission.log_probs.gather(2, batch.wanted[..., None])[..., 0].tolist()
            for row, scores in zip(rows, each):
                found[row] = tuple(scores[: len(targets[row]) + 1])
        return found

    def _said(self, sources: Sequence[Rows], targets: Rows) -> Iterator[tuple[npt.NDArray[np.int64], Batch, Emission]]:
        """Rows of like length, the batch of the first model, and what all models say of it together."""
        lengths = [np.array([len(row) + 1 for row in side], dtype=np.int32) for side in (*sources, targets)]
        room = max(256, MOST_SCORES // self.symbols // len(self.models))
        tokens = min(max(LEAST_TOKENS, self.batch_tokens), room)
        for rows in by_length(np.maximum.reduce(lengths[:-1]), lengths[-1], tokens):
            wanted = [targets[r] for r in rows]
            each = [Batch.of([own[r] for r in rows], wanted).to(self.device) for own in sources]
            said = [model(own) for model, own in zip(self.models, each)]
            together = said[0] if len(said) == 1 else Emission(torch.stack([e.log_probs for e in said]).logsumexp(0))
            yield rows, each[0], together
