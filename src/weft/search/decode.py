"""The entry to all searches: sources → ranked hypotheses, in batches that have no influence on the result."""

# B lines in a batch · M models · S source length

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from weft.core.kinds import Aligner, Column, Hypothesis, Stepper
from weft.search import ctc
from weft.search.beam import beam
from weft.search.clock import Clock
from weft.search.distinct import distinct
from weft.search.joint import joint
from weft.search.memory import check_memory
from weft.search.rules import Rules, forbid_blanked
from weft.search.sample import draws, nucleus, one_each

Searched = Stepper[Any] | Aligner
MOST_HYPOTHESES = 4096  # open at once, of all lines of a batch
Row = Sequence[int] | npt.NDArray[np.float32]  # ids, or vectors (S, F)
Source = Row | Sequence[Row]  # for an ensemble each model's


@dataclass(frozen=True)
class SearchPlan:
    """How to search: `kind` is greedy, beam or sample.

    An output has at most `length` symbols or, where that is not given, ratio · source + extra.
    """

    kind: str = "beam"
    width: int = 5
    length_penalty: float = 1.0
    ctc_weight: float = 0.0  # of CTC beside a decoder; sampling uses the decoder alone
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1
    nbest: int = 1
    max_ratio: float = 2.0
    max_extra: int = 20
    max_symbols: int | None = None  # of any output, whatever its source
    length: int | None = None  # steps of a series, or the most symbols; None: what the run has learned
    continues: bool = False  # whether sources are prompts, which the outputs continue
    seconds: float = 0.0  # that a line may take; 0: no limit
    symbol_bytes: int = 0  # of memory for each symbol of a hypothesis; 0: not known
    rules: Rules = field(default_factory=Rules)

    @property
    def name(self) -> str:
        """What a report calls the search."""
        return f"beam {self.width}" if self.kind == "beam" else self.kind

    @property
    def hypotheses(self) -> int:
        """How many hypotheses of a line are open at once."""
        return max(self.width, self.nbest) if self.kind == "beam" else self.nbest

    def longest(self, source: int) -> int:
        """Return the most symbols that the output for a source of this length may have."""
        longest = self.length or math.ceil(self.max_ratio * source) + self.max_extra
        return longest if self.max_symbols is None else min(longest, self.max_symbols)


def deduplicate(inputs: Sequence[Hashable], plan: SearchPlan) -> list[list[int]]:
    """Return the positions of each different input: equal inputs share a search, unless each draws its own sample."""
    groups: dict[Hashable, list[int]] = {}
    for position, key in enumerate(inputs):
        groups.setdefault(position if plan.kind == "sample" else key, []).append(position)
    return list(groups.values())


