"""Greedy search and sampling: one hypothesis a line, extended by the best symbol or by a drawn one.

A draw depends on the seed and on the line's number, never on the other lines of the batch.
"""

# B lines still open · V symbols

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from weft.core.kinds import Column, Hypothesis, S, Stepper
from weft.core.pair import END, START
from weft.search.clock import NO_LIMIT, Clock
from weft.search.rules import NEVER, Rules
from weft.search.top import top_next

Choose = Callable[[Tensor, list[int]], Tensor]


@dataclass(frozen=True)
class Draw:
    """Draws a symbol from the distribution at a temperature, limited to the k best and to the nucleus of mass p."""

    random: list[np.random.Generator]  # one for each line
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __call__(self, log_probs: Tensor, lines: list[int]) -> Tensor:
        kept = nucleus(torch.log_softmax(log_probs / self.temperature, -1), self.top_k, self.top_p)
        # argmax(log p + Gumbel noise) is a draw from p
        noise = np.stack([self.random[line].gumbel(size=log_probs.shape[1]) for line in lines])
        return (kept + torch.from_numpy(noise).to(kept.dtype).to(kept.device)).argmax(-1)


def nucleus(log_probs: Tensor, top_k: int, top_p: float) -> Tensor:
    """Set all log-probabilities but the k best, and all beyond mass p, to −∞ (Holtzman 2020)."""
    if top_k:
        least = log_probs.topk(min(top_k, log_probs.shape[-1]), dim=-1).values[:, -1:]
        log_probs = log_probs.masked_fill(log_probs < least, NEVER)
    if top_p < 1:
        ordered, order = log_probs.sort(dim=-1, descending=True)
        before = torch.softmax(ordered, -1).cumsum(-1) - torch.softmax(ordered, -1)
        cut = torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before >= top_p)
        log_probs = log_probs.masked_fill(cut, NEVER)
    return log_probs


def draws(seed: int, lines: list[int], sample: int, temperature: float, top_k: int, top_p: float) -> Draw:
    """Return what draws one sample for each of the given line numbers."""
    return Draw([np.random.default_rng((seed, line, sample)) for line in lines], temperature, top_k, top_p)


@torch.inference_mode()
def one_each(
    model: Stepper[S],
    source: Column,
    limits: Tensor,
    rules: Rules,
    choose: Choose | None = None,
    context: Column | None = None,
    clock: Clock = NO_LIMIT,
) -> list[Hypothesis]:
    """Return a hypothesis for each line, of chosen or the most probable symbols; finished lines leave the batch."""
    state = model.begin(source, context)
    open_lines = list(range(source.size))
    y = torch.full((len(open_lines),), START, device=source.device)
    written, scores = y.new_empty(len(open_lines), 0), torch.empty(len(open_lines), 0, device=source.device)
    done: dict[int, Hypothesis] = {}
    while open_lines:
        log_probs, state = model.advance(y, state)
        limits = clock.limits(limits)
        if choose is None:
            y = top_next(log_probs.new_zeros(len(y), 1), log_probs, written[:, None], limits, rules, 1)[1][:, 0]
        else:
            y = choose(rules.apply(log_probs, written, limits), open_lines)
        scores = torch.cat([scores, log_probs.gather(1, y[:, None])], 1)
        ended = (y == END).tolist()
        for row in (r for r, end in enumerate(ended) if end):
            done[open_lines[row]] = _hypothesis(written[row].tolist(), scores[row].tolist())
        written = torch.cat([written, y[:, None]], 1)
        if any(ended):
            rows = torch.tensor([r for r, end in enumerate(ended) if not end], device=source.device, dtype=torch.long)
            open_lines = [line for line, end in zip(open_lines, ended) if not end]
            y, written, scores, limits = y[rows], written[rows], scores[rows], limits[rows]
            state = state.select(rows)
    return [done[line] for line in range(source.size)]


def _hypothesis(ids: list[int], token_scores: list[float]) -> Hypothesis:
    return Hypothesis(tuple(ids), tuple(token_scores), sum(token_scores) / len(token_scores))
