"""Outputs that are not written symbol by symbol: labels, found at once; numbers and notes, rolled out step by step.

Lines are computed in groups of the same lengths that are always filled up to the same size, so that a result never
depends on the other lines, not even in its last digit. Long series are padded to one of a few lengths, which depends on
their own alone: they would seldom have another of the same length.
"""

# N rows of a group · V labels · F features or notes

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from weft.core.batching import column_of
from weft.core.kinds import Column, Emission, Hypothesis, Rollout
from weft.core.noise import Noise
from weft.core.pair import SPECIALS
from weft.core.shapes import Notes, Shape, Shapes, Symbols, Vectors
from weft.search.clock import Clock
from weft.search.decode import SearchPlan, cut_short

GROUP = 64  # lines that are computed together
SMALL_GROUP = 16  # long series that are
SHORT = 16  # positions up to which a series is not long
LONG = 128  # tokens from which on a text is computed alone: few texts are of the same length


@dataclass(frozen=True)
class Inputs:
    """The encoded sources and contexts of one model."""

    source: Sequence[Any]
    context: Sequence[Any] | None = None


@dataclass(frozen=True)
class Lengths:
    """How many steps a series has: those of each line, or until the model stops, at most."""

    each: Sequence[int]
    learned: bool = False


@torch.inference_mode()
def labels(
    models: Sequence[Any], inputs: Sequence[Inputs], shapes: Shapes, plan: SearchPlan, device: torch.device,
    tick: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:  # fmt: skip
    """Return the most probable labels of each line; of labels for each word, the most probable at every word."""
    results: list[list[Hypothesis]] = [[] for _ in inputs[0].source]
    for rows, columns in text_groups(inputs, shapes, device):
        emissions = [model.label(source, context) for model, (source, context) in zip(models, columns)]
        log_probs = torch.log_softmax(emissions[0].mean(emissions[1:]).written().float(), dim=-1)  # (N, T, V)
        for row, scores in zip(rows, log_probs):
            results[row] = (
                _in_step(scores, inputs[0].source[row]) if _is_in_step(shapes) else _ranked(scores, plan.nbest)
            )
        if tick is not None:
            tick(len(rows))
    return results


def _is_in_step(shapes: Shapes) -> bool:
    return isinstance(shapes.target, Symbols) and shapes.target.in_step


def _ranked(log_probs: Tensor, nbest: int) -> list[Hypothesis]:
    """Return the best labels of one line (1, V)."""
    scores, ids = log_probs[0].topk(min(nbest, log_probs.shape[-1] - len(SPECIALS)))
    return [Hypothesis((i,), (s,), s) for i, s in zip(ids.tolist(), scores.tolist())]


def _in_step(log_probs: Tensor, source: Sequence[int]) -> list[Hypothesis]:
    """Return the best label of each word of one line (S, V)."""
    scores, ids = log_probs[: len(source)].max(-1)
    each = tuple(scores.tolist())
    return [Hypothesis(tuple(ids.tolist()), each, sum(each))]


@torch.inference_mode()
def series(
    models: Sequence[Any], inputs: Sequence[Inputs], shapes: Shapes, plan: SearchPlan, device: torch.device,
    lengths: Lengths, lines: Sequence[int], tick: Callable[[int], None] | None = None, units: Sequence[float] = (),
) -> list[list[Rollout]]:  # fmt: skip
    """Roll each line out: the mean of what the models predict is read next; `sample` draws instead, nbest times.

    Log-probabilities are those of numbers in `units`, by feature (of encoded numbers, if there are none).
    Sources that the outputs continue are never padded: the decoder reads them.
    """
    results: list[list[Rollout]] = [[] for _ in inputs[0].source]
    samples = plan.nbest if plan.kind == "sample" else 1
    for rows, columns in groups(inputs, shapes, device, _exactly if plan.continues else _room, SMALL_GROUP):
        steps, clock = [lengths.each[row] for row in rows], Clock(plan.seconds * len(rows))
        for sample in range(samples):
            filled = _filled([lines[row] for row in rows], columns[0][0].size)
            noise = _noise(plan, filled, sample) if plan.kind == "sample" else None
            for row, rolled in zip(rows, _rolled(models, columns, shapes, steps, lengths.learned, noise, clock, units)):
                results[row].append(rolled)
        if clock.rang:
            warnings.warn(cut_short([lines[row] for row in rows], plan.seconds, "the steps so far are"), stacklevel=2)
        if tick is not None:
            tick(len(rows))
    return results


def _noise(plan: SearchPlan, lines: Sequence[int], sample: int) -> Noise:
    return Noise([np.random.default_rng((plan.seed, line, sample)) for line in lines], plan.temperature)


def _rolled(
    models: Sequence[Any], columns: Sequence[tuple[Column, Column | None]], shapes: Shapes, steps: Sequence[int],
    learned: bool, noise: Noise | None, clock: Clock, units: Sequence[float],
) -> Iterator[Rollout]:  # fmt: skip
    assert isinstance(shapes.target, Vectors | Notes)
    states = [model.begin(source, context) for model, (source, context) in zip(models, columns)]
    size = columns[0][0].size
    y = torch.zeros(size, shapes.target.width, device=columns[0][0].device)
    unit = torch.tensor(units or 1.0, device=y.device)
    values, scores, ends = [], [], torch.full((size,), max(steps), device=y.device)
    for step in range(1, max(steps) + 1):
        emitted = [model.emit(y, state) for model, state in zip(models, states)]
        states = [state for _, state in emitted]
        emission: Emission = emitted[0][0].mean([other for other, _ in emitted[1:]])
        y = (emission.best() if noise is None else emission.draw(noise))[:, 0]
        values.append(y)
        real = torch.ones(size, 1, dtype=torch.bool, device=y.device)
        scores.append(0.0 - (emission.scaled(unit) if units else emission).nll(Column((y * unit)[:, None], real))[:, 0])
        if learned:
            ends = torch.where(emission.stops(), ends.clamp(max=step), ends)
        if bool((ends[: len(steps)] <= step).all()) or clock.is_over():
            break
    stacked, each = torch.stack(values, 1).cpu().numpy(), torch.stack(scores, 1).cpu().numpy()
    for row, (most, end) in enumerate(zip(steps, ends.tolist())):
        length = min(most, end, len(values))
        step_scores = tuple(each[row, :length].tolist())
        yield Rollout(stacked[row, :length], step_scores, sum(step_scores))


def _exactly(length: int) -> int:
    return length


def _room(length: int) -> int:
    """Return the length that a series is padded to: at most a quarter more than its own."""
    if length <= SHORT:
        return length
    step = 1 << (length - 1).bit_length() - 3
    return -(-length // step) * step


def _filled(rows: Sequence[int], size: int) -> list[int]:
    """Return the rows, and the last again and again."""
    return [rows[min(n, len(rows) - 1)] for n in range(size)]


def text_groups(
    inputs: Sequence[Inputs], shapes: Shapes, device: torch.device
) -> Iterator[tuple[list[int], list[tuple[Column, Column | None]]]]:
    """Yield groups of texts; one of more than LONG tokens is alone."""
    return groups(inputs, shapes, device, long_group=1, short=LONG)


def groups(
    inputs: Sequence[Inputs],
    shapes: Shapes,
    device: torch.device,
    room: Callable[[int], int] = _exactly,
    long_group: int = GROUP,
    short: int = SHORT,
) -> Iterator[tuple[list[int], list[tuple[Column, Column | None]]]]:
    """Yield lines whose sources and contexts have the same room, with the columns of each model.

    The group is filled up to GROUP lines, or to `long_group` where a line has more than `short` positions.
    """
    by_length: dict[tuple[int, ...], list[int]] = {}
    sides = [side for each in inputs for side in (each.source, each.context) if side is not None]
    for row in range(len(inputs[0].source)):
        by_length.setdefault(tuple(room(len(side[row])) for side in sides), []).append(row)
    for lengths, rows in by_length.items():
        size = long_group if max(lengths) > short else GROUP
        for first in range(0, len(rows), size):
            group = rows[first : first + size]
            yield group, [_columns(each, _filled(group, size), shapes, device, room) for each in inputs]


def _columns(
    inputs: Inputs, rows: Sequence[int], shapes: Shapes, device: torch.device, room: Callable[[int], int]
) -> tuple[Column, Column | None]:
    source = _padded([inputs.source[row] for row in rows], shapes.source, room).to(device)
    if inputs.context is None or shapes.context is None:
        return source, None
    return source, _padded([inputs.context[row] for row in rows], shapes.context, room).to(device)


def _padded(rows: Sequence[Any], shape: Shape, room: Callable[[int], int]) -> Column:
    column, longest = column_of(rows, shape), max(map(len, rows))
    missing = room(longest) - longest
    if not missing:
        return column
    values = pad(column.values, (0, 0) * (column.values.dim() - 2) + (0, missing))
    return Column(values, pad(column.mask, (0, missing)))
