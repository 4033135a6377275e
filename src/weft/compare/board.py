"""Where a comparison stands while it runs: which runs have ended, which is going on, and how long the rest may take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.compare.plan import Cell, Plan
from weft.compare.results import Result
from weft.data.prepare import counted
from weft.runs.report import clock, describe
from weft.score.metrics import table_of

if TYPE_CHECKING:
    from rich.table import Table

AROUND = 8  # lines of a terminal that are not rows of the table
Row = tuple[str, str, str, str]  # name, seeds, score, what it is doing


class Board:
    def __init__(self, plan: Plan, done: Sequence[Result]) -> None:
        self.plan = plan
        self.results = {(result.cell, result.seed): result for result in done}
        self.current: tuple[Cell, int] | None = None
        self.doing = ""
        self._best = ""
        self._took: list[float] = []
        self._began = time.monotonic()
        self._runs = sum(1 for _ in plan.runs)

    def headline(self) -> str:
        """`4 cells × 2 seeds = 8 runs of 5m each, about 40m in all; 3 are done`"""
        cells = sum(not cell.refused for cell in self.plan.cells)
        seconds, left = self.plan.budget_seconds, self._runs - len(self.results)
        each = f" of {clock(seconds)} each, about {clock(seconds * left)} in all" if seconds else ""
        count = len(self.results)
        done = f"; {count} {'is' if count == 1 else 'are'} done" if count else ""
        seeds = len(self.plan.seeds)
        return f"{counted(cells, 'cell')} × {counted(seeds, 'seed')} = {counted(self._runs, 'run')}{each}{done}"

    def begin(self, cell: Cell, seed: int) -> None:
        self.current, self.doing, self._best, self._began = (cell, seed), "starting", "", time.monotonic()

    def go(self, line: dict[str, Any]) -> None:
        if line["kind"] == "evaluation":
            self._best = f" · best {line['metric']} {line['best_score']:.2f}"
        else:
            self.doing = describe(line)

    def end(self, result: Result) -> None:
        self._took.append(time.monotonic() - self._began)
        self.results[result.cell, result.seed] = result
        self.current = None

    def place(self) -> str:
        """`run 3 of 8 · about 12m left`"""
        left = self._runs - len(self.results)
        each = sum(self._took) / len(self._took) if self._took else self.plan.budget_seconds
        about = f" · about {clock(left * each)} left" if each else ""
        return f"run {min(self._runs, len(self.results) + 1)} of {self._runs}{about}"

    def rows(self) -> list[Row]:
        """The cells that have a score by their rank, then the others in their order."""
        scored = [(self._mean(cell), place, cell) for place, cell in enumerate(self.plan.cells)]
        metric = table_of()[self.plan.metric]
        ordered = sorted(scored, key=lambda row: (row[0] is None, metric.rank(row[0] or 0.0), row[1]))
        return [self._row(cell, mean) for mean, _, cell in ordered]

    def _of(self, cell: Cell) -> list[Result]:
        return [self.results[key] for seed in self.plan.seeds if (key := (cell.name, seed)) in self.results]

    def _mean(self, cell: Cell) -> float | None:
        scores = [result.score for result in self._of(cell) if result.score is not None]
        return sum(scores) / len(scores) if scores else None

    def _row(self, cell: Cell, mean: float | None) -> Row:
        ended = self._of(cell)
        seeds = "" if cell.refused else f"{len(ended)}/{len(self.plan.seeds)}"
        return cell.variant.label, seeds, "" if mean is None else f"{mean:.2f}", self._state(cell, ended)

    def _state(self, cell: Cell, ended: list[Result]) -> str:
        if cell.refused:
            return f"impossible: {cell.refused}"
        if self.current is not None and self.current[0].name == cell.name:
            return f"seed {self.current[1]}: {self.doing}{self._best}"
        failed = [result.reason for result in ended if not result.done]
        if failed:
            return f"failed: {failed[-1]}"
        return "done" if len(ended) == len(self.plan.seeds) else "waiting"

    def table(self, height: int, doing: str = "") -> Table:
        """The rows that fit, as a table of rich's."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        made = Table(box=box.SIMPLE_HEAD, caption=doing or self.place(), caption_justify="left")
        rows, most = self.rows(), max(3, height - AROUND)
        for place, name in enumerate(("", "seeds", self.plan.metric, "")):
            least = max(len(name), *(len(row[place]) for row in rows)) if place < 3 else None  # the last one gives way
            made.add_column(name, justify="right" if name else "left", no_wrap=True, min_width=least)
        for row in _fitting(rows, most):
            made.add_row(*(Text(text, style=_style(row)) for text in row))
        if len(rows) > most:
            made.add_row(Text(f"… and {len(rows) - most} more", style="dim"))
        return made


def _fitting(rows: list[Row], most: int) -> list[Row]:
    """The first rows, the one that is going on always among them."""
    going = [row for row in rows[most:] if row[3].startswith("seed ")]
    return [*rows[: most - 1], *going] if going else rows[:most]


def _style(row: Row) -> str:
    if row[3].startswith("seed "):
        return "bold"
    return "red" if row[3].startswith(("failed", "impossible")) else "dim" if row[3] == "waiting" else ""
