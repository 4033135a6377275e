"""Models that speak together: the mean of the probabilities of those that write the same way, and both ways' agreement.

A model that writes from the start and one that writes from the end go wrong at different places. So what a beam finds
from the start is scored from the end, too, and the mean of the two log-probabilities ranks it (after Liu 2016; a beam
from the end besides brings nothing, see docs/LOG.md, "Both ways"). Greedy search and sampling find one output, which
those that write from the start decide about alone.
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
AT_ONCE = 2048  # lines whose outputs are judged together


class Member(Protocol):
    """A model with the tokenisers that it reads and writes by."""

    @property
    def source(self) -> Tokeniser: ...

    @property
    def target(self) -> Tokeniser: ...

    @property
    def model(self) -> Seq2Seq[Any] | Aligned: ...


class DirectionEnsemble:
    """Models that write the same way, as one."""

    def __init__(self, members: Sequence[Member], batch_tokens: int, device: torch.device) -> None:
        self.members, self.target = members, members[0].target
        self._forced = TeacherForced([member.model for member in members], len(self.target), batch_tokens, device)

    def sources(self, pairs: Sequence[Pair]) -> list[Source]:
        """Ids; of several models each one's."""
        each = self._sources(pairs)
        return list(zip(*each)) if len(each) > 1 else list(each[0])

    def _sources(self, pairs: Sequence[Pair]) -> list[list[list[int]]]:
        return [member.source.encode_sources(pairs) for member in self.members]

    def _targets(self, pairs: Sequence[Pair]) -> list[list[int]]:
        return encode_pairs(pairs, self.members[0].source, self.target)[1]

    @property
    def searched(self) -> Searched:
        models = [member.model for member in self.members]
        return models[0] if len(models) == 1 else Ensemble([m for m in models if isinstance(m, Seq2Seq)])

    def teacher_forced(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """Return `loss` and `accuracy` of the pairs' targets under teacher forcing."""
        return self._forced.measured(self._sources(pairs), self._targets(pairs))

    def log_probs(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the log-probability of each pair's target."""
        return self._forced.log_probs(self._sources(pairs), self._targets(pairs))

    def scores(self, pairs: Sequence[Pair], written: Sequence[Ids]) -> list[tuple[float, ...]]:
        """The log-probability of every symbol of what is written for each pair's source, END's included."""
        return self._forced.scores(self._sources(pairs), [list(ids) for ids in written])


def by_direction(members: Sequence[Member], batch_tokens: int, device: torch.device) -> list[DirectionEnsemble]:
    """Those that write from the start, if there are any, then those that write from the end."""
    ways = [[member for member in members if member.target.backward is way] for way in (False, True)]
    return [DirectionEnsemble(way, batch_tokens, device) for way in ways if way]


def search_both_directions(
    lead: DirectionEnsemble,
    other: DirectionEnsemble,
    pairs: Sequence[Pair],
    plan: SearchPlan,
    device: torch.device,
    batch_lines: int,
    tick: Tick,
) -> Iterator[list[Hypothesis]]:
    """What the lead's beam has found, by the mean of both ways; each symbol's log-probability is the lead's."""
    for first in range(0, len(pairs), AT_ONCE):
        some = pairs[first : first + AT_ONCE]
        found = decode(
            lead.searched, lead.sources(some), plan, device, batch_lines=batch_lines, tick=tick, all_found=True
        )
        each = [(pair, hypothesis) for pair, line in zip(some, found) for hypothesis in line]
        theirs = iter(other.scores([pair for pair, _ in each], [hypothesis.ids[::-1] for _, hypothesis in each]))
        for line in found:
            judged = [_judged(hypothesis, sum(next(theirs)), plan.length_penalty) for hypothesis in line]
            yield sorted(judged, key=lambda hypothesis: -hypothesis.score)[: plan.nbest]


def _judged(found: Hypothesis, by_other: float, length_penalty: float) -> Hypothesis:
    mean = (found.log_prob + by_other) / 2
    return replace(found, score=mean / len(found.token_scores) ** length_penalty)
