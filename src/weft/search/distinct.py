"""Several samples of a line without repeats: stochastic beam search (Kool 2019).

Every output gets the key log p + Gumbel noise; the K largest keys are K draws without replacement. The search finds
them top down: a hypothesis' key is the largest of its continuations', so noise is drawn under that condition.
"""

# B lines · K hypotheses a line · V symbols

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from weft.core.kinds import Column, Hypothesis, S, Stepper
from weft.core.pair import END, START
from weft.search.clock import NO_LIMIT, Clock
from weft.search.rules import NEVER, Rules
from weft.search.sample import nucleus

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Grown:
    """A hypothesis: its ids, their log-probabilities, the log-probability it is drawn by, its key, whether it ended."""

    ids: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    drawn: float = 0.0
    key: float = 0.0
    ended: bool = False
    row: int = 0


@torch.inference_mode()
def distinct(
    model: Stepper[S],
    source: Column,
    limits: Tensor,
    rules: Rules,
    count: int,
    random: list[np.random.Generator],
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    context: Column | None = None,
    clock: Clock = NO_LIMIT,
) -> list[list[Hypothesis]]:
    """Return at most `count` different outputs for each line, the most probable first."""
    lines = [[_Grown(row=line)] for line in range(source.size)]
    state = model.begin(source, context)
    y = torch.full((source.size,), START, device=source.device)
    while y.numel():
        log_probs, state = model.advance(y, state)
        open_ = [(line, h) for line, hypotheses in enumerate(lines) for h in hypotheses if not h.ended]
        written = torch.tensor([h.ids for _, h in open_], dtype=torch.long, device=y.device)  # (N, t)
        longest = clock.limits(limits)[torch.tensor([line for line, _ in open_], device=y.device)]
        allowed = rules.apply(log_probs, written, longest)
        chances = nucleus(torch.log_softmax(allowed / temperature, -1), top_k, top_p)
        drawn_from, model_scores = (x.cpu().double().numpy() for x in (torch.log_softmax(chances, -1), log_probs))
        for line, hypotheses in enumerate(lines):
            lines[line] = _next(hypotheses, drawn_from, model_scores, random[line], count)
        still_open = [h for hypotheses in lines for h in hypotheses if not h.ended]
        state = state.select(torch.tensor([h.row for h in still_open], dtype=torch.long, device=y.device))
        lines = _renumbered(lines)
        y = torch.tensor([h.ids[-1] for h in still_open], dtype=torch.long, device=y.device)
    outputs = [[Hypothesis(h.ids, h.scores, sum(h.scores) / len(h.scores)) for h in ended] for ended in lines]
    return [sorted(hypotheses, key=lambda h: -h.score) for hypotheses in outputs]


def _next(
    hypotheses: list[_Grown], chances: Floats, model_scores: Floats, random: np.random.Generator, count: int
) -> list[_Grown]:
    """Extend a line's hypotheses by a symbol, and keep the `count` largest keys of these and of those that ended."""
    grown = [h for h in hypotheses if h.ended]
    for h in (h for h in hypotheses if not h.ended):
        totals = h.drawn + chances[h.row]
        keys = _conditioned(totals + random.gumbel(size=totals.shape), h.key)
        for symbol in np.argsort(-keys)[: count + 1]:
            if totals[symbol] > NEVER:
                score, total = float(model_scores[h.row, symbol]), float(totals[symbol])
                grown.append(_longer(h, int(symbol), score, total, keys[symbol]))
    return sorted(grown, key=lambda h: -h.key)[:count]


def _longer(h: _Grown, symbol: int, score: float, drawn: float, key: float) -> _Grown:
    ids = h.ids if symbol == END else (*h.ids, symbol)
    return _Grown(ids, (*h.scores, score), drawn, float(key), symbol == END, h.row)


def _conditioned(keys: Floats, largest: float) -> Floats:
    """Shift Gumbel keys so that their maximum is `largest` (Kool 2019, appendix B.3)."""
    best = keys.max()
    with np.errstate(divide="ignore", over="ignore"):
        v = largest - keys + np.log1p(-np.exp(np.minimum(keys - best, 0.0)))
        moved: Floats = largest - np.maximum(v, 0) - np.log1p(np.exp(-np.abs(v)))
    return np.where(keys == best, largest, moved)


def _renumbered(lines: list[list[_Grown]]) -> list[list[_Grown]]:
    """Number the rows of the open hypotheses anew."""
    rows = iter(range(sum(not h.ended for hypotheses in lines for h in hypotheses)))
    return [[h if h.ended else replace(h, row=next(rows)) for h in hypotheses] for hypotheses in lines]
