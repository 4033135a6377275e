"""Runs that a recipe trains to look inside them, each in FOLDER/runs/NAME."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.api import Run, train
from weft.recipes.study import Files, Options
from weft.runs.folder import RunFolder

RUNS = "runs"  # the folder of the runs


def trained(
    folder: Path, name: str, files: Files, steps: int, settings: Mapping[str, Any], options: Options, **roles: Any
) -> Run:
    """Train a run, or continue the one that is there; a finished run is loaded. `roles` are those of `weft.train`."""
    path = folder / RUNS / name
    if RunFolder(path).is_run:
        return train(out=path, resume=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return train(
        files.train,
        valid=files.valid,
        out=path,
        steps=options.steps or steps,
        settings=settings,
        seed=1,
        command=options.command,
        **roles,
    )


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], digits: int = 3) -> list[str]:
    """Return a table in Markdown; numbers are aligned right."""
    numeric = [all(isinstance(row[i], int | float) or row[i] is None for row in rows) for i in range(len(columns))]
    return [
        f"| {' | '.join(columns)} |",
        f"|{'|'.join('---:' if each else '---' for each in numeric)}|",
        *(f"| {' | '.join(_cell(cell, digits) for cell in row)} |" for row in rows),
        "",
    ]


def _cell(value: Any, digits: int) -> str:
    if value is None:
        return "–"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value).replace("|", "\\|")
