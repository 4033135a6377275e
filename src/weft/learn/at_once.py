"""Outputs that are not text: the search that the kind of the target asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from weft.core.kinds import Hypothesis, Rollout
from weft.data.sides.numbers import Numbers
from weft.data.sides.side import Encoded
from weft.data.sides.sides import Sides
from weft.search.decode import SearchPlan
from weft.search.once import Inputs, Lengths, labels, series

LONGER = 1.5  # times the longest series of the training that a model may go on where it decides when to stop


def search_at_once(
    models: Sequence[Any],
    rows: Sequence[Encoded],
    sides: Sides,
    plan: SearchPlan,
    device: torch.device,
    *,
    lines: Sequence[int] | None = None,
    tick: Callable[[int], None] | None = None,
) -> Sequence[Sequence[Hypothesis | Rollout]]:
    """Return the best outputs of each line, by all models together; `rows` has each model's."""
    inputs = [Inputs(each.source, each.context) for each in rows]
    if not isinstance(sides.target, Numbers):
        return labels(models, inputs, sides.shapes, plan, device, tick)
    numbered = range(len(rows[0].source)) if lines is None else lines
    return series(models, inputs, sides.shapes, plan, device, _lengths(sides.target, rows[0], plan), numbered, tick)


def _lengths(target: Numbers, rows: Encoded, plan: SearchPlan) -> Lengths:
    """Return how many steps to predict: as asked, as the context has, or as the training targets had."""
    count = len(rows.source)
    if plan.length is not None:
        return Lengths([plan.length] * count)
    if target.length == "context" and rows.context is not None:
        return Lengths([len(context) for context in rows.context])
    if target.length == "learned":
        return Lengths([int(LONGER * target.longest)] * count, learned=True)
    return Lengths([target.longest] * count)
