"""Functions that several commands share."""

from __future__ import annotations

import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NoReturn, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_on_bad_line: str | None = None
_strict = False
WIDTH_OF_FILES = 1000  # columns of a table that is written to a file or a pipe: nothing is cut or wrapped
READABLE = 100  # columns of a table of sentences that is not shown on a terminal


class Command(TyperCommand):
    """A command whose help shows no Python types (`<bool>`, `<list[str]>`), and fits any width."""

    def get_params(self, ctx: Any) -> Any:
        return _without_types(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.help = unwrapped(self.help or "")
        super().format_help(ctx, formatter)


class Group(TyperGroup):
    """A group of commands with the same kind of help."""

    def get_params(self, ctx: Any) -> Any:
        return _without_types(super().get_params(ctx))

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


def _without_types(params: Any) -> Any:
    """Remove the types that typer shows beside switches and arguments."""
    for param in params:
        if isinstance(param, TyperOption) and param.is_flag:
            param.metavar = ""
        if isinstance(param, TyperArgument):
            param.display_type_rich = lambda ctx: None  # type: ignore[method-assign]
    return params


def set_on_bad_line(value: str | None) -> None:
    global _on_bad_line
    if value not in (None, "stop", "skip"):
        raise typer.BadParameter(f"'{value}' is not one of stop, skip", param_hint="--on-bad-line")
    _on_bad_line = value


def on_bad_line() -> Literal["stop", "skip"] | None:
    """Return what the user asked for; None for the default."""
    return cast(Literal["stop", "skip"] | None, _on_bad_line)


def set_strict(value: bool) -> None:
    global _strict
    _strict = value


def strict() -> bool:
    """Return whether a damaged checkpoint is an error."""
    return _strict


def use_threads(count: int) -> None:
    """Use this many cores. Torch reads the variable when it is loaded; if it is loaded already, it is told."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)


def complain(text: str, label: str = "error") -> None:
    print(f"{label}: {text}" if label else text, file=sys.stderr)


@contextmanager
def speaking_of_flags(flags: Mapping[str, str]) -> Iterator[None]:
    """Errors about an argument (`nbest=0`) or a setting speak of the flag that gave it (`--nbest 0`)."""
    from weft.core.errors import UserError
    from weft.settings import possible

    try:
        yield
    except UserError as error:
        setting = re.fullmatch(r"settings? (\S+)", error.where)
        name, _, value = (setting[1] if setting else error.where).partition("=")
        if name not in flags:
            raise
        what = error.what.replace(f"{name}:", f"{flags[name]}:").replace(f"{name}=", f"{flags[name]} ")
        what = what.replace(f"{name} must be ", f"{flags[name]} must be ")
        todo = error.todo.replace(name, flags[name]) if setting else error.todo
        todo = f"give {flags[name]} {possible(name)}" if error.where.startswith("setting ") else todo
        raise type(error)(what, f"{flags[name]} {value}".rstrip(), todo) from None


def one_line(text: str, also: str = "") -> str:
    """Return the text with escapes for line breaks, and for characters that separate columns."""
    for character in "\n\r" + also:
        text = text.replace(character, ESCAPES[character])
    return text


def show_log() -> None:
    """Show Weft's log on stderr from the level DEBUG on."""

    class Shown(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            complain(record.getMessage(), label=record.levelname.lower())

    log = logging.getLogger("weft")
    log.handlers[:] = [Shown()]
    log.setLevel(logging.DEBUG)


def write_line(text: str) -> None:
    """Write a line of results to stdout; exit quietly when nobody reads any more (`weft predict … | head`)."""
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
    """Show a progress bar on stderr; nothing where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.update(task, advance=done)


def line_of(error: Exception) -> str:
    """Return the line of Weft's code that an unexpected error came from."""
    trace, line = error.__traceback__, "unknown"
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if "weft" in file.parts:
            line = f"{file.name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


def column(text: str | None) -> str | int | None:
    """Parse a column: a number, or a name."""
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]+", text) else text


def table(columns: list[str], rows: list[list[str]], words: bool = False) -> Any:
    """Return a table for people; columns but the first are right-aligned, unless they hold words."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD)
    for number, name in enumerate(columns):
        min_width = max([len(row[0]) for row in rows], default=0) if number == 0 else None  # names can be copied
        justify: Any = "left" if words or number == 0 else "right"
        grid.add_column(name, justify=justify, min_width=min_width, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    return grid


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
