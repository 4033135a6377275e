"""One door to all searches: sources in, ranked hypotheses out, in batches that do not show in the result."""

# B lines in a batch · S source length

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from weft.core.kinds import END, Hypothesis, S, Stepper, padded
from weft.search.beam import beam
from weft.search.rules import Rules
from weft.search.sample import draws, greedy, one_each


@dataclass(frozen=True)
class Plan:
    """How to search: `kind` is greedy, beam or sample; an output has at most ratio · source + extra symbols."""

    kind: str = "beam"
    width: int = 5
    length_penalty: float = 1.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    nbest: int = 1
    longest_ratio: float = 2.0
    longest_extra: int = 20
    rules: Rules = field(default_factory=Rules)


def decode(
    model: Stepper[S],
    sources: Sequence[Sequence[int]],
    plan: Plan,
    device: torch.device,
    *,
    lines: Sequence[int] | None = None,
    batch_lines: int = 64,
    batch_symbols: int = 16_384,
    tick: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """Hypotheses for each source, the best first, in the order of the sources; those of like length go together.

    `lines` numbers the sources, for sampling; else it is their place.
    """
    lines = range(len(sources)) if lines is None else lines
    found: list[list[Hypothesis]] = [[] for _ in sources]
    for places in _batches([len(s) for s in sources], batch_lines, batch_symbols):
        outcome = _decode_batch(model, [sources[p] for p in places], plan, device, [lines[p] for p in places])
        for place, hypotheses in zip(places, outcome):
            found[place] = hypotheses[: plan.nbest]
        if tick is not None:
            tick(len(places))
    return found


def _batches(lengths: Sequence[int], batch_lines: int, batch_symbols: int) -> list[list[int]]:
    """Places of sources, long ones first, in batches limited by lines and by padded symbols."""
    batches: list[list[int]] = []
    for line in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        last = batches[-1] if batches else None
        if last is None or len(last) >= batch_lines or (len(last) + 1) * (lengths[last[0]] + 1) > batch_symbols:
            batches.append([line])
        else:
            last.append(line)
    return batches


def _decode_batch(
    model: Stepper[S], sources: Sequence[Sequence[int]], plan: Plan, device: torch.device, lines: list[int]
) -> list[list[Hypothesis]]:
    source, mask = (x.to(device) for x in padded(sources, after=END))
    limits = torch.tensor([math.ceil(plan.longest_ratio * len(s)) + plan.longest_extra for s in sources], device=device)
    if plan.kind == "beam":
        width = max(plan.width, plan.nbest)
        return beam(model, source, mask, limits, plan.rules, width, plan.length_penalty)
    if plan.kind == "greedy":
        return [[h] for h in one_each(model, source, mask, limits, plan.rules, greedy)]
    samples = [
        one_each(
            model,
            source,
            mask,
            limits,
            plan.rules,
            draws(plan.seed, lines, sample, plan.temperature, plan.top_k, plan.top_p),
        )
        for sample in range(plan.nbest)
    ]
    return [sorted(each, key=lambda h: -h.score) for each in zip(*samples)]
