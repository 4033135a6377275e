"""Ensembles: models that write in the same direction predict by the mean of their probabilities; both directions agree.

A model that writes from the start and one that writes from the end make different mistakes. So the hypotheses of a beam
from the start are scored from the end, too, and the mean of the two log-probabilities ranks them (after Liu 2016; a
second beam from the end gains nothing, see docs/LOG.md, "Both ways"). Greedy search and sampling find one output, which
the models that write from the start decide alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch

from weft.core.kinds import Hypothesis
from weft.core.pair import Pair
from weft.data.text.tokens import Tokeniser, encode_pairs
from weft.learn.teacher_forced import TeacherForced
from weft.nn.model import Aligned, Seq2Seq
from weft.search.decode import Searched, SearchPlan, Source, decode
from weft.search.ensemble import Ensemble

Ids = tuple[int, ...]
Tick = Callable[[int], None] | None
AT_ONCE = 2048  # lines whose outputs are rescored together


class Member(Protocol):
    """A model with the tokenisers that it reads and writes by."""

    @property
    def source(self) -> Tokeniser: ...

    @property
    def target(self) -> Tokeniser: ...

    @property
    def model(self) -> Seq2Seq[Any] | Aligned: ...


class DirectionEnsemble:
    """Models that write in the same direction, as one."""

    def __init__(self, members: Sequence[Member], batch_tokens: int, device: torch.device) -> None:
        self.members, self.target = members, members[0].target
        self._forced = TeacherForced([member.model for member in members], len(self.target), batch_tokens, device)

    def sources(self, pairs: Sequence[Pair]) -> list[Source]:
        """Return the ids of each source; for several models a tuple with those of each model."""
        by_member = self._sources(pairs)
        return list(zip(*by_member)) if len(by_member) > 1 else list(by_member[0])

    def _sources(self, pairs: Sequence[Pair]) -> list[list[list[int]]]:
        return [member.source.encode_sources(pairs) for member in self.members]

    def _targets(self, pairs: Sequence[Pair]) -> list[list[int]]:
        return encode_pairs(pairs, self.members[0].source, self.target)[1]

    @property
    def searched(self) -> Searched:
        """The model, or the ensemble, that is searched."""
        models = [member.model for member in self.members]
        return models[0] if len(models) == 1 else Ensemble([m for m in models if isinstance(m, Seq2Seq)])

    def teacher_forced(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """Return `loss` and `accuracy` of the pairs' targets under teacher forcing."""
        return self._forced.measured(self._sources(pairs), self._targets(pairs))

    def log_probs(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the log-probability of each pair's target."""
        return self._forced.log_probs(self._sources(pairs), self._targets(pairs))

    def scores(self, pairs: Sequence[Pair], written: Sequence[Ids]) -> list[tuple[float, ...]]:
        """Return the log-probability of every symbol of given outputs, END's included."""
        return self._forced.scores(self._sources(pairs), [list(ids) for ids in written])


def by_direction(members: Sequence[Member], batch_tokens: int, device: torch.device) -> list[DirectionEnsemble]:
    """Return the ensemble that writes from the start, if there is one, then the one that writes from the end."""
    directions = [[member for member in members if member.target.backward is way] for way in (False, True)]
    return [DirectionEnsemble(same, batch_tokens, device) for same in directions if same]


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
            lead.searched, lead.sources(chunk), plan, device, batch_lines=batch_lines, tick=tick, all_found=True
        )
        each = [(pair, hypothesis) for pair, hypotheses in zip(chunk, by_line) for hypothesis in hypotheses]
        backward = iter(other.scores([pair for pair, _ in each], [hypothesis.ids[::-1] for _, hypothesis in each]))
        for hypotheses in by_line:
            rescored = [_rescored(h, sum(next(backward)), plan.length_penalty) for h in hypotheses]
            yield sorted(rescored, key=lambda h: -h.score)[: plan.nbest]


def _rescored(hypothesis: Hypothesis, by_other: float, length_penalty: float) -> Hypothesis:
    mean = (hypothesis.log_prob + by_other) / 2
    return replace(hypothesis, score=mean / len(hypothesis.token_scores) ** length_penalty)
