"""Outputs that are not text: the search that the kind of the target asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from weft.core.errors import UserError
from weft.core.kinds import Hypothesis, Rollout
from weft.data.sides.notes import Notes
from weft.data.sides.numbers import Numbers
from weft.data.sides.side import Encoded
from weft.data.sides.sides import Sides
from weft.search.decode import SearchPlan
from weft.search.hidden import hidden_symbols
from weft.search.once import Inputs, Lengths, labels, series
from weft.search.spans import spans

Outputs = Sequence[Sequence[Hypothesis | Rollout]]
Tick = Callable[[int], None] | None
LONGER = 1.5  # times the longest series of the training that a model may go on where it decides when to stop


def search_at_once(
    models: Sequence[Any],
    rows: Sequence[Encoded],
    sides: Sides,
    plan: SearchPlan,
    device: torch.device,
    *,
    lines: Sequence[int] | None = None,
    tick: Tick = None,
) -> Outputs:
    """Return the best outputs of each line, by all models together; `rows` has each model's."""
    if sides.target_kind not in SEARCHES:
        what = "this run finds documents for queries, and has no outputs of its own"
        raise UserError(what, "the run", "use `weft predict RUN --among FILE`")
    numbered = range(len(rows[0].source)) if lines is None else lines
    return SEARCHES[sides.target_kind](models, rows, sides, plan, device, numbered, tick)


def _labels(
    models: Sequence[Any], rows: Sequence[Encoded], sides: Sides, plan: SearchPlan, device: torch.device,
    lines: Sequence[int], tick: Tick,
) -> Outputs:  # fmt: skip
    return labels(models, _inputs(rows), sides.input_shapes, plan, device, tick)


def _spans(
    models: Sequence[Any], rows: Sequence[Encoded], sides: Sides, plan: SearchPlan, device: torch.device,
    lines: Sequence[int], tick: Tick,
) -> Outputs:  # fmt: skip
    return spans(models, _inputs(rows), sides.shapes, plan, device, tick)


def _series(
    models: Sequence[Any], rows: Sequence[Encoded], sides: Sides, plan: SearchPlan, device: torch.device,
    lines: Sequence[int], tick: Tick,
) -> Outputs:  # fmt: skip
    assert isinstance(sides.target, Numbers | Notes)
    lengths = _lengths(sides.target, rows[0], plan, lines)
    return series(models, _inputs(rows), sides.input_shapes, plan, device, lengths, lines, tick, sides.units)


def _hidden(
    models: Sequence[Any], rows: Sequence[Encoded], sides: Sides, plan: SearchPlan, device: torch.device,
    lines: Sequence[int], tick: Tick,
) -> Outputs:  # fmt: skip
    return hidden_symbols(models, _inputs(rows), sides.input_shapes, plan, device, tick)


def _inputs(rows: Sequence[Encoded]) -> list[Inputs]:
    return [Inputs(each.source, each.context) for each in rows]


def _lengths(target: Numbers | Notes, rows: Encoded, plan: SearchPlan, lines: Sequence[int]) -> Lengths:
    """Return how many steps to predict: as asked, as source or context have, or as the training targets had."""
    count = len(rows.source)
    beside = [len(context) for context in rows.context or ()] if target.length == "context" else []
    if plan.length is not None:
        _check_contexts(beside, plan.length, lines)
        return Lengths([plan.length] * count)
    if target.length == "source":
        return Lengths([len(source) for source in rows.source])
    if beside:
        return Lengths(beside)
    if target.length == "learned":
        return Lengths([int(LONGER * target.longest)] * count, learned=True)
    return Lengths([target.longest] * count)


def _check_contexts(steps: Sequence[int], length: int, lines: Sequence[int]) -> None:
    """Refuse to go on where the context of a line is over: the decoder reads one value of it at each step."""
    for line, count in zip(lines, steps):
        if count < length:
            where, todo = f"line {line + 1} of the input", "give a longer context, or ask for fewer steps"
            raise UserError(f"{length:,} steps are asked for, but the context has {count:,}", where, todo)


SEARCHES: dict[str, Callable[..., Outputs]] = {
    "label": _labels,
    "labels": _labels,
    "numbers": _series,
    "notes": _series,
    "span": _spans,
    "hidden": _hidden,
}
