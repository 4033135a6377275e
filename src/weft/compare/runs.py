"""Making the runs of a comparison one after the other: train or go on, score, write down; a failure is one cell's."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from types import FrameType
from typing import Any

import numpy as np

from weft.api import Run
from weft.compare.plan import Asked, Cell, Plan, job_of
from weft.compare.results import VALIDATION, GridFolder, Result, write_outputs
from weft.compare.scoring import score_run
from weft.compare.variants import folder_name
from weft.compare.watch import RunReporter, Watcher
from weft.core.errors import Interrupted, WeftError
from weft.core.pair import Pair
from weft.data.pairs import Columns, read_pairs
from weft.runs.finish import FINAL_PAIRS
from weft.runs.folder import RunFolder
from weft.runs.log import LogFile
from weft.runs.train import run_job
from weft.spec import Data


@dataclass(frozen=True)
class Comparing:
    """A comparison under way."""

    asked: Asked
    plan: Plan
    folder: GridFolder
    sets: Mapping[str, Sequence[Pair]]  # what every run is scored on: by the file its outputs go to
    watcher: Watcher
    reporter: RunReporter


def make_runs(comparing: Comparing) -> list[Result]:
    """Make the runs that are not made yet; every result."""
    folder, watcher = comparing.folder, comparing.watcher
    folder.mend()
    results = {(r.cell, r.seed): r for r in folder.results() if r.done}
    watcher.planned(comparing.plan, list(results.values()))
    with _stoppable():
        try:
            for cell, seed in comparing.plan.runs:
                if (cell.name, seed) in results:
                    continue
                watcher.began(cell, seed)
                result = results[cell.name, seed] = _one_run(comparing, cell, seed)
                folder.add(result)
                watcher.ended(result)
        except (Interrupted, KeyboardInterrupt):
            raise _interrupted(comparing, len(results)) from None
    return list(results.values())


def _interrupted(comparing: Comparing, ended: int) -> Interrupted:
    runs = sum(1 for _ in comparing.plan.runs)
    what = f"stopped as asked; {ended} of {runs} runs have ended, and what was begun is saved"
    return Interrupted(what, str(comparing.folder.path), "give the same command again to go on")


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM stops as Ctrl-C does; while a run trains, it catches both itself and saves first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _one_run(comparing: Comparing, cell: Cell, seed: int) -> Result:
    folder = comparing.folder.run(cell.name, seed)
    started = Result(
        cell.name, seed, "failed", shown_settings(cell), str(folder.path.relative_to(comparing.folder.path))
    )
    try:
        job = replace(job_of(cell, seed, comparing.plan, comparing.asked), out=folder.path)
        run_job(job, comparing.reporter)
        return _score(comparing, folder, started)
    except Interrupted:
        raise
    except WeftError as error:
        return replace(started, reason=error.what)
    except Exception as error:  # whatever it is, the other cells go on
        return replace(started, reason=f"{type(error).__name__}: {error}")


def shown_settings(cell: Cell) -> dict[str, Any]:
    return {**cell.variant.settings, **cell.widths}


def _score(comparing: Comparing, folder: RunFolder, started: Result) -> Result:
    """Decode every set of pairs, keep the outputs, and gather what the run's log says."""
    plan, run = comparing.plan, Run(folder.path)
    scored = {}
    for name, pairs in comparing.sets.items():
        comparing.watcher.stage("scoring", len(pairs), 0.0)
        scored[name], outputs = score_run(run, pairs, plan.metric, plan.unit)
        write_outputs(folder, name, pairs, outputs)
    valid = scored.pop(VALIDATION)
    log = LogFile(folder.log).lines()
    final = next(line for line in reversed(log) if line.get("kind") == "final")
    speeds = [line["tokens_per_second"] for line in log if line.get("kind") == "report"]
    return replace(
        started,
        status="done",
        metric=plan.metric,
        score=valid.metrics[plan.metric],
        valid=valid,
        tests={name: scored[outputs_file(name)] for name in comparing.asked.tests},
        parameters=final["parameters"],
        tokens_per_second=median(speeds) if speeds else 0.0,
        seconds=final["seconds"],
        steps=final["steps"],
        curve=[[line["seconds"], line[plan.metric]] for line in log if line.get("kind") == "evaluation"],
    )


def outputs_file(test: str) -> str:
    return f"outputs-{folder_name(test)}.jsonl"


def sets_of(asked: Asked, valid: Sequence[Pair], data: Data) -> dict[str, list[Pair]]:
    """The validation pairs, at most FINAL_PAIRS of them evenly spread, and all of every test file."""
    chosen = np.linspace(0, len(valid) - 1, min(len(valid), FINAL_PAIRS)).astype(int)
    columns = Columns(data.source, data.target, data.features, data.tag)
    sets = {VALIDATION: [valid[i] for i in chosen]}
    for name, file in asked.tests.items():
        sets[outputs_file(name)] = list(read_pairs([file], columns, on_bad_line=data.on_bad_line, longest=data.longest))
    return sets
