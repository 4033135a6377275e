"""What several commands share."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NoReturn, cast

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

_on_bad_line: str | None = None
WIDTH_OF_FILES = 1000  # columns of a table that is written to a file or a pipe: nothing is cut or wrapped


class Command(TyperCommand):
    """A command whose switches are shown without a type beside them, and whose help fits any width."""

    def get_params(self, ctx: Any) -> Any:
        return _plain_switches(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.help = unwrapped(self.help or "")
        super().format_help(ctx, formatter)


class Group(TyperGroup):
    """A group of commands, likewise."""

    def get_params(self, ctx: Any) -> Any:
        return _plain_switches(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.help = unwrapped(self.help or "")
        super().format_help(ctx, formatter)


def unwrapped(text: str) -> str:
    """Return help with one line per paragraph, so that it wraps at the terminal's width; examples keep their lines.

    Typer would remove the indent of examples that follow the first paragraph; empty markup before it prevents that.
    """
    paragraphs = [paragraph.split("\n") for paragraph in inspect.cleandoc(text).split("\n\n")]
    return "\n\n".join(
        "\n".join(re.sub("^ ", "[bold][/] ", line) for line in lines)
        if lines[0].startswith("[bold]")
        else " ".join(lines)
        for lines in paragraphs
    )


def _plain_switches(params: Any) -> Any:
    for param in params:
        if isinstance(param, TyperOption) and param.is_flag:
            param.metavar = ""
    return params


def set_on_bad_line(value: str | None) -> None:
    global _on_bad_line
    if value not in (None, "stop", "skip"):
        raise typer.BadParameter(f"'{value}' is not one of stop, skip", param_hint="--on-bad-line")
    _on_bad_line = value


def on_bad_line() -> Literal["stop", "skip"] | None:
    """What the user said; None where nothing."""
    return cast(Literal["stop", "skip"] | None, _on_bad_line)


def use_threads(count: int) -> None:
    """That many cores at once. Torch reads the variable when it is loaded; if it is there already, it is told."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)


def complain(text: str, label: str = "error") -> None:
    print(f"{label}: {text}" if label else text, file=sys.stderr)


def note_unseen(marks: set[str]) -> None:
    """Tags and features that a run was never trained with: it answers all the same, but knows nothing of them."""
    if marks:
        shown = " ".join(sorted(marks)[:5]) + (" …" if len(marks) > 5 else "")
        complain(f"tags and features that training never saw: {len(marks):,}: {shown}", label="note")


def write_line(text: str) -> None:
    """A line of results to stdout; the end, without a word, when nobody reads any more (`weft predict … | head`)."""
    try:
        sys.stdout.write(text + "\n")
    except BrokenPipeError:
        _nobody_reads()


def flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _nobody_reads()


def _nobody_reads() -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(0)


@contextmanager
def progress(doing: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """A bar on stderr while something takes its time; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.update(task, advance=done)


def place_of(error: Exception) -> str:
    """The line of Weft's code that an unexpected error came from."""
    trace, place = error.__traceback__, "unknown"
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if "weft" in file.parts:
            place = f"{file.name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def column(text: str | None) -> str | int | None:
    """A column as the user gave it: a number, or a name."""
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]+", text) else text


def table(columns: list[str], rows: list[list[str]], words: bool = False) -> Any:
    """A table for people; the first column to the left, the others (unless they hold words) to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD)
    for place, name in enumerate(columns):
        least = max([len(row[0]) for row in rows], default=0) if place == 0 else None  # names can be copied
        made.add_column(name, justify="left" if words or place == 0 else "right", min_width=least, overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


def show(*things: Any, width: int = WIDTH_OF_FILES) -> None:
    """Print to stdout; where that is not a terminal, with this many columns."""
    from rich.console import Console

    class Polite(Console):
        def on_broken_pipe(self) -> None:
            _nobody_reads()

    to_file = not sys.stdout.isatty()
    console = Polite(highlight=False, markup=False, emoji=False, soft_wrap=to_file and width == WIDTH_OF_FILES)
    if to_file:
        console.width = width
    for thing in things:
        console.print(thing)
