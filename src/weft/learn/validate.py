"""Looking at the model from outside while it learns: loss, decoded outputs, metrics, examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from weft.core.kinds import Batch, Pair
from weft.data.batches import by_length
from weft.data.tokens import Tokeniser
from weft.learn.objectives import CrossEntropy
from weft.nn.model import Seq2Seq
from weft.score.metrics import score
from weft.search.decode import Plan, decode


@dataclass(frozen=True)
class Example:
    source: str
    wanted: str
    said: str

    @property
    def right(self) -> bool:
        return self.wanted == self.said


@dataclass(frozen=True)
class Evaluation:
    """Metrics (loss in nats per target symbol, the others in percent), every output, and how many pairs it was."""

    metrics: dict[str, float]
    outputs: list[str]
    pairs: int

    def examples(self, pairs: Sequence[Pair], count: int = 2) -> list[Example]:
        """Always the same few pairs, so that one sees them change."""
        places = [len(pairs) * (i + 1) // (count + 1) for i in range(min(count, len(pairs)))]
        return [Example(_shown(pairs[p]), pairs[p].target, self.outputs[p]) for p in places]


class Validator:
    """Pairs to validate on, encoded once."""

    def __init__(self, pairs: Sequence[Pair], source: Tokeniser, target: Tokeniser, batch_tokens: int) -> None:
        self.pairs, self._target, self._batch_tokens = list(pairs), target, batch_tokens
        self._sources = source.encode_sources(self.pairs)
        self._targets = target.encode_all([pair.target for pair in self.pairs])

    def part(self, count: int) -> Validator:
        """The same on at most `count` pairs, evenly spread."""
        if count >= len(self.pairs):
            return self
        chosen = np.linspace(0, len(self.pairs) - 1, count).astype(int)
        part = object.__new__(Validator)
        part.pairs, part._target, part._batch_tokens = [self.pairs[i] for i in chosen], self._target, self._batch_tokens
        part._sources, part._targets = [self._sources[i] for i in chosen], [self._targets[i] for i in chosen]
        return part

    def evaluate(
        self, model: Seq2Seq[Any], plan: Plan, device: torch.device, tick: Callable[[int], None] | None = None
    ) -> Evaluation:
        training = model.training
        model.eval()
        try:
            found = decode(model, self._sources, plan, device, tick=tick)
            outputs = [self._target.decode(best[0].ids) for best in found]
            metrics = {"loss": self.loss(model, device), **score(outputs, [[pair.target] for pair in self.pairs])}
        finally:
            model.train(training)
        return Evaluation(metrics, outputs, len(self.pairs))

    @torch.inference_mode()
    def loss(self, model: Seq2Seq[Any], device: torch.device) -> float:
        """Cross-entropy without smoothing, nats per target symbol."""
        total = count = 0.0
        lengths = [np.array([len(row) + 1 for row in side], dtype=np.int32) for side in (self._sources, self._targets)]
        for rows in by_length(lengths[0], lengths[1], self._batch_tokens):
            batch = Batch.of([self._sources[r] for r in rows], [self._targets[r] for r in rows]).to(device)
            loss = CrossEntropy()(model(batch), batch)
            total, count = total + float(loss.total), count + float(loss.count)
        return total / count if count else math.nan


def _shown(pair: Pair) -> str:
    return " ".join([*([pair.tag] if pair.tag else []), *pair.features, pair.source])
