"""Work on many files at the same time. Sound is decoded and transformed outside Python, so that threads suffice."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
FEWEST = 16  # files for which threads are started


def mapped(function: Callable[[str], T], cells: Sequence[str]) -> list[T]:
    """Return what the function makes of each cell, in order; one thread for each core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores == 1 or len(cells) < FEWEST:
        return [function(cell) for cell in cells]
    with ThreadPoolExecutor(cores) as threads:
        return list(threads.map(function, cells))
