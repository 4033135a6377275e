"""Looking at the model from outside while it learns: loss, decoded outputs, metrics, examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch

from weft.core.pair import Pair
from weft.core.reporting import Example
from weft.data.sides.side import Encoded
from weft.data.sides.sides import Sides
from weft.data.sides.span import Span
from weft.data.sides.table import shown
from weft.data.text.tokens import Tokeniser
from weft.learn.at_once import search_at_once
from weft.learn.retrieval import evaluate_pairs
from weft.learn.teacher_forced import TeacherForced
from weft.nn.model import Model, Towers
from weft.nn.packed import packed
from weft.score.evaluation import Evaluation
from weft.score.metrics import table_of
from weft.search.decode import Searched, SearchPlan, decode, deduplicate


@dataclass(frozen=True)
class Validator:
    """Pairs to validate on, encoded once."""

    pairs: list[Pair]
    rows: Encoded
    sides: Sides
    batch_tokens: int

    @classmethod
    def of(cls, pairs: Sequence[Pair], sides: Sides, batch_tokens: int) -> Validator:
        return cls(list(sides.with_sources(pairs)), sides.encode(pairs), sides, batch_tokens)

    def part(self, count: int) -> Validator:
        """The same on at most `count` pairs, evenly spread; of a running text the first ones."""
        if count >= len(self.pairs):
            return self
        if self.sides.running is not None:
            return replace(self, pairs=self.pairs[:count], rows=self.rows.only(range(count)))
        chosen = np.linspace(0, len(self.pairs) - 1, count).astype(int).tolist()
        return replace(self, pairs=[self.pairs[i] for i in chosen], rows=self.rows.only(chosen))

    def evaluate(
        self,
        model: Model,
        plan: SearchPlan,
        device: torch.device,
        tick: Callable[[int], None] | None = None,
        cut: bool = False,
    ) -> Evaluation:
        """Decode and compare. With `cut`, outputs end soon after their targets would.

        A model that has learned little writes on and on, which would take a large part of a short run's time.
        """
        training, table = model.training, table_of(self.sides.scored_as)
        outputs: list[Any]
        model.eval()
        try:
            with packed(model):
                if isinstance(model, Towers):
                    outputs, loss = evaluate_pairs([model], [self.rows], self.pairs, [self.sides], device, tick)
                    metrics = {"loss": loss}
                elif table.of_likelihood:
                    outputs, metrics = self._forced(model, device).likelihoods([self.rows], tick), {}
                else:
                    outputs = self._outputs(model, plan, device, tick, cut)
                    metrics = self.teacher_forced(model, device)
            metrics |= table.score(outputs, [pair.targets for pair in self.pairs])
        finally:
            model.train(training)
        return Evaluation(metrics, len(self.pairs), outputs, scored_as=self.sides.scored_as)

    def _outputs(
        self, model: Model, plan: SearchPlan, device: torch.device, tick: Callable[[int], None] | None, cut: bool
    ) -> list[str]:
        """Find an output for every source; equal ones of text once."""
        if not isinstance(self.sides.target, Tokeniser):
            whole = isinstance(self.sides.target, Span)  # not only the part of a long source that has the target
            inputs = self.sides.inputs(self.pairs) if whole else self.rows
            best = search_at_once([model], [inputs], self.sides, plan, device, tick=tick)
            return [self.sides.text(outputs[0].row, pair) for outputs, pair in zip(best, self.pairs)]
        sources, contexts = self.rows.source, self.rows.context
        limits = self._soon_after_targets(plan) if cut else [plan.longest(len(source)) for source in sources]
        groups = deduplicate(self._keys(limits), plan)
        if tick is not None and len(groups) < len(limits):
            tick(len(limits) - len(groups))
        firsts = [rows[0] for rows in groups]
        wanted, longest = [sources[row] for row in firsts], [limits[row] for row in firsts]
        beside = None if contexts is None else [contexts[row] for row in firsts]
        texts = [""] * len(limits)
        decoded = decode(cast(Searched, model), wanted, plan, device, contexts=beside, longest=longest, tick=tick)
        for rows, hypotheses in zip(groups, decoded):
            for row in rows:
                texts[row] = self.sides.text(hypotheses[0].ids, self.pairs[row])
        return texts

    def _keys(self, limits: Sequence[int]) -> list[Hashable]:
        """Return what an output depends on: the limit of its length, the source, and the context."""
        if isinstance(self.sides.source, Tokeniser) and self.rows.context is None:
            return [(limit, *source) for limit, source in zip(limits, self.rows.source)]
        columns = [column for column in (self.rows.source, self.rows.context) if column is not None]
        return [(limit, *(np.asarray(side[row]).tobytes() for side in columns)) for row, limit in enumerate(limits)]

    def _soon_after_targets(self, plan: SearchPlan) -> list[int]:
        pairs = zip(self.rows.source, self.rows.target)
        return [min(plan.longest(len(source)), math.ceil(1.5 * len(target)) + 5) for source, target in pairs]

    def teacher_forced(self, model: Model, device: torch.device) -> dict[str, float]:
        return self._forced(model, device).measured([self.rows])

    def _forced(self, model: Model, device: torch.device) -> TeacherForced:
        return TeacherForced(
            [model], self.sides.shapes, self.batch_tokens, device, self.sides.units, self.sides.running
        )


def examples(pairs: Sequence[Pair], outputs: Sequence[Any], count: int = 2, scored_as: str = "text") -> list[Example]:
    """Return a few pairs with their outputs, always the same ones, so that one sees them change."""
    if not all(isinstance(output, str) for output in outputs):  # likelihoods
        return []
    rows = [len(pairs) * (i + 1) // (count + 1) for i in range(min(count, len(pairs)))]
    exact = scored_as != "numbers"
    return [Example(shown_input(pairs[row]), _wanted(pairs[row], outputs[row]), outputs[row], exact) for row in rows]


def shown_input(pair: Pair) -> str:
    """Return the input of a pair as examples show it: tag, features, a context that is text, and source."""
    source = " ".join([*([pair.tag] if pair.tag else []), *pair.features, shown(pair.source)])
    return source if not pair.context or pair.context.startswith("[") else f"{pair.context} · {source}"


def _wanted(pair: Pair, output: str) -> str:
    """Return the reference that the output equals, or else the first."""
    return output if output in pair.targets else pair.targets[0]
