"""Outputs that are not written symbol by symbol: labels, found at once, and numbers, rolled out step by step.

Lines are computed in groups of the same lengths that are always filled up to the same size, so that a result never
depends on the other lines, not even in its last digit.
"""

# N rows of a group · V labels · F features

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core.batching import column_of
from weft.core.kinds import Column, Emission, Hypothesis, Rollout
from weft.core.noise import Noise
from weft.core.pair import SPECIALS
from weft.core.shapes import Shapes, Symbols, Vectors
from weft.search.decode import SearchPlan

GROUP = 64  # lines that are computed together


@dataclass(frozen=True)
class Inputs:
    """The encoded sources and contexts of one model."""

    source: Sequence[Any]
    context: Sequence[Any] | None = None


@dataclass(frozen=True)
class Lengths:
    """How many steps a series of numbers has: those of each line, or until the model stops, at most."""

    each: Sequence[int]
    learned: bool = False


@torch.inference_mode()
def labels(
    models: Sequence[Any], inputs: Sequence[Inputs], shapes: Shapes, plan: SearchPlan, device: torch.device,
    tick: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:  # fmt: skip
    """Return the most probable labels of each line; of labels for each word, the most probable at every word."""
    results: list[list[Hypothesis]] = [[] for _ in inputs[0].source]
    for rows, columns in _groups(inputs, shapes, device):
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
    lengths: Lengths, lines: Sequence[int], tick: Callable[[int], None] | None = None,
) -> list[list[Rollout]]:  # fmt: skip
    """Roll each line out: the mean of what the models predict is read next; `sample` draws instead, nbest times."""
    results: list[list[Rollout]] = [[] for _ in inputs[0].source]
    samples = plan.nbest if plan.kind == "sample" else 1
    for rows, columns in _groups(inputs, shapes, device):
        steps = [lengths.each[row] for row in rows]
        for sample in range(samples):
            noise = _noise(plan, [lines[row] for row in rows], sample) if plan.kind == "sample" else None
            for row, rolled in zip(rows, _rolled(models, columns, shapes, steps, lengths.learned, noise)):
                results[row].append(rolled)
        if tick is not None:
            tick(len(rows))
    return results


def _noise(plan: SearchPlan, lines: Sequence[int], sample: int) -> Noise:
    filled = [lines[min(n, len(lines) - 1)] for n in range(GROUP)]
    return Noise([np.random.default_rng((plan.seed, line, sample)) for line in filled])


def _rolled(
    models: Sequence[Any], columns: Sequence[tuple[Column, Column | None]], shapes: Shapes, steps: Sequence[int],
    learned: bool, noise: Noise | None,
) -> Iterator[Rollout]:  # fmt: skip
    assert isinstance(shapes.target, Vectors)
    states = [model.begin(source, context) for model, (source, context) in zip(models, columns)]
    y = torch.zeros(GROUP, shapes.target.width, device=columns[0][0].device)
    values, scores, stops = [], [], []
    for _ in range(max(steps)):
        emitted = [model.emit(y, state) for model, state in zip(models, states)]
        states = [state for _, state in emitted]
        emission: Emission = emitted[0][0].mean([other for other, _ in emitted[1:]])
        y = (emission.best() if noise is None else emission.draw(noise))[:, 0]
        values.append(y)
        real = torch.ones(GROUP, 1, dtype=torch.bool, device=y.device)
        scores.append(-emission.nll(Column(y[:, None], real))[:, 0])
        stops.append(emission.stops() if learned else None)
        if learned and bool(torch.stack([stop for stop in stops if stop is not None]).any(0)[: len(steps)].all()):
            break
    stacked, each = torch.stack(values, 1).cpu().numpy(), torch.stack(scores, 1).cpu().numpy()
    ended = torch.stack([stop for stop in stops if stop is not None], 1).cpu().numpy() if learned else None
    for row, most in enumerate(steps):
        length = min(most, len(values))
        if ended is not None and ended[row, :length].any():
            length = int(ended[row, :length].argmax()) + 1
        step_scores = tuple(each[row, :length].tolist())
        yield Rollout(stacked[row, :length], step_scores, sum(step_scores))


def _groups(
    inputs: Sequence[Inputs], shapes: Shapes, device: torch.device
) -> Iterator[tuple[list[int], list[tuple[Column, Column | None]]]]:
    """Yield lines whose sources and contexts are equally long, with the columns of each model, filled up to GROUP."""
    by_length: dict[tuple[int, ...], list[int]] = {}
    for row in range(len(inputs[0].source)):
        sides = [side for each in inputs for side in (each.source, each.context) if side is not None]
        by_length.setdefault(tuple(len(side[row]) for side in sides), []).append(row)
    for rows in by_length.values():
        for first in range(0, len(rows), GROUP):
            group = rows[first : first + GROUP]
            filled = [group[min(n, len(group) - 1)] for n in range(GROUP)]
            yield group, [_columns(each, filled, shapes, device) for each in inputs]


def _columns(inputs: Inputs, rows: Sequence[int], shapes: Shapes, device: torch.device) -> tuple[Column, Column | None]:
    source = column_of([inputs.source[row] for row in rows], shapes.source).to(device)
    if inputs.context is None or shapes.context is None:
        return source, None
    return source, column_of([inputs.context[row] for row in rows], shapes.context).to(device)
