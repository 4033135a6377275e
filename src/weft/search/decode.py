"""One door to all searches: sources in, ranked hypotheses out, in batches that do not show in the result."""

# B lines in a batch · M models · S source length

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core.kinds import Aligner, Hypothesis, Stepper, padded
from weft.core.pair import END
from weft.search import ctc
from weft.search.beam import beam
from weft.search.distinct import distinct
from weft.search.rules import Rules, forbid_blanked
from weft.search.sample import draws, nucleus, one_each

Searched = Stepper[Any] | Aligner
Source = Sequence[int] | Sequence[Sequence[int]]  # ids, or for an ensemble each model's


@dataclass(frozen=True)
class SearchPlan:
    """How to search: `kind` is greedy, beam or sample; an output has at most ratio · source + extra symbols."""

    kind: str = "beam"
    width: int = 5
    length_penalty: float = 1.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    nbest: int = 1
    max_ratio: float = 2.0
    max_extra: int = 20
    rules: Rules = field(default_factory=Rules)

    def longest(self, source: int) -> int:
        """The most symbols of an output for a source of so many."""
        return math.ceil(self.max_ratio * source) + self.max_extra


def deduplicate(asked: Sequence[Hashable], plan: SearchPlan) -> list[list[int]]:
    """The places of each that is to be searched for: those that are equal share a search, unless each draws its own."""
    groups: dict[Hashable, list[int]] = {}
    for place, one in enumerate(asked):
        groups.setdefault(place if plan.kind == "sample" else one, []).append(place)
    return list(groups.values())


def decode(
    model: Searched,
    sources: Sequence[Source],
    plan: SearchPlan,
    device: torch.device,
    *,
    lines: Sequence[int] | None = None,
    longest: Sequence[int] | None = None,
    batch_lines: int = 64,
    batch_symbols: int = 16_384,
    tick: Callable[[int], None] | None = None,
    all_found: bool = False,
) -> list[list[Hypothesis]]:
    """Hypotheses for each source, the best first, in the order of the sources; those of like length go together.

    There are as many as the plan wants, or `all_found` by the time that these are certain. `lines` numbers the sources,
    for sampling; else it is their place. `longest` has the most symbols of each source's output; else the plan does.
    """
    lines = range(len(sources)) if lines is None else lines
    longest = [plan.longest(_length(s)) for s in sources] if longest is None else longest
    found: list[list[Hypothesis]] = [[] for _ in sources]
    for places in _batches([_length(s) for s in sources], batch_lines, batch_symbols):
        limits = torch.tensor([longest[p] for p in places], device=device)
        outcome = _decode_batch(model, [sources[p] for p in places], plan, limits, device, [lines[p] for p in places])
        for place, hypotheses in zip(places, outcome):
            found[place] = hypotheses if all_found else hypotheses[: plan.nbest]
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


def _length(source: Source) -> int:
    """The number of symbols; of several models' sources the most."""
    return max((len(one) for one in source if not isinstance(one, int)), default=len(source))


def _together(sources: Sequence[Source], device: torch.device) -> tuple[Tensor, Tensor]:
    """Padded ids and mask (B, S); of an ensemble (B, M, S)."""
    if not sources or not sources[0] or isinstance(sources[0][0], int):
        ids, mask = padded(sources, after=END)  # type: ignore[arg-type]
        return ids.to(device), mask.to(device)
    rows = [one for source in sources for one in source]
    ids, mask = padded(rows, after=END)  # type: ignore[arg-type]
    return tuple(x.view(len(sources), -1, x.shape[1]).to(device) for x in (ids, mask))  # type: ignore[return-value]


def _decode_batch(
    model: Searched, sources: Sequence[Source], plan: SearchPlan, limits: Tensor, device: torch.device, lines: list[int]
) -> list[list[Hypothesis]]:
    source, mask = _together(sources, device)
    if isinstance(model, Aligner):
        return _decode_frames(model, source, mask, plan, lines)
    if plan.kind == "beam":
        width = max(plan.width, plan.nbest)
        return beam(model, source, mask, limits, plan.rules, width, plan.length_penalty, plan.nbest)
    if plan.kind == "greedy":
        return [[h] for h in one_each(model, source, mask, limits, plan.rules)]
    how = plan.temperature, plan.top_k, plan.top_p
    if plan.nbest > 1:
        random = [np.random.default_rng((plan.seed, line)) for line in lines]
        return distinct(model, source, mask, limits, plan.rules, plan.nbest, random, *how)
    return [[h] for h in one_each(model, source, mask, limits, plan.rules, draws(plan.seed, lines, 0, *how))]


@torch.inference_mode()
def _decode_frames(
    model: Aligner, source: Tensor, mask: Tensor, plan: SearchPlan, lines: list[int]
) -> list[list[Hypothesis]]:
    """By CTC: each line by itself, over its own frames."""
    said = forbid_blanked(model.frames(source, mask), plan.rules.first_symbol).cpu().double()
    found = []
    for row, length in enumerate(mask.sum(1).tolist()):
        own = said[row, :length]
        if plan.kind == "greedy":
            found.append([ctc.best_path(own.numpy())])
        elif plan.kind == "beam":
            found.append(ctc.prefix_beam(own.numpy(), max(plan.width, plan.nbest)))
        else:
            chances = nucleus(torch.log_softmax(own / plan.temperature, -1), plan.top_k, plan.top_p)
            random = np.random.default_rng((plan.seed, lines[row]))
            found.append(ctc.drawn(own.numpy(), chances.numpy(), random, plan.nbest))
    return found
