"""Looking at the model from outside while it learns: loss, decoded outputs, metrics, examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt
import torch

from weft.core.kinds import Batch, Emission
from weft.core.pair import Pair
from weft.data.batches import by_length
from weft.data.strangers import Strangers
from weft.data.tokens import Tokeniser, encode_pairs
from weft.learn.objectives import CrossEntropy, Ctc
from weft.nn.model import Aligned, Model
from weft.nn.packed import packed
from weft.score.metrics import score
from weft.search.decode import Plan, Searched, asked_once, decode

LEAST_TOKENS = 1024  # in a batch that is only looked at, where those to learn from are small
MOST_SCORES = 3_000_000  # scores over symbols in memory at a time (12 MB in float32)


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


@dataclass(frozen=True)
class Validator:
    """Pairs to validate on, encoded once."""

    pairs: list[Pair]
    sources: list[list[int]]
    targets: list[list[int]]
    tokeniser: Tokeniser  # the target's
    batch_tokens: int
    strangers: Strangers  # of the sources

    @classmethod
    def of(cls, pairs: Sequence[Pair], source: Tokeniser, target: Tokeniser, batch_tokens: int) -> Validator:
        return cls(list(pairs), *encode_pairs(pairs, source, target), target, batch_tokens, source.strangers)

    def part(self, count: int) -> Validator:
        """The same on at most `count` pairs, evenly spread."""
        if count >= len(self.pairs):
            return self
        chosen = np.linspace(0, len(self.pairs) - 1, count).astype(int)
        return replace(
            self,
            pairs=[self.pairs[i] for i in chosen],
            sources=[self.sources[i] for i in chosen],
            targets=[self.targets[i] for i in chosen],
        )

    def evaluate(
        self,
        model: Model,
        plan: Plan,
        device: torch.device,
        tick: Callable[[int], None] | None = None,
        cut: bool = False,
    ) -> Evaluation:
        """Decode and compare. With `cut`, outputs end soon after their targets would.

        A model that has learned little writes on and on, which would take a large part of a short run's time.
        """
        training = model.training
        model.eval()
        try:
            with packed(model):
                said = self._said(cast(Searched, model), plan, device, tick, cut)
                metrics = self.forced(model, device)
            outputs = [self.strangers.restore(pair.source, text) for pair, text in zip(self.pairs, said)]
            metrics |= score(outputs, [[pair.target] for pair in self.pairs])
        finally:
            model.train(training)
        return Evaluation(metrics, outputs, len(self.pairs))

    def _said(
        self, model: Searched, plan: Plan, device: torch.device, tick: Callable[[int], None] | None, cut: bool
    ) -> list[str]:
        """The output for each source."""
        limits = self._soon_after_targets(plan) if cut else [plan.longest(len(source)) for source in self.sources]
        groups = asked_once([(limit, *source) for limit, source in zip(limits, self.sources)], plan)
        if tick is not None and len(groups) < len(limits):
            tick(len(limits) - len(groups))
        firsts = [places[0] for places in groups]
        sources, longest = [self.sources[p] for p in firsts], [limits[p] for p in firsts]
        said = [""] * len(limits)
        for places, best in zip(groups, decode(model, sources, plan, device, longest=longest, tick=tick)):
            for place in places:
                said[place] = self.tokeniser.decode(best[0].ids)
        return said

    def _soon_after_targets(self, plan: Plan) -> list[int]:
        each = zip(self.sources, self.targets)
        return [min(plan.longest(len(source)), math.ceil(1.5 * len(target)) + 5) for source, target in each]

    def forced(self, model: Model, device: torch.device) -> dict[str, float]:
        return teacher_forced([model], [self.sources], self.targets, self.tokeniser, self.batch_tokens, device)


@torch.inference_mode()
def teacher_forced(
    models: Sequence[Model],
    sources: Sequence[Sequence[list[int]]],
    targets: Sequence[list[int]],
    tokeniser: Tokeniser,
    batch_tokens: int,
    device: torch.device,
) -> dict[str, float]:
    """Given the right symbols so far: `loss`, nats per target symbol without smoothing, and `accuracy`.

    Accuracy is the percentage of symbols, END among them, that are the most probable; CTC has none. Of several models,
    each with sources in its own symbols, the mean of their probabilities counts.
    """
    total = count = right = 0.0
    aligned = isinstance(models[0], Aligned)
    objective = Ctc() if aligned else CrossEntropy()
    for _, batch, emission in _emissions(models, sources, targets, len(tokeniser), batch_tokens, device):
        loss = objective(emission, batch)
        total, count = total + float(loss.total), count + float(loss.count)
        if not aligned:
            right += float(((emission.logits.argmax(-1) == batch.wanted) & batch.target_mask).sum())
    found = {"loss": total / count if count else math.nan}
    return found if aligned else {**found, "accuracy": 100 * right / count if count else math.nan}


@torch.inference_mode()
def symbol_scores(
    models: Sequence[Model],
    sources: Sequence[Sequence[list[int]]],
    targets: Sequence[list[int]],
    symbols: int,
    batch_tokens: int,
    device: torch.device,
) -> list[tuple[float, ...]]:
    """The log-probability of every symbol of each target, END's included, by the models together."""
    found: list[tuple[float, ...]] = [()] * len(targets)
    for rows, batch, emission in _emissions(models, sources, targets, symbols, batch_tokens, device):
        each = emission.log_probs.gather(2, batch.wanted[..., None])[..., 0].tolist()
        for row, scores in zip(rows, each):
            found[row] = tuple(scores[: len(targets[row]) + 1])
    return found


def _emissions(
    models: Sequence[Model],
    sources: Sequence[Sequence[list[int]]],
    targets: Sequence[list[int]],
    symbols: int,
    batch_tokens: int,
    device: torch.device,
) -> Iterator[tuple[npt.NDArray[np.int64], Batch, Emission]]:
    """Rows of like length, the batch of the first model, and what all models say of it together."""
    lengths = [np.array([len(row) + 1 for row in side], dtype=np.int32) for side in (*sources, targets)]
    tokens = min(max(LEAST_TOKENS, batch_tokens), max(256, MOST_SCORES // symbols // len(models)))
    for rows in by_length(np.maximum.reduce(lengths[:-1]), lengths[-1], tokens):
        wanted = [targets[r] for r in rows]
        each = [Batch.of([own[r] for r in rows], wanted).to(device) for own in sources]
        said = [model(own) for model, own in zip(models, each)]
        together = said[0] if len(said) == 1 else Emission(torch.stack([e.log_probs for e in said]).logsumexp(0))
        yield rows, each[0], together


def _shown(pair: Pair) -> str:
    return " ".join([*([pair.tag] if pair.tag else []), *pair.features, pair.source])
