"""Run folders from a stranger: made by the grammar of tests/hostile.py, and used as a person would use them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ground import made_ground
from runner import FellShort

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

TITLE = "hostile run folders: no traceback, nothing outside read or written, limits kept"
SAMPLE, FULL = 200, 2000
SECONDS, MEGABYTES = 60.0, 2048


def prepare(work: Path) -> object:
    import hostile

    ground = made_ground(work)
    return hostile.Ground(ground.plain, ground.pairs, (ground.transformer, ground.members))


def attempt(subject: object, number: int, folder: Path) -> str:
    import hostile

    os.chdir(folder)
    what, problem = hostile.tried(hostile.Attempt(subject, number, folder))  # type: ignore[arg-type]
    if problem:
        raise FellShort(f"{what}\n{problem}")
    return what