def decode(
    model: Searched,
    sources: Sequence[Source],
    plan: SearchPlan,
    device: torch.device,
    *,
    contexts: Sequence[Source] | None = None,
    lines: Sequence[int] | None = None,
    longest: Sequence[int] | None = None,
    batch_lines: int = 64,
    batch_symbols: int = 16_384,
    tick: Callable[[int], None] | None = None,
    all_found: bool = False,
) -> list[list[Hypothesis]]:
    """Return the hypotheses for each source, the best first, in the order of the sources.

    `contexts` has the context of each source, for models that read one. There are `plan.nbest` hypotheses, or with
    `all_found` every finished one of the beam. `lines` numbers the sources, for sampling; by default it is their
    position. `longest` has the most symbols of each source's output, in the place of the plan's limit. Sources of
    similar length are decoded together.
    """
    lines = range(len(sources)) if lines is None else lines
    longest = [plan.longest(_length(s)) for s in sources] if longest is None else longest
    results: list[list[Hypothesis]] = [[] for _ in sources]
    check_memory(longest, lines, plan.hypotheses, plan.symbol_bytes)
    batch_lines = max(1, min(batch_lines, MOST_HYPOTHESES // plan.hypotheses))
    for batch in _batches([_length(s) for s in sources], batch_lines, batch_symbols, plan.continues):
        limits = torch.tensor([longest[i] for i in batch], device=device)
        source = _padded([sources[i] for i in batch], device, ended=not plan.continues)
        context = None if contexts is None else _padded([contexts[i] for i in batch], device)
        clock, numbers = Clock(plan.seconds * len(batch)), [lines[i] for i in batch]
        decoded = _decode_batch(model, source, context, plan, limits, numbers, clock)
        for i, hypotheses in zip(batch, decoded):
            results[i] = hypotheses if all_found else hypotheses[: plan.nbest]
        if clock.rang:
            warnings.warn(cut_short(numbers, plan.seconds), stacklevel=2)
        if tick is not None:
            tick(len(batch))
    return results


def cut_short(lines: Sequence[int], seconds: float, rest: str = "the best so far is") -> str:
    """Say which lines of the input (counted from 0) have what was found when their time was over."""
    which = f"line {lines[0] + 1}" if len(lines) == 1 else f"lines from {min(lines) + 1} to {max(lines) + 1}"
    return f"{which}: the search took more than search.seconds={seconds:g} a line, and {rest} written"


def _batches(lengths: Sequence[int], batch_lines: int, batch_symbols: int, equal: bool = False) -> list[list[int]]:
    """Return the positions of sources, long ones first, in batches limited by lines and by padded symbols.

    With `equal`, the sources of a batch are equally long.
    """
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        last = batches[-1] if batches else None
        if (
            last is None
            or len(last) >= batch_lines
            or (len(last) + 1) * (lengths[last[0]] + 1) > batch_symbols
            or (equal and lengths[last[0]] != lengths[position])
        ):
            batches.append([position])
        else:
            last.append(position)
    return batches


def _length(source: Source) -> int:
    """Return the number of positions; for an ensemble that of the longest of its models' sources."""
    return max((len(row) for row in _each(source)), default=len(source))


def _each(source: Source) -> list[Row]:
    """Return the row of each model of an ensemble; none where it is the row of one model."""
    return [] if isinstance(source, np.ndarray) else [row for row in source if not isinstance(row, int)]


def _padded(sources: Sequence[Source], device: torch.device, ended: bool = True) -> Column:
    """Return padded ids (B, S), if `ended` each with END, or vectors (B, S, F); for an ensemble (B, M, S, …)."""
    rows = [row for source in sources for row in _each(source)]
    if not rows:
        return _column(sources, ended).to(device)
    column = _column(rows, ended)
    values, mask = column.values, column.mask
    shape = (len(sources), len(rows) // len(sources), *mask.shape[1:])
    return Column(values.view(*shape, *values.shape[2:]), mask.view(shape)).to(device)


def _column(rows: Sequence[Any], ended: bool) -> Column:
    if isinstance(rows[0], np.ndarray):
        return Column.of_vectors(rows)
    return Column.of_ids(rows) if ended else Column.of_labels(rows)


def _decode_batch(
    model: Searched,
    source: Column,
    context: Column | None,
    plan: SearchPlan,
    limits: Tensor,
    lines: list[int],
    clock: Clock,
) -> list[list[Hypothesis]]:
    if isinstance(model, Aligner):
        return _decode_frames(model, source, plan, lines, clock)
    model = model if plan.kind == "sample" else joint(model, plan.ctc_weight)
    if plan.kind == "beam":
        ranking = plan.hypotheses, plan.length_penalty, plan.nbest
        return beam(model, source, limits, plan.rules, *ranking, context, clock)
    if plan.kind == "greedy":
        return [[h] for h in one_each(model, source, limits, plan.rules, None, context, clock)]
    sampling = plan.temperature, plan.top_k, plan.top_p
    if plan.nbest > 1:
        random = [np.random.default_rng((plan.seed, line)) for line in lines]
        return distinct(model, source, limits, plan.rules, plan.nbest, random, *sampling, context, clock)
    choose = draws(plan.seed, lines, 0, *sampling)
    return [[h] for h in one_each(model, source, limits, plan.rules, choose, context, clock)]


@torch.inference_mode()
def _decode_frames(
    model: Aligner, source: Column, plan: SearchPlan, lines: list[int], clock: Clock
) -> list[list[Hypothesis]]:
    """Search the frames of a CTC model, each line by itself."""
    scores, mask = model.frames(source)
    log_probs = forbid_blanked(scores, plan.rules.first_symbol).cpu().double()
    results = []
    for row, real in enumerate(mask.cpu()):
        frames = log_probs[row, real]
        if plan.kind == "greedy":
            results.append([ctc.best_path(frames.numpy())])
        elif plan.kind == "beam":
            results.append(ctc.prefix_beam(frames.numpy(), plan.hypotheses, clock))
        else:
            chances = nucleus(torch.log_softmax(frames / plan.temperature, -1), plan.top_k, plan.top_p)
            random = np.random.default_rng((plan.seed, lines[row]))
            results.append(ctc.drawn(frames.numpy(), chances.numpy(), random, plan.nbest))
    return results
