"""Train the runs of a comparison one after the other: train or resume, score, write down; a failure ends one run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from types import FrameType

import numpy as np

from weft.api import Run
from weft.compare.plan import Combination, ComparisonPlan, Request, job_of
from weft.compare.report import ComparisonReporter
from weft.compare.results import VALIDATION, ComparisonFolder, Result, write_outputs
from weft.compare.scoring import score_run
from weft.compare.variants import folder_name
from weft.core.errors import Interrupted, WeftError
from weft.core.pair import Pair
from weft.core.stopping import note_signal
from weft.data.pairs import read_pairs
from weft.runs.finish import FINAL_PAIRS
from weft.runs.folder import RunFolder
from weft.runs.job import columns_of, kinds_of
from weft.runs.log import LogFile
from weft.runs.report import Display
from weft.runs.train import run_job
from weft.spec import Spec


@dataclass(frozen=True)
class OpenComparison:
    """A comparison whose runs are being trained."""

    request: Request
    plan: ComparisonPlan
    folder: ComparisonFolder
    test_sets: Mapping[str, Sequence[Pair]]  # what every run is scored on, by the file its outputs go to


def train_runs(comparison: OpenComparison, display: Display) -> list[Result]:
    """Train the runs that are not done yet, and return every result."""
    folder, plan = comparison.folder, comparison.plan
    folder.cut_unfinished_line()
    results = {(result.cell, result.seed): result for result in folder.results() if result.done}
    reporter = ComparisonReporter(display, plan, list(results.values()))
    reporter.start()
    with _stop_on_sigterm():
        try:
            for combination, seed in plan.runs:
                if (combination.name, seed) in results:
                    continue
                reporter.begin(combination, seed)
                result = results[combination.name, seed] = _train_and_score(comparison, combination, seed, reporter)
                folder.add(result)
                reporter.end(result)
        except (Interrupted, KeyboardInterrupt):
            raise _interrupted(comparison, len(results)) from None
    folder.rewrite([*impossible(plan), *(results[combination.name, seed] for combination, seed in plan.runs)])
    return list(results.values())


def impossible(plan: ComparisonPlan) -> list[Result]:
    """Return a result for each variant that cannot be trained, with the reason."""
    refused = [combination for combination in plan.combinations if combination.refused]
    return [Result(c.name, 0, "impossible", c.variant.settings, reason=c.refused) for c in refused]


def _interrupted(comparison: OpenComparison, done: int) -> Interrupted:
    what = f"stopped; {done} of {comparison.plan.run_count} runs are done, and the run in progress is saved"
    return Interrupted(what, str(comparison.folder.path), "run the same command again to resume")


@contextmanager
def _stop_on_sigterm() -> Iterator[None]:
    """Let SIGTERM stop as Ctrl-C does; while a run trains, it catches both itself and saves first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        note_signal(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _train_and_score(
    comparison: OpenComparison, combination: Combination, seed: int, reporter: ComparisonReporter
) -> Result:
    """Train one run and return its result; an error becomes a failed result."""
    folder = comparison.folder.run(combination.name, seed)
    path = str(folder.path.relative_to(comparison.folder.path))
    failed = Result(combination.name, seed, "failed", combination.shown_settings, path)
    try:
        job = replace(job_of(combination, seed, comparison.plan, comparison.request), out=folder.path)
        run_job(job, reporter)
        return _score(comparison, folder, failed, reporter)
    except Interrupted:
        raise
    except WeftError as error:
        return replace(failed, reason=error.what)
    except Exception as error:  # so that the other runs continue
        return replace(failed, reason=f"{type(error).__name__}: {error}")


def _score(comparison: OpenComparison, folder: RunFolder, unscored: Result, reporter: ComparisonReporter) -> Result:
    """Decode every set of pairs, write the outputs, and add the scores and the figures of the run's log."""
    plan, run = comparison.plan, Run(folder.path)
    scores = {}
    for name, pairs in comparison.test_sets.items():
        reporter.stage("scoring", len(pairs), 0.0)
        scores[name], outputs = score_run(run, pairs, plan.metric, plan.unit)
        write_outputs(folder, name, pairs, outputs)
        reporter.stage("scoring", len(pairs), 1.0)
    valid = scores.pop(VALIDATION)
    log = LogFile(folder.log).lines()
    final = next(line for line in reversed(log) if line.get("kind") == "final")
    speeds = [line["tokens_per_second"] for line in log if line.get("kind") == "report"]
    return replace(
        unscored,
        status="done",
        metric=plan.metric,
        score=valid.metrics[plan.metric],
        valid=valid,
        tests={name: scores[outputs_file(name)] for name in comparison.request.tests},
        parameters=final["parameters"],
        tokens_per_second=median(speeds) if speeds else 0.0,
        seconds=final["seconds"],
        steps=final["steps"],
        curve=[[line["seconds"], line[plan.metric]] for line in log if line.get("kind") == "evaluation"],
    )


def outputs_file(test: str) -> str:
    return f"outputs-{folder_name(test)}.jsonl"


def read_test_sets(request: Request, valid: Sequence[Pair], spec: Spec) -> dict[str, list[Pair]]:
    """Return the validation pairs, at most FINAL_PAIRS of them evenly spread, and all pairs of every test file."""
    selected = np.linspace(0, len(valid) - 1, min(len(valid), FINAL_PAIRS)).astype(int)
    data, kinds = spec.data, kinds_of(spec)
    columns = replace(columns_of(data), swap=False)
    sets = {VALIDATION: [valid[i] for i in selected]}
    for name, file in request.tests.items():
        rows = read_pairs([file], columns, on_bad_line=data.on_bad_line, longest=data.longest, kinds=kinds)
        sets[outputs_file(name)] = list(rows)
    return sets
