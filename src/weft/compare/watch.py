"""Telling people how a comparison goes: nothing, plain lines, or a live table on a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Protocol, TextIO

from weft.compare.board import Board
from weft.compare.plan import Cell, Plan
from weft.compare.results import Result
from weft.core.reporting import Example
from weft.runs.report import clock

SECONDS_BETWEEN_LINES = 10.0


class Watcher(Protocol):
    def note(self, text: str) -> None:
        """Something the user should know."""
        ...

    def stage(self, doing: str, rows: int, share: float) -> None:
        """What is done besides training."""
        ...

    def planned(self, plan: Plan, done: Sequence[Result]) -> None:
        """The runs begin; some may have ended before."""
        ...

    def began(self, cell: Cell, seed: int) -> None: ...

    def going(self, line: dict[str, Any]) -> None:
        """A report or an evaluation of the run."""
        ...

    def ended(self, result: Result) -> None: ...

    def close(self) -> None: ...


class QuietWatcher:
    """Says nothing."""

    def note(self, text: str) -> None: ...

    def stage(self, doing: str, rows: int, share: float) -> None: ...

    def planned(self, plan: Plan, done: Sequence[Result]) -> None: ...

    def began(self, cell: Cell, seed: int) -> None: ...

    def going(self, line: dict[str, Any]) -> None: ...

    def ended(self, result: Result) -> None: ...

    def close(self) -> None: ...


class PlainWatcher(QuietWatcher):
    """One line where something happens, for files and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._board: Board | None = None
        self._said = 0.0

    def _say(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def note(self, text: str) -> None:
        self._say(f"note: {text}")

    def planned(self, plan: Plan, done: Sequence[Result]) -> None:
        self._board = Board(plan, done)
        self._say(self._board.headline())
        for cell in plan.cells:
            if cell.refused:
                self._say(f"impossible: {cell.variant.label}: {cell.refused}")

    def began(self, cell: Cell, seed: int) -> None:
        assert self._board is not None
        self._board.begin(cell, seed)
        self._said = time.monotonic()
        self._say(f"{self._board.place()}: {cell.variant.label}, seed {seed}")

    def going(self, line: dict[str, Any]) -> None:
        assert self._board is not None
        self._board.go(line)
        if time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            self._say(f"  {self._board.doing}")

    def ended(self, result: Result) -> None:
        assert self._board is not None
        self._board.end(result)
        if result.done:
            numbers = f"{result.metric} {result.score:.2f}, {clock(result.seconds)}"
            self._say(f"  {numbers}, {result.tokens_per_second:,.0f} tokens/s, {result.parameters:,} parameters")
        else:
            self._say(f"  failed: {result.reason}")


class LiveWatcher:
    """A table that follows every cell, on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, transient=True, auto_refresh=False)
        self._live.start()
        self._board: Board | None = None
        self._doing, self._drawn = "", 0.0

    def _draw(self, at_once: bool = False) -> None:
        if not at_once and time.monotonic() - self._drawn < 0.2:
            return
        self._drawn = time.monotonic()
        shown = self._doing if self._board is None else self._board.table(self._console.height, self._doing)
        self._live.update(shown, refresh=True)

    def note(self, text: str) -> None:
        from rich.markup import escape

        self._console.print(f"[yellow]note:[/] {escape(text)}")

    def stage(self, doing: str, rows: int, share: float) -> None:
        self._doing = f"{doing}: {rows:,} rows" if share < 1 else ""
        self._draw()

    def planned(self, plan: Plan, done: Sequence[Result]) -> None:
        self._board, self._doing = Board(plan, done), ""
        self._console.print(self._board.headline(), markup=False)
        self._draw(at_once=True)

    def began(self, cell: Cell, seed: int) -> None:
        assert self._board is not None
        self._board.begin(cell, seed)
        self._draw(at_once=True)

    def going(self, line: dict[str, Any]) -> None:
        assert self._board is not None
        self._board.go(line)
        self._doing = ""
        self._draw()

    def ended(self, result: Result) -> None:
        assert self._board is not None
        self._board.end(result)
        self._doing = ""
        self._draw(at_once=True)

    def close(self) -> None:
        self._live.stop()


def watcher() -> Watcher:
    """A live table on a terminal, plain lines elsewhere."""
    return LiveWatcher() if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else PlainWatcher()


class RunReporter:
    """What the runs say, handed on: a note once, and of the choices, which all share, nothing."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher, self._told = watcher, set[str]()

    def note(self, text: str) -> None:
        if text not in self._told and not text.startswith("chose "):
            self._told.add(text)
            self._watcher.note(text)

    def stage(self, doing: str, rows: int, share: float) -> None:
        self._watcher.stage(doing, rows, share)

    def report(self, line: dict[str, Any]) -> None:
        self._watcher.going(line)

    def evaluation(self, line: dict[str, Any], examples: list[Example]) -> None:
        self._watcher.going(line)

    def close(self) -> None: ...
