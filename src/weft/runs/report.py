"""Reporters: nothing, plain lines, or a live bar."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Protocol, TextIO

from weft.core.reporting import Example, Reporter
from weft.score.metrics import table_for

SECONDS_BETWEEN_LINES, SECONDS_BETWEEN_BRIEF_LINES = 2.0, 10.0


class Display(Reporter, Protocol):
    """A reporter that can show several runs, one after the other."""

    def begin(self, title: str) -> None:
        """Show a title; the reports that follow belong to another run."""
        ...

    def say(self, text: str) -> None:
        """Show a line of text."""
        ...


class Quiet:
    """Reports nothing."""

    def begin(self, title: str) -> None: ...

    def say(self, text: str) -> None: ...

    def note(self, text: str) -> None: ...

    def stage(self, doing: str, rows: int, share: float) -> None: ...

    def report(self, line: dict[str, Any]) -> None: ...

    def evaluation(self, line: dict[str, Any], examples: list[Example]) -> None: ...

    def close(self) -> None: ...


class _Best:
    """The best score so far of the model that is told of: when steps are counted from the start, that is another."""

    def __init__(self) -> None:
        self._score: float | None = None
        self._step, self._text = 0, ""

    def report(self, line: dict[str, Any]) -> str:
        """A report, with the best score at its end."""
        self._at(line["step"])
        return f"{describe(line)}{self._text}"

    def evaluation(self, line: dict[str, Any]) -> str:
        """An evaluation, with a mark if it is kept as the best; of equal scores the lower loss is."""
        self._at(line["step"])
        how = f" (equal {line['metric']}, lower loss)" if line["best_score"] == self._score else ""
        self._score = line["best_score"]
        self._text = f" · best {line['metric']} {line['best_score']:.2f}"
        return f"{describe_evaluation(line)}{f'  ← best so far{how}' if line['best'] else ''}"

    def _at(self, step: int) -> None:
        if step < self._step:
            self._score, self._text = None, ""
        self._step = step


class Plain:
    """Prints one line per report, for files and pipes; `brief` prints fewer of them and no evaluations."""

    def __init__(self, stream: TextIO | None = None, brief: bool = False) -> None:
        self._stream, self._brief, self._best = stream or sys.stderr, brief, _Best()
        self._seconds_between = SECONDS_BETWEEN_BRIEF_LINES if brief else SECONDS_BETWEEN_LINES
        self._doing, self._tenths, self._last_report = "", -1, 0.0

    def begin(self, title: str) -> None:
        self._best, self._last_report = _Best(), time.monotonic()
        self.say(title)

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def note(self, text: str) -> None:
        self.say(f"note: {text}")

    def stage(self, doing: str, rows: int, share: float) -> None:
        """At every tenth, and nothing for what is over at once."""
        tenths = int(share * 10)
        if doing != self._doing:
            self._doing, self._tenths = doing, -1
        if tenths > self._tenths and rows > 100_000:
            self._tenths = tenths
            self.say(f"{doing}: {rows:,} rows, {share:.0%}")

    def report(self, line: dict[str, Any]) -> None:
        """Not more often than people read."""
        if time.monotonic() - self._last_report >= self._seconds_between:
            self._last_report = time.monotonic()
            self.say(f"{'  ' if self._brief else ''}{self._best.report(line)}")

    def evaluation(self, line: dict[str, Any], examples: list[Example]) -> None:
        text = self._best.evaluation(line)
        if self._brief:
            return
        self.say(text)
        for example in examples:
            self.say(f"  {example.mark} {short(example.source)} → {short(example.output)}{wanted(example)}")

    def close(self) -> None: ...


class Live:
    """Shows a live bar on a terminal, with evaluations and examples scrolling above it (`brief`: without them).

    The bar begins with the first thing it shows: until `close` it hides the cursor, and a mistake told before training
    must not leave it hidden.
    """

    def __init__(self, brief: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._console = Console(stderr=True, highlight=False)
        columns = TextColumn("[bold]{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[text]}")
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task("training", total=1.0, text="", visible=False)
        self._brief, self._best = brief, _Best()

    def begin(self, title: str) -> None:
        self._best = _Best()
        self._bar.update(self._task, visible=False)
        self.say(title)

    def say(self, text: str) -> None:
        self._console.print(_plain(text))

    def note(self, text: str) -> None:
        self._console.print(f"[yellow]note:[/] {_plain(text)}")

    def stage(self, doing: str, rows: int, share: float) -> None:
        self._show(share < 1, description=doing, completed=share, text=f"{rows:,} rows")

    def report(self, line: dict[str, Any]) -> None:
        text, share = self._best.report(line), line["share"]
        self._show(True, description="training", completed=share, text=text)

    def _show(self, visible: bool, **what: Any) -> None:
        self._bar.start()
        self._bar.update(self._task, visible=visible, **what)

    def evaluation(self, line: dict[str, Any], examples: list[Example]) -> None:
        text = self._best.evaluation(line)
        if self._brief:
            return
        self.say(text)
        for example in examples:
            colour = {"✓": "green", "✗": "red"}.get(example.mark, "dim")
            source, output = _plain(short(example.source)), _plain(short(example.output))
            shown = f"{source} [dim]→[/] {output}[dim]{_plain(wanted(example))}[/]"
            self._console.print(f"  [{colour}]{example.mark}[/] {shown}")

    def close(self) -> None:
        self._bar.stop()


def reporter(brief: bool = False) -> Display:
    """Return a live reporter on a terminal, a plain one elsewhere; a brief one where there are many runs."""
    live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return Live(brief) if live else Plain(brief=brief)


def describe(line: dict[str, Any]) -> str:
    """`step 120 · epoch 1.5 · loss 1.930 · 5,400 tokens/s (62% of matrix speed) · 10% · 2m left`"""
    effort = f" ({line['effort']:.0%} of matrix speed)" if line.get("effort") else ""
    speed = f"{line['tokens_per_second']:,.0f} tokens/s{effort}"
    left = f" · {clock(line['left'])} left" if line.get("left") is not None else ""
    return (
        f"step {line['step']:,} · epoch {line['epoch']:.1f} · loss {line['loss']:.3f} · {speed} · "
        f"{line['share']:.0%}{left}"
    )


def worth_telling(line: dict[str, Any]) -> dict[str, str]:
    """The scores that a short report shows, by name."""
    return table_for(line).reported(line, selects=line.get("metric"))


def describe_evaluation(line: dict[str, Any]) -> str:
    metrics = " · ".join(f"{name} {score}" for name, score in worth_telling(line).items())
    greedy = ", greedy" if line.get("target", "text") == "text" else ""
    sample = f" ({line['pairs']:,} of {line['of']:,} pairs)" if line.get("of", 0) > line.get("pairs", 0) else ""
    return f"validation at step {line['step']:,}{greedy}{sample}: loss {line['loss']:.3f} · {metrics}"


def wanted(example: Example) -> str:
    return "" if example.correct else f"  (wanted {short(example.wanted)})"


def short(text: str, most: int = 120) -> str:
    """A text on one line: what cannot be printed is escaped, and the rest of a long one is left out."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def clock(seconds: float) -> str:
    """`45s`, `3m20s`, `1h05m`"""
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
