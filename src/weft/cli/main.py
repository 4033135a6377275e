"""`weft`: the commands, what is common to them, and how errors end.

Exit codes: 0 done, 2 the user's mistake, 130 stopped by Ctrl-C, 1 anything else. Results go to stdout, all else to
stderr. `--debug`, `--strict`, `--on-bad-line` and `--threads` belong to every command and may stand anywhere.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from weft import __version__
from weft.cli import common
from weft.cli.compare import compare
from weft.cli.config import app as config_app
from weft.cli.data import data
from weft.cli.demo import demo
from weft.cli.evaluate import evaluate
from weft.cli.export import export
from weft.cli.inspect import inspect
from weft.cli.predict import predict
from weft.cli.recipe import app as recipe_app
from weft.cli.serve import serve
from weft.cli.train import train
from weft.cli.verify import verify
from weft.core.stopping import ignore_signals, raise_on_signals, stopped_by

app = typer.Typer(
    name="weft",
    no_args_is_help=True,
    cls=common.Group,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (train, predict, evaluate, compare, inspect, data, verify, export, serve, demo):
    app.command(cls=common.Command)(command)
app.add_typer(config_app, name="config")
app.add_typer(recipe_app, name="recipe")


# typer carries a click of its own from some version on; its base error is found through what it does export
CLICK_ERROR: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
SPINS, SPINS_IDLE, SAMPLES = 1000, 20_000, 3
INTERRUPTED = 130  # also what typer returns, which catches Ctrl-C itself


def _version(value: bool) -> None:
    """Print the versions that a bug report needs."""
    if value:
        import platform
        from importlib.metadata import version

        from weft.core import native

        compiled = native.state()
        python = platform.python_version()
        typer.echo(f"weft {__version__} (torch {version('torch')}, compiled code: {compiled}, Python {python})")
        raise typer.Exit


@app.callback()
def weft(
    on_bad_line: Annotated[
        str | None,
        typer.Option(
            metavar="stop|skip",
            help="Stop at a row that cannot be used, or skip and count such rows.",
            show_default="stop; for `weft data`: skip",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="The number of processor cores to use.", show_default="all", min=1, metavar="N")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a damaged checkpoint, instead of using an older one.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the debug log, and the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the versions of Weft, torch and Python."
        ),
    ] = False,
) -> None:
    """Train and use sequence-to-sequence models on a file of pairs.

    [bold]weft train pairs.tsv --out my-run[/]   train on source<TAB>target lines for ten minutes
    [bold]weft predict my-run new.txt[/]         print one output line for each input line
    [bold]weft evaluate my-run test.tsv[/]       measure how good it is
    [bold]weft inspect my-run "a line"[/]        see what it attended to, and why it makes mistakes
    [bold]weft compare pairs.tsv --vary …[/]     find the best settings
    [bold]weft demo[/]                           see it work in three minutes

    These options can be placed before or after a command (`predict` has no --on-bad-line).
    """
    common.set_on_bad_line(on_bad_line)
    common.set_strict(strict)
    if debug:
        common.show_log()
    if threads is not None:
        common.use_threads(threads)


def hoist(arguments: list[str]) -> list[str]:
    """Return the arguments with `--debug`, `--strict`, `--on-bad-line …` and `--threads …` first."""
    front: list[str] = []
    rest: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        if argument == "--":
            rest += [argument, *waiting]
        elif argument in ("--debug", "--strict") or argument.startswith(("--on-bad-line=", "--threads=")):
            front.append(argument)
        elif argument in ("--on-bad-line", "--threads"):
            front += [argument, next(waiting, "")]  # an empty value is told as a wrong one
        else:
            rest.append(argument)
    return front + rest


def spins(load: Path = Path("/proc/loadavg")) -> int:
    """Return how long a waiting thread spins before it sleeps, for GOMP_SPINCOUNT (docs/LOG.md, "Threads that wait").

    Waking up is slow, so on an idle machine threads spin longer; where others use the cores too, that would cost half
    of the speed.
    """
    try:
        running = min(_running(load) for _ in range(SAMPLES))  # what runs only for a moment does not count
    except (OSError, ValueError, IndexError):
        return SPINS
    return SPINS_IDLE if running <= 1 else SPINS


def _running(load: Path) -> int:
    """Return the number of threads that run or wait for a core, this one among them."""
    time.sleep(0.001)
    return int(load.read_text(encoding="utf-8").split()[3].partition("/")[0])


def main() -> NoReturn:
    arguments = hoist(sys.argv[1:])
    os.environ.setdefault("GOMP_SPINCOUNT", str(spins()))  # must be set before torch is loaded
    warnings.showwarning = lambda message, *_: common.complain(str(message), label="note")
    warnings.filterwarnings("always", module=r"weft\b")  # each is a note, however often it comes
    raise_on_signals()
    try:
        code = _run(arguments)
    except KeyboardInterrupt:  # while an error was being explained
        code = INTERRUPTED
    ignore_signals()
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Run a command; return the exit code."""
    try:
        code = app(arguments, prog_name="weft", standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if "--debug" in arguments:
            raise
        return _explain(error)
    if code == INTERRUPTED:
        common.complain(f"stopped by {stopped_by()}", label="")
    return int(code)


def _explain(error: Exception) -> int:
    """Say what happened in three parts; return the exit code."""
    from weft.core.errors import Interrupted, WeftError

    if isinstance(error, Interrupted):
        common.complain(str(error), label="")
        return error.exit_code
    if isinstance(error, WeftError):
        common.complain(str(error))
        return error.exit_code
    if isinstance(error, CLICK_ERROR):
        if error.format_message():  # there is none where the help was shown, as of `weft` alone
            common.complain(_usage(error))
        return 2
    if isinstance(error, OSError):
        where = error.filename or "the system"
        common.complain(
            f"{error.strerror or error}\n  where: {where}\n  to do: check the file or device, then try again"
        )
        return 1
    what = f"Weft failed: {type(error).__name__}: {error}"
    where = common.line_of(error)
    common.complain(f"{what}\n  where: {where}\n  to do: run it again with --debug and report what it shows")
    return 1


def _usage(error: Any) -> str:
    """Describe a mistake on the command line, in three parts."""
    command = error.ctx.command_path if error.ctx is not None else "weft"
    message = error.format_message().rstrip(".")
    return f"{message[:1].lower()}{message[1:]}\n  where: the command line\n  to do: see {command} --help"
