"""Side by side: everything is timed in turns within one run, so that a busy moment hits all alike."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))  # of all that is measured, peers and products alike
torch.set_num_threads(THREADS)
RESULTS = Path(os.environ.get("WEFT_BENCH_RESULTS", Path(__file__).parent / "results.jsonl"))


def in_turns(jobs: Mapping[str, Callable[[], object]], windows: int, least: float = 0.2) -> dict[str, list[float]]:
    """Seconds a call, one figure a window, each window at least `least` seconds; one call each comes before."""
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()
    for _ in range(windows):
        for name, job in jobs.items():
            began, calls = time.perf_counter(), 0
            while calls == 0 or time.perf_counter() - began < least:
                job()
                calls += 1
            found[name].append((time.perf_counter() - began) / calls)
    return found


def middle(figures: list[float]) -> float:
    return statistics.median(figures)


def spread(figures: list[float]) -> float:
    """Half the distance between the quartiles, as a share of the median."""
    if len(figures) < 4:
        return (max(figures) - min(figures)) / 2 / middle(figures)
    low, _, high = statistics.quantiles(figures, n=4)
    return (high - low) / 2 / middle(figures)


def matrix_speed(size: int = 1024) -> float:
    """GFLOP/s of a float32 matrix product with the threads in use, now."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    out = torch.empty(size, size)
    seconds = middle(in_turns({"": lambda: torch.mm(a, b, out=out)}, 5, 0.1)[""])
    return 2 * size**3 / seconds / 1e9


def record(question: str, **figures: Any) -> None:
    """One line in results.jsonl, with what it was measured on."""
    where = {"at": time.strftime("%Y-%m-%d %H:%M"), "torch": torch.__version__, "threads": torch.get_num_threads()}
    line = {"question": question, **figures, **where, "machine": platform.machine()}
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Markdown; all but the first column are figures."""
    for row in (columns, ["---", *["---:"] * (len(columns) - 1)], *rows):
        print(f"| {' | '.join(row)} |", flush=True)
