"""Ensembles: models that write in the same direction predict by the mean of their probabilities; both directions agree.

A model that writes from the start and one that writes from the end make different mistakes. So the hypotheses of a beam
from the start are scored from the end, too, and the mean of the two log-probabilities ranks them (after Liu 2016; a
second beam from the end gains nothing, see docs/LOG.md, "Both ways"). Greedy search and sampling find one output, which
the models that write from the start decide alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

import torch

from weft.core.kinds import Hypothesis, Stepper
from weft.core.pair import Pair
from weft.data.sides.side import Encoded, Side
from weft.data.sides.sides import Sides
from weft.data.text.tokens import Tokeniser
from weft.learn.teacher_forced import TeacherForced
from weft.nn.model import Model, Writer
from weft.score.table import Likelihood
from weft.search.decode import Searched, SearchPlan, Source, decode
from weft.search.endless import Endless
from weft.search.ensemble import Ensemble

Ids = tuple[int, ...]
Tick = Callable[[int], None] | None
AT_ONCE = 2048  # lines whose outputs are rescored together


class Member(Protocol):
    """A model with the sides that it reads and writes."""

    @property
    def sides(self) -> Sides: ...

    @property
    def model(self) -> Model: ...


class DirectionEnsemble:
    """Models that write in the same direction, as one."""

    def __init__(self, members: Sequence[Member], batch_tokens: int, device: torch.device) -> None:
        self.members, self.sides = members, members[0].sides
        models = [member.model for member in members]
        self._forced = TeacherForced(
            models, self.sides.shapes, batch_tokens, device, self.sides.units, self.sides.running
        )

    def sources(self, pairs: Sequence[Pair]) -> list[Source]:
        """Return the ids of each source; for several models a tuple with those of each model."""
        by_member: list[Any] = [rows.source for rows in self.inputs(pairs)]
        return list(zip(*by_member)) if len(by_member) > 1 else list(by_member[0])

    def contexts(self, pairs: Sequence[Pair]) -> list[Source] | None:
        """Return the contexts like the sources; None where the models read none."""
        if self.sides.context is None:
            return None
        by_member: list[Any] = [rows.context for rows in self.inputs(pairs)]
        return list(zip(*by_member)) if len(by_member) > 1 else list(by_member[0])

    @property
    def target(self) -> Tokeniser:
        """The tokeniser of the outputs, which are text."""
        assert isinstance(self.sides.target, Tokeniser)
        return self.sides.target

    def inputs(self, pairs: Sequence[Pair]) -> list[Encoded]:
        """Return the sources and contexts as each model reads them."""
        return [member.sides.inputs(pairs) for member in self.members]

    def _rows(self, pairs: Sequence[Pair]) -> list[Encoded]:
        return [member.sides.encode(pairs) for member in self.members]

    @property
    def models(self) -> list[Model]:
        return [member.model for member in self.members]

    @property
    def searched(self) -> Searched:
        """The model, or the ensemble, that is searched."""
        if len(self.members) == 1:
            return searchable(self.members[0].model, self.sides)
        return Ensemble([cast(Stepper[Any], searchable(member.model, member.sides)) for member in self.members])

    def teacher_forced(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """Return `loss` and `accuracy` of the pairs' targets under teacher forcing."""
        return self._forced.measured(self._rows(pairs))

    def log_probs(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the log-probability of each pair's target."""
        return self._forced.log_probs(self._rows(pairs))

    def likelihoods(self, pairs: Sequence[Pair], tick: Tick = None) -> list[Likelihood]:
        """Return how probable the models together find each pair's target."""
        return self._forced.likelihoods(self._rows(pairs), tick)

    def step_scores(self, pairs: Sequence[Pair]) -> list[tuple[float, ...]]:
        """Return the log-probability of every step of each pair's target, END's included."""
        return self._forced.scores(self._rows(pairs))

    def scores(self, pairs: Sequence[Pair], written: Sequence[Ids]) -> list[tuple[float, ...]]:
        """Return the log-probability of every symbol of given outputs, END's included."""
        outputs = [list(ids) for ids in written]
        return self._forced.scores([replace(rows, target=outputs) for rows in self.inputs(pairs)])


def searchable(model: Model, sides: Sides) -> Searched:
    """Return a model as searches need it."""
    if sides.running is None:
        return cast(Searched, model)
    assert isinstance(model, Writer)
    return Endless(model, 0 if sides.running.carried else sides.running.window)


def by_direction(members: Sequence[Member], batch_tokens: int, device: torch.device) -> list[DirectionEnsemble]:
    """Return the ensemble that writes from the start, if there is one, then the one that writes from the end."""
    directions = [[member for member in members if _is_backward(member.sides.target) is way] for way in (False, True)]
    return [DirectionEnsemble(same, batch_tokens, device) for same in directions if same]


def _is_backward(target: Side) -> bool:
    return isinstance(target, Tokeniser) and target.backward


def search_both_directions(
    lead: DirectionEnsemble,
    other: DirectionEnsemble,
    pairs: Sequence[Pair],
    plan: SearchPlan,
    device: torch.device,
    batch_lines: int,
    tick: Tick,
) -> Iterator[list[Hypothesis]]:
    """Rank what the lead's beam finds by the mean of both directions; each symbol's log-probability is the lead's."""
    for first in range(0, len(pairs), AT_ONCE):
        chunk = pairs[first : first + AT_ONCE]
        by_line = decode(
            lead.searched,
            lead.sources(chunk),
            plan,
            device,
            contexts=lead.contexts(chunk),
            batch_lines=batch_lines,
            tick=tick,
            all_found=True,
        )
        each = [(pair, hypothesis) for pair, hypotheses in zip(chunk, by_line) for hypothesis in hypotheses]
        backward = iter(other.scores([pair for pair, _ in each], [hypothesis.ids[::-1] for _, hypothesis in each]))
        for hypotheses in by_line:
            rescored = [_rescored(h, sum(next(backward)), plan.length_penalty) for h in hypotheses]
            yield sorted(rescored, key=lambda h: -h.score)[: plan.nbest]


def _rescored(hypothesis: Hypothesis, by_other: float, length_penalty: float) -> Hypothesis:
    mean = (hypothesis.log_prob + by_other) / 2
    return replace(hypothesis, score=mean / len(hypothesis.token_scores) ** length_penalty)
