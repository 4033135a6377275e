"""Report a comparison by the display that `weft train` has: a line before and after each run, its progress between."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from weft.compare.plan import Combination, ComparisonPlan
from weft.compare.results import Result
from weft.core.reporting import Example
from weft.data.prepare import counted
from weft.runs.report import Display, clock
from weft.score.metrics import metric_named


class ComparisonReporter:
    """Shows the runs of a comparison one after the other; to each of them it is an ordinary `Reporter`.

    A note is shown once; the autopilot's choices, which all runs share, are not shown again.
    """

    def __init__(self, display: Display, plan: ComparisonPlan, done: Sequence[Result]) -> None:
        self._display, self._plan = display, plan
        self._results = {(result.cell, result.seed): result for result in done}
        self._shown_notes: set[str] = set()
        self._run_seconds: list[float] = []
        self._began = time.monotonic()

    # what a run calls

    def note(self, text: str) -> None:
        if text not in self._shown_notes and not text.startswith("chose "):
            self._shown_notes.add(text)
            self._display.note(text)

    def stage(self, doing: str, rows: int, share: float) -> None:
        self._display.stage(doing, rows, share)

    def report(self, line: dict[str, Any]) -> None:
        self._display.report(line)

    def evaluation(self, line: dict[str, Any], examples: list[Example]) -> None:
        self._display.evaluation(line, examples)

    def close(self) -> None:
        """Leave the display open for the next run."""

    # what the comparison calls

    def start(self) -> None:
        """Show how many runs there are, and which variants are impossible."""
        self._display.say(self._headline())
        for combination in self._plan.combinations:
            if combination.refused:
                self._display.say(f"impossible: {combination.label}: {combination.refused}")

    def begin(self, combination: Combination, seed: int) -> None:
        self._began = time.monotonic()
        self._display.begin(f"{self._position()}: {combination.label}, seed {seed}")

    def end(self, result: Result) -> None:
        self._run_seconds.append(time.monotonic() - self._began)
        self._results[result.cell, result.seed] = result
        if not result.done:
            self._display.say(f"  failed: {result.reason}")
            return
        score = metric_named(result.metric).show(result.score or 0.0)
        speed = f"{result.tokens_per_second:,.0f} tokens/s, {result.parameters:,} parameters"
        self._display.say(f"  {result.metric} {score}, {clock(result.seconds)}, {speed}{self._leader()}")

    def _headline(self) -> str:
        """`4 combinations × 2 seeds = 8 runs of 5m each, about 40m in all; 3 are done`"""
        runs, done, seconds = self._plan.run_count, len(self._results), self._plan.budget_seconds
        each = f" of {clock(seconds)} each, about {clock(seconds * (runs - done))} in all" if seconds else ""
        before = f"; {done} {'is' if done == 1 else 'are'} done" if done else ""
        return f"{self._plan.size} × {counted(len(self._plan.seeds), 'seed')} = {counted(runs, 'run')}{each}{before}"

    def _position(self) -> str:
        """`run 3 of 8 · about 12m left`"""
        runs, done = self._plan.run_count, len(self._results)
        each = fmean(self._run_seconds) if self._run_seconds else self._plan.budget_seconds
        left = f" · about {clock((runs - done) * each)} left" if each else ""
        return f"run {min(runs, done + 1)} of {runs}{left}"

    def _leader(self) -> str:
        """Return ` · leading so far: gru 46.44`, or nothing while there is one variant or several are equal."""
        scores: dict[str, list[float]] = {}
        for result in self._results.values():
            if result.score is not None:
                scores.setdefault(result.cell, []).append(result.score)
        means = {name: fmean(values) for name, values in scores.items()}
        metric = metric_named(self._plan.metric)
        best = min(means.values(), key=metric.rank)
        leaders = [c.label for c in self._plan.combinations if means.get(c.name) == best]
        return f" · leading so far: {leaders[0]} {metric.show(best)}" if len(means) > 1 and len(leaders) == 1 else ""
