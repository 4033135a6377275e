"""Models that speak together: the mean of the probabilities of those that write the same way, and both ways' agreement.

A model that writes from the start and one that writes from the end go wrong at different places. So each way's beam
offers its best outputs, all of them are scored both ways, and the mean of the two log-probabilities ranks them (after
Liu 2016). What a beam is not for (greedy search, sampling, a prefix) is done by those that write from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch

from weft.core.kinds import Hypothesis
from weft.core.pair import Pair
from weft.data.tokens import Tokeniser, encode_pairs
from weft.learn.validate import symbol_scores, teacher_forced
from weft.nn.model import Aligned, Seq2Seq
from weft.search.decode import Plan, Searched, Source, decode
from weft.search.ensemble import Ensemble

Ids = tuple[int, ...]
Tick = Callable[[int], None] | None
AT_ONCE = 2048  # lines whose outputs of both ways are there at a time


class Voice(Protocol):
    """A model with the tokenisers that it reads and writes by."""

    @property
    def source(self) -> Tokeniser: ...

    @property
    def target(self) -> Tokeniser: ...

    @property
    def model(self) -> Seq2Seq[Any] | Aligned: ...


class Choir:
    """Models that write the same way, as one."""

    def __init__(self, voices: Sequence[Voice], batch_tokens: int, device: torch.device) -> None:
        self.voices, self._batch_tokens, self._device = voices, batch_tokens, device
        self.target = voices[0].target

    def sources(self, pairs: Sequence[Pair]) -> list[Source]:
        """Ids; of several models each one's."""
        each = self._sources(pairs)
        return list(zip(*each)) if len(each) > 1 else list(each[0])

    def _sources(self, pairs: Sequence[Pair]) -> list[list[list[int]]]:
        return [voice.source.encode_sources(pairs) for voice in self.voices]

    @property
    def searched(self) -> Searched:
        models = [voice.model for voice in self.voices]
        return models[0] if len(models) == 1 else Ensemble([m for m in models if isinstance(m, Seq2Seq)])

    def forced(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """Given the right symbols so far: `loss` and `accuracy`."""
        targets = encode_pairs(pairs, self.voices[0].source, self.target)[1]
        models = [voice.model for voice in self.voices]
        return teacher_forced(models, self._sources(pairs), targets, self.target, self._batch_tokens, self._device)

    def scores(self, pairs: Sequence[Pair], written: Sequence[Ids]) -> list[tuple[float, ...]]:
        """The log-probability of every symbol of what is written for each pair's source, END's included."""
        models, targets = [voice.model for voice in self.voices], [list(ids) for ids in written]
        symbols = len(self.target)
        return symbol_scores(models, self._sources(pairs), targets, symbols, self._batch_tokens, self._device)


def choirs(voices: Sequence[Voice], batch_tokens: int, device: torch.device) -> list[Choir]:
    """Those that write from the start, if there are any, then those that write from the end."""
    ways = [[voice for voice in voices if voice.target.backward is way] for way in (False, True)]
    return [Choir(way, batch_tokens, device) for way in ways if way]


def both_ways(
    lead: Choir, other: Choir, pairs: Sequence[Pair], plan: Plan, device: torch.device, batch_lines: int, tick: Tick
) -> Iterator[list[Hypothesis]]:
    """The best outputs of either way by the mean of both, with the lead's symbols and their log-probabilities."""
    for first in range(0, len(pairs), AT_ONCE):
        some = pairs[first : first + AT_ONCE]
        theirs, ours = (
            decode(way.searched, way.sources(some), plan, device, batch_lines=batch_lines, tick=told, all_found=True)
            for way, told in ((other, None), (lead, tick))
        )
        yield from _agreed(lead, other, some, plan, ours, theirs)


def _agreed(
    lead: Choir,
    other: Choir,
    pairs: Sequence[Pair],
    plan: Plan,
    ours: Sequence[Sequence[Hypothesis]],
    theirs: Sequence[Sequence[Hypothesis]],
) -> list[list[Hypothesis]]:
    offered = [_texts(h) | _texts(o, turned=True) for h, o in zip(ours, theirs)]
    by_lead = _all_scores(lead, pairs, offered, ours, turned=False)
    by_other = _all_scores(other, pairs, offered, theirs, turned=True)
    return [
        sorted(
            (_judged(ids, scores, other_scores[ids], plan.length_penalty) for ids, scores in own.items()),
            key=lambda hypothesis: (-hypothesis.score, hypothesis.ids),
        )[: plan.nbest]
        for own, other_scores in zip(by_lead, by_other)
    ]


def _texts(found: Sequence[Hypothesis], turned: bool = False) -> set[Ids]:
    """In the lead's order."""
    return {hypothesis.ids[::-1] if turned else hypothesis.ids for hypothesis in found}


def _all_scores(
    choir: Choir,
    pairs: Sequence[Pair],
    offered: Sequence[set[Ids]],
    found: Sequence[Sequence[Hypothesis]],
    turned: bool,
) -> list[dict[Ids, tuple[float, ...]]]:
    """Each offered output's scores: those its own beam found are known, the others are counted."""
    step = -1 if turned else 1
    known = [{h.ids[::step]: h.token_scores for h in line} for line in found]
    asked = [(line, ids) for line, all_ids in enumerate(offered) for ids in sorted(all_ids - known[line].keys())]
    if asked:
        counted = choir.scores([pairs[line] for line, _ in asked], [ids[::step] for _, ids in asked])
        for (line, ids), scores in zip(asked, counted):
            known[line][ids] = scores
    return known


def _judged(ids: Ids, scores: tuple[float, ...], other: tuple[float, ...], length_penalty: float) -> Hypothesis:
    mean = (sum(scores) + sum(other)) / 2
    return Hypothesis(ids, scores, mean / len(scores) ** length_penalty)
