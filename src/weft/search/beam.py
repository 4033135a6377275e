"""Beam search over a batch of lines: each line keeps its `width` best open hypotheses and collects finished ones.

A hypothesis is ranked by log p / length^α, END counted. A line is done when it has collected `width` finished
hypotheses and no open one ranks above the last that is wanted; done lines leave the batch. (Stopping as soon as there
are `width`, as fairseq does, cuts outputs short where END is the second guess at every step: docs/LOG.md, "Beams that
ended too soon".) The result does not depend on the other lines of the batch. With width 1 it is greedy search.
"""

# B lines still open · K hypotheses a line, one at first · V symbols · t symbols written

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from weft.core.kinds import Column, Hypothesis, S, Stepper
from weft.core.pair import END, START
from weft.search.clock import NO_LIMIT, Clock
from weft.search.rules import NEVER, Rules
from weft.search.top import top_next


@dataclass
class _Line:
    """One line's finished hypotheses, the best first."""

    width: int
    wanted: int
    finished: list[Hypothesis] = field(default_factory=list)

    def add(self, hypothesis: Hypothesis) -> None:
        self.finished.append(hypothesis)
        self.finished.sort(key=lambda h: -h.score)
        del self.finished[self.width :]

    def done(self, best_open: float) -> bool:
        full = len(self.finished) >= self.width
        return best_open == NEVER or (full and self.finished[self.wanted - 1].score >= best_open)


@dataclass(frozen=True)
class _Open:
    """The open hypotheses of all open lines: symbols, the log-probability of each symbol, and their sums."""

    lines: list[int]
    written: Tensor  # (B, K, t)
    scores: Tensor  # (B, K, t)
    total: Tensor  # (B, K)
    limits: Tensor  # (B,)

    def keep(self, rows: Tensor) -> _Open:
        """Return the hypotheses of some of the lines."""
        lines = [self.lines[r] for r in rows.tolist()]
        return _Open(lines, self.written[rows], self.scores[rows], self.total[rows], self.limits[rows])

    def grow(self, origin: Tensor, symbol: Tensor, score: Tensor, total: Tensor) -> _Open:
        """Return the hypotheses that extend `origin` (B, K) by one symbol."""
        index = origin[..., None].expand(-1, -1, self.written.shape[2])
        written = torch.cat([self.written.gather(1, index), symbol[..., None]], 2)
        scores = torch.cat([self.scores.gather(1, index), score[..., None]], 2)
        return replace(self, written=written, scores=scores, total=total)


@dataclass(frozen=True)
class Candidates:
    """What a step considers for each open line: its 2·K best extensions of a hypothesis by a symbol, best first."""

    lines: list[int]
    written: Tensor  # (B, K, t) what the hypotheses had before
    origin: Tensor  # (B, 2K) which of them is extended
    symbol: Tensor  # (B, 2K)
    score: Tensor  # (B, 2K) log p of the symbol
    total: Tensor  # (B, 2K) log p of all symbols
    kept: Tensor  # (B, 2K) whether the search goes on with it
    ended: Tensor  # (B, 2K) whether it is collected as finished


Watch = Callable[[Candidates], None]


@torch.inference_mode()
def beam(
    model: Stepper[S],
    source: Column,
    limits: Tensor,
    rules: Rules,
    width: int,
    length_penalty: float = 1.0,
    wanted: int = 1,
    context: Column | None = None,
    clock: Clock = NO_LIMIT,
    watch: Watch | None = None,
) -> list[list[Hypothesis]]:
    """Return the finished hypotheses of each line, the best first, at most `width`; the best `wanted` are certain.

    When the clock rings, open hypotheses are finished as they are. `watch` sees what each step considers.
    """
    rows = source.size
    results = [_Line(width, wanted) for _ in range(rows)]
    state = model.begin(source, context)
    now = _first(rows, limits)
    y = torch.full((rows,), START, device=source.device)
    while now.lines:
        log_probs, state = model.advance(y, state)
        before, now = now.total.shape[1], replace(now, limits=clock.limits(now.limits))
        now, origin = _extend(now, log_probs, rules, results, width, length_penalty, watch)
        stays = _still_open(now, results, length_penalty)
        origin = origin + torch.arange(len(now.lines), device=origin.device)[:, None] * before  # (B, K) into B·K
        if len(stays) < len(now.lines):
            now, origin = now.keep(stays), origin[stays]
        state = state.select(origin.flatten())
        y = now.written[:, :, -1].flatten()
    return [line.finished for line in results]


def _first(rows: int, limits: Tensor) -> _Open:
    """Return one empty hypothesis for each line."""
    nothing = torch.empty(rows, 1, 0, device=limits.device)
    return _Open(list(range(rows)), nothing.long(), nothing, torch.zeros(rows, 1, device=limits.device), limits)


def _extend(
    now: _Open,
    log_probs: Tensor,
    rules: Rules,
    results: list[_Line],
    width: int,
    length_penalty: float,
    watch: Watch | None = None,
) -> tuple[_Open, Tensor]:
    """Extend every hypothesis by every symbol; collect the best that end, keep the best `width` of the others."""
    (lines, hypotheses), symbols = now.total.shape, log_probs.shape[1]
    best, position = top_next(now.total, log_probs, now.written, now.limits, rules, 2 * width)
    origin, symbol = position // symbols, position % symbols
    score = log_probs.view(lines, hypotheses * symbols).gather(1, position)
    ends = symbol == END
    _collect(now, origin, score, ends & (best > NEVER), results, width, length_penalty)
    # the first candidates that do not end, in order; where fewer are left, placeholders at −∞
    total, best = best, best.masked_fill(ends, NEVER)
    best, chosen = best.sort(dim=1, descending=True, stable=True)
    best, chosen = best[:, :width], chosen[:, :width]
    if watch is not None:
        kept = torch.zeros_like(ends).scatter(1, chosen, True) & ~ends
        collected = ends & (torch.arange(ends.shape[1], device=ends.device) < width)
        watch(Candidates(now.lines, now.written, origin, symbol, score, total, kept, collected))
    origin, symbol, score = (x.gather(1, chosen) for x in (origin, symbol, score))
    return now.grow(origin, symbol, score, best), origin


def _collect(
    now: _Open, origin: Tensor, score: Tensor, ends: Tensor, results: list[_Line], width: int, length_penalty: float
) -> None:
    """Add the candidates among a line's best `width` that end to its finished hypotheses."""
    for row, candidate in ends[:, :width].nonzero().tolist():
        parent = int(origin[row, candidate])
        scores = [*now.scores[row, parent].tolist(), float(score[row, candidate])]
        rank = sum(scores) / len(scores) ** length_penalty
        results[now.lines[row]].add(Hypothesis(tuple(now.written[row, parent].tolist()), tuple(scores), rank))


def _still_open(now: _Open, results: list[_Line], length_penalty: float) -> Tensor:
    """Return the rows of the lines that are not done."""
    best = (now.total[:, 0] / now.written.shape[2] ** length_penalty).tolist()
    rows = [row for row, line in enumerate(now.lines) if not results[line].done(best[row])]
    return torch.tensor(rows, dtype=torch.long, device=now.total.device)
