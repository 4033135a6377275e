"""The ranked table: each cell's mean over its seeds, with an interval, and whether the best is better by chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from weft.compare.plan import Cell, Plan
from weft.compare.results import GridFolder, Result, read_outputs
from weft.compare.variants import short_key, text_of
from weft.core.errors import WeftError
from weft.data.prepare import counted
from weft.runs.report import clock
from weft.score.metrics import table_of
from weft.score.significance import Array
from weft.score.standings import standings

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
HOW = (
    "The interval (95 %) is a bootstrap over validation pairs and seeds. Stars: worse than the best by more than "
    "chance (paired bootstrap, corrected for the number of comparisons): * p < 0.05, ** p < 0.01, *** p < 0.001."
)


@dataclass(frozen=True)
class Row:
    """A cell in the ranked table. `p` is that of being as good as the best; a cell without results has a `reason`."""

    cell: Cell
    seeds: int
    score: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    best: bool = False
    parameters: int = 0
    tokens_per_second: float = 0.0
    seconds: float = 0.0
    reason: str = ""
    results: tuple[Result, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        return self.cell.name

    @property
    def mark(self) -> str:
        """`best`, stars, or nothing where the difference may be chance."""
        if self.best:
            return "best"
        return next((stars for limit, stars in STARS if self.p is not None and self.p < limit), "")


def ranked(plan: Plan, results: Sequence[Result], folder: GridFolder) -> list[Row]:
    """The cells that have results, best first, then those that have none. At least one must have."""
    done = {cell.name: [r for r in results if r.cell == cell.name and r.done] for cell in plan.cells}
    scored = sorted((cell for cell in plan.cells if done[cell.name]), key=lambda cell: _loss(done[cell.name]))
    if not scored:
        reason = next((r.reason for r in results), "nothing was run")
        raise WeftError(
            f"no run of the comparison worked: {reason}", str(folder.path), "change what it says, then again"
        )
    metric = table_of()[plan.metric]
    found = standings([[_numbers_of(result, folder) for result in done[cell.name]] for cell in scored], metric)
    order = sorted(range(len(scored)), key=lambda i: (metric.rank(found[i].mean), i))
    rows = []
    for place in order:
        cell, at, of = scored[place], found[place], done[scored[place].name]
        best = place == order[0]
        p = None if best else at.p
        numbers = of[0].parameters, fmean(r.tokens_per_second for r in of), fmean(r.seconds for r in of)
        reason = _failure(cell, results)
        rows.append(Row(cell, len(of), at.mean, at.low, at.high, p, best, *numbers, reason, tuple(of)))
    return rows + [Row(cell, 0, reason=_failure(cell, results)) for cell in plan.cells if not done[cell.name]]


def _numbers_of(result: Result, folder: GridFolder) -> Array:
    """What each validation pair (or block of pairs) of a run adds to the metric."""
    if result.valid is not None and result.valid.blocks:
        return np.array(result.valid.blocks)
    outputs, targets = read_outputs(folder.run(result.cell, result.seed))
    return table_of()[result.metric].numbers(outputs, [[target] for target in targets])


def _loss(results: Sequence[Result]) -> float:
    """What orders cells of the same score."""
    losses = [result.valid.metrics["loss"] for result in results if result.valid is not None]
    return fmean(math.inf if loss is None else loss for loss in losses)


def _failure(cell: Cell, results: Sequence[Result]) -> str:
    """Why a cell has fewer results than others, if it has."""
    if cell.refused:
        return f"impossible: {cell.refused}"
    failed = [r for r in results if r.cell == cell.name and not r.done]
    return f"{counted(len(failed), 'run')} failed: {failed[-1].reason}" if failed else ""


def table(plan: Plan, rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of the ranked table, as text."""
    keys = list(plan.vary)
    extra = sorted({width for row in rows for width in row.cell.widths})
    heads = ["", *what_heads(plan), *extra, plan.metric, "95 %", "", "parameters", "tokens/s", "time", "seeds"]
    notes = any(row.reason for row in rows)
    made = [
        [str(place), *_what(row, keys), *(_width(row, key) for key in extra), *_numbers(row), *([row.reason] * notes)]
        for place, row in enumerate(rows, 1)
    ]
    for texts, row in zip(made, rows):
        if row.score is None:
            texts[0] = "✗"
    return heads + ["note"] * notes, made


def what_heads(plan: Plan) -> list[str]:
    """The varied keys, as short as they can be."""
    return [short_key(key, list(plan.vary)) for key in plan.vary] or ["variant"]


def _what(row: Row, keys: Sequence[str]) -> list[str]:
    variant = row.cell.variant
    return [text_of(variant.settings[key]) for key in keys] or [variant.label]


def _width(row: Row, key: str) -> str:
    value: Any = row.cell.widths.get(key)
    return "" if value is None else str(value)


def _numbers(row: Row) -> list[str]:
    if row.score is None:
        return ["—", "", "", "", "", "", "0"]
    return [
        f"{row.score:.2f}",
        f"{row.low:.2f} – {row.high:.2f}",
        row.mark,
        f"{row.parameters:,}",
        f"{row.tokens_per_second:,.0f}",
        clock(row.seconds),
        str(row.seeds),
    ]
