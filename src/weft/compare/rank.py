"""The ranked table: each variant's mean over its seeds, with an interval, and whether the first is ahead by chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from weft.compare.plan import Combination, ComparisonPlan
from weft.compare.results import ComparisonFolder, Result, read_outputs
from weft.compare.variants import short_key, value_text
from weft.core.errors import WeftError
from weft.data.prepare import counted
from weft.runs.report import clock
from weft.score.metrics import metric_named
from weft.score.significance import Array
from weft.score.standings import standings

CHANCE = 0.05  # a difference with a greater p may be chance
STARS = ((0.001, "***"), (0.01, "**"), (CHANCE, "*"))
EXPLANATION = (
    "The 95 % interval comes from a bootstrap over validation pairs and seeds. Stars mark what is significantly worse "
    "than the first (paired bootstrap, corrected for the number of comparisons): * p < 0.05, ** p < 0.01, *** p < "
    "0.001. tied: not significantly different from the first. best: significantly better than every other."
)


@dataclass(frozen=True)
class Row:
    """One variant in the ranked table; one without results has a `reason`.

    `p` is that of being as good as the first. `best` is significantly better than every other; where there is no such
    variant, the first and those that are not significantly different from it are `tied`.
    """

    combination: Combination
    seeds: int
    score: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    best: bool = False
    tied: bool = False
    parameters: int = 0
    tokens_per_second: float = 0.0
    seconds: float = 0.0
    reason: str = ""
    results: tuple[Result, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        return self.combination.name

    @property
    def label(self) -> str:
        return self.combination.label

    @property
    def mark(self) -> str:
        """Return `best`, `tied`, or the stars of a variant that is worse than the first."""
        if self.best or self.tied:
            return "best" if self.best else "tied"
        return next((stars for limit, stars in STARS if self.p is not None and self.p < limit), "")


def rank(plan: ComparisonPlan, results: Sequence[Result], folder: ComparisonFolder) -> list[Row]:
    """Return the variants that have results, best first, then those that have none; raise if no run worked."""
    done = {c.name: [r for r in results if r.cell == c.name and r.done] for c in plan.combinations}
    scored = sorted((c for c in plan.combinations if done[c.name]), key=lambda c: _mean_loss(done[c.name]))
    if not scored:
        reason = next((r.reason for r in results), "nothing was run")
        todo = "fix the problem that the message names, then run the command again"
        raise WeftError(f"every run of the comparison failed: {reason}", str(folder.path), todo)
    metric = metric_named(plan.metric)
    standing = standings([[_line_statistics(result, folder) for result in done[c.name]] for c in scored], metric)
    first, *others = sorted(range(len(scored)), key=lambda i: (metric.rank(standing[i].mean), i))
    tied = [i for i in others if standing[i].p >= CHANCE]
    rows = []
    for i in (first, *others):
        runs = done[scored[i].name]
        row = Row(
            scored[i],
            seeds=len(runs),
            score=standing[i].mean,
            low=standing[i].low,
            high=standing[i].high,
            p=None if i == first else standing[i].p,
            best=i == first and bool(others) and not tied,
            tied=bool(tied) and i in (first, *tied),
            parameters=runs[0].parameters,
            tokens_per_second=fmean(r.tokens_per_second for r in runs),
            seconds=fmean(r.seconds for r in runs),
            reason=_failure(scored[i], results),
            results=tuple(runs),
        )
        rows.append(row)
    return rows + [Row(c, 0, reason=_failure(c, results)) for c in plan.combinations if not done[c.name]]


def _line_statistics(result: Result, folder: ComparisonFolder) -> Array:
    """Return what each validation pair (or block of pairs) of a run adds to the metric."""
    if result.valid is not None and result.valid.blocks:
        return np.array(result.valid.blocks)
    return metric_named(result.metric).numbers(*read_outputs(folder.run(result.cell, result.seed)))


def _mean_loss(results: Sequence[Result]) -> float:
    """Return what orders variants of the same score."""
    losses = [result.valid.metrics["loss"] for result in results if result.valid is not None]
    return fmean(math.inf if loss is None else loss for loss in losses)


def _failure(combination: Combination, results: Sequence[Result]) -> str:
    """Return why a variant has fewer results than others, if it has."""
    if combination.refused:
        return f"impossible: {combination.refused}"
    failed = [r for r in results if r.cell == combination.name and not r.done]
    return f"{counted(len(failed), 'run')} failed: {failed[-1].reason}" if failed else ""


def summary(plan: ComparisonPlan, rows: Sequence[Row]) -> str:
    """Return the outcome in one sentence, in Markdown: the best variant, or those that are tied."""
    metric = metric_named(plan.metric)
    leaders = {row.label: metric.show(row.score or 0.0) for row in rows if row.best or row.tied}
    if not leaders:
        return f"Only **{rows[0].label}** has results: {metric.name} {metric.show(rows[0].score or 0.0)}."
    label, score = next(iter(leaders.items()))
    if len(leaders) == 1:
        return f"Best: **{label}**, {metric.name} {score}."
    if len(set(leaders.values())) == 1:
        return (
            f"There is no clear best: {', '.join(f'**{label}**' for label in leaders)} all have {metric.name} {score}."
        )
    names = ", ".join(f"**{label}** ({score})" for label, score in leaders.items())
    return f"There is no clear best: the differences in {metric.name} between these are not significant: {names}."


def table(plan: ComparisonPlan, rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and cells of the ranked table, as text."""
    keys = list(plan.vary)
    widths = sorted({width for row in rows for width in row.combination.widths})
    figures = [plan.metric, "95 %", "", "parameters", "tokens/s", "time", "seeds"]
    notes = any(row.reason for row in rows)
    lines = []
    for number, row in enumerate(rows, 1):
        matched = (str(row.combination.widths.get(key, "")) for key in widths)
        position = "✗" if row.score is None else str(number)
        lines.append(
            [position, *_varied_values(row, keys), *matched, *_figures(row, plan.metric), *([row.reason] * notes)]
        )
    return ["", *variant_headings(plan), *widths, *figures, *(["note"] * notes)], lines


def variant_headings(plan: ComparisonPlan) -> list[str]:
    """Return the varied keys, as short as they can be."""
    return [short_key(key, list(plan.vary)) for key in plan.vary] or ["variant"]


def _varied_values(row: Row, keys: Sequence[str]) -> list[str]:
    return [value_text(row.combination.variant.settings[key]) for key in keys] or [row.label]


def _figures(row: Row, metric: str) -> list[str]:
    if row.score is None:
        return ["—", "", "", "", "", "", "0"]
    score, low, high = (metric_named(metric).show(value or 0.0) for value in (row.score, row.low, row.high))
    return [
        score,
        f"{low} – {high}",
        row.mark,
        f"{row.parameters:,}",
        f"{row.tokens_per_second:,.0f}",
        clock(row.seconds),
        str(row.seeds),
    ]
