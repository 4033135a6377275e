"""`weft verify`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import common


def verify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    accept: Annotated[
        bool, typer.Option("--accept", help="Accept spec.yaml as it is now, after you have edited it.")
    ] = False,
) -> None:
    """Check every file of a run, of its export and of the cache entries that the run uses.

    Each file is reported as whole, damaged or unknown. A file is damaged if it has changed since it was written; it is
    unknown if an earlier version wrote it without a checksum.
    The exit code is 1 if any file is damaged.

    [bold]Examples[/]
      weft verify my-run
      weft verify my-run --accept
    """
    from weft.runs import verify as verifying
    from weft.runs.folder import RunFolder

    folder = RunFolder(run)
    if accept:
        for name in verifying.accept(folder):
            common.complain(f"{name} is accepted as it is now", label="note")
    states = verifying.verify(folder)
    for state in states:
        common.write_line(f"{state.state:<8} {state.name}{f' ({state.reason})' if state.reason else ''}")
    damaged = [state.name for state in states if state.state == "damaged"]
    if damaged:
        common.complain(f"{len(damaged)} of {len(states)} files are damaged\n  where: {run}\n  to do: {_todo(damaged)}")
        raise typer.Exit(1)


def _todo(names: list[str]) -> str:
    if names == ["spec.yaml"]:
        return "restore it from a copy; or, if you have edited it, add --accept"
    return "restore them from a copy, or train again"
