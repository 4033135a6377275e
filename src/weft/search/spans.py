"""The best spans of each source; long sources are read in overlapping windows, whose spans are compared by scores.

A window is computed in a group of fixed size, so that a result never depends on the other lines.
"""

# N spans

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from weft.core.kinds import Hypothesis
from weft.core.shapes import Places, Shapes
from weft.core.spans import Span
from weft.search.decode import SearchPlan
from weft.search.once import Inputs, text_groups

Candidate = tuple[float, float, int, int]  # the scores of begin and end, and these positions in the whole source


@dataclass
class _Line:
    """The candidates of all windows of one line."""

    length: int
    candidates: list[Candidate] = field(default_factory=list)
    nothing: Candidate | None = None  # «no span», by the window that is least sure of it
    totals: tuple[float, float] = (-math.inf, -math.inf)  # log Σ exp of all scores of begins and ends

    def add(self, candidates: list[Candidate], start: int, totals: tuple[float, float], at_end: int) -> None:
        """Add the candidates of one window; `start` is where it begins."""
        self.totals = _log_add(self.totals[0], totals[0]), _log_add(self.totals[1], totals[1])
        for begin, end, first, last in candidates:
            if first == at_end:
                if self.nothing is None or begin + end < self.nothing[0] + self.nothing[1]:
                    self.nothing = begin, end, self.length, self.length
            else:
                self.candidates.append((begin, end, start + first, start + last))

    def best(self, count: int | None) -> list[Hypothesis]:
        """Return the best spans; of one that two windows have found, the better."""
        ranked = sorted(self.candidates + ([self.nothing] if self.nothing else []), key=lambda c: -c[0] - c[1])
        distinct: dict[tuple[int, int], tuple[float, float]] = {}
        for begin, end, first, last in ranked:
            distinct.setdefault((first, last), (begin - self.totals[0], end - self.totals[1]))
        return [Hypothesis(span, scores, sum(scores)) for span, scores in list(distinct.items())[:count]]


@torch.inference_mode()
def spans(
    models: Sequence[Any], inputs: Sequence[Inputs], shapes: Shapes, plan: SearchPlan, device: torch.device,
    tick: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:  # fmt: skip
    """Return the most probable spans of each line: `plan.nbest` or, of sentences, one for every token that begins one.

    Several of these may stand for the same sentence: whoever knows the texts takes the best of each.
    """
    assert isinstance(shapes.target, Places)
    every = shapes.target.sentences and plan.nbest > 1
    lines = [_Line(len(source)) for source in inputs[0].source]
    owners, starts, windows = _windows(inputs, shapes.target)
    for rows, columns in text_groups(windows, shapes, device):
        emissions = [model.label(source, context) for model, (source, context) in zip(models, columns)]
        emission: Span = emissions[0].mean(emissions[1:])
        for number, row in enumerate(rows):
            candidates, totals = _candidates(emission, number, plan.nbest, every)
            lines[owners[row]].add(candidates, starts[row], totals, int(emission.lasts[number]))
        if tick is not None:
            tick(sum(starts[row] == 0 for row in rows))
    return [line.best(None if every else plan.nbest) for line in lines]


def _windows(inputs: Sequence[Inputs], places: Places) -> tuple[list[int], list[int], list[Inputs]]:
    """Return the line and the start of each window, and the windows of each model."""
    owners, starts = [], []
    for row, source in enumerate(inputs[0].source):
        for start in _starts(len(source), places):
            owners.append(row)
            starts.append(start)
    size = places.window - 1  # END follows
    return owners, starts, [Inputs(*_cut(each, owners, starts, size)) for each in inputs]


def _starts(length: int, places: Places) -> Iterator[int]:
    start = 0
    yield start
    while start + places.window - 1 < length:
        start += places.stride
        yield start


def _cut(inputs: Inputs, owners: Sequence[int], starts: Sequence[int], size: int) -> tuple[list[Any], list[Any] | None]:
    sources = [inputs.source[row][start : start + size] for row, start in zip(owners, starts)]
    return sources, None if inputs.context is None else [inputs.context[row] for row in owners]


def _candidates(emission: Span, row: int, count: int, every: bool) -> tuple[list[Candidate], tuple[float, float]]:
    """Return the best spans of one row, «no span» among them where it may be, and the log-sums of all scores.

    They are the best `count` of all, or (`every`) the best of each token that one may begin with.
    """
    only = slice(row, row + 1)
    answer = Span(emission.begins[only], emission.ends[only], emission.lasts[only], emission.longest, none=False)
    begins, ends = answer.begins[0].float(), answer.ends[0].float()
    scores, spans = answer.best_of_begins() if every else answer.ranked(count)
    candidates = [
        _candidate(begins, ends, *span) for s, span in zip(scores[0].tolist(), spans[0].tolist()) if s > -math.inf
    ]
    if emission.none or not candidates:
        last = int(answer.lasts[0])
        candidates.append(_candidate(begins, ends, last, last))
    return candidates, (float(begins.logsumexp(0)), float(ends.logsumexp(0)))


def _candidate(begins: Tensor, ends: Tensor, first: int, last: int) -> Candidate:
    return float(begins[first]), float(ends[last]), first, last


def _log_add(a: float, b: float) -> float:
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
