"""A training job from its files to its finished run folder: open it, train its models, score and describe them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.core.errors import Interrupted, UserError
from weft.core.memory import give_back
from weft.core.reporting import Reporter
from weft.core.stopping import stopped_by
from weft.data.files import spool_stdin
from weft.learn.loop import Trainer
from weft.learn.world import World, join_world
from weft.runs.finish import finish, is_finished
from weft.runs.fit import fit
from weft.runs.folder import FINISHED, PICTURES, WORDS, RunFolder
from weft.runs.job import Job, default_out, requested_spec
from weft.runs.log import LogFile
from weft.runs.members import (
    exclude_lagging,
    make_members,
    report_diverged,
    shares,
    train_share,
    using_threads,
    with_side_by_side,
)
from weft.runs.memory import explain_out_of_memory
from weft.runs.new import start
from weft.runs.processes import WorkerProcesses
from weft.runs.ready import Ready
from weft.runs.resume import reopen
from weft.spec import Spec


def run_job(job: Job, reporter: Reporter) -> Path:
    """Train, or go on training; return the run folder."""
    folder = RunFolder(job.out or default_out(job))
    resuming = job.resume and folder.is_run
    requested = folder.read_spec() if resuming else requested_spec(job)
    try:
        with join_world(requested.train.device) as world:
            resuming = world.agree(resuming)
            if world.first and not resuming:
                _check_start(job, folder, world)
            with spool_stdin(job.pairs) as pairs:  # kept until all is done: other processes read it, too
                ready = _open(job, requested, folder, pairs, world, reporter, resuming)
                with _locked_by_first(folder, world):
                    _train(ready, folder, pairs, world, reporter, resuming)
    except KeyboardInterrupt:
        raise _interrupted(folder) from None
    finally:
        reporter.close()
    return folder.path


def _interrupted(folder: RunFolder) -> Interrupted:
    """Say what is left of a run that was stopped while it did not train."""
    by, where = stopped_by(), str(folder.path)
    if not folder.is_run:
        what = f"stopped by {by} before training began; no run was made"
        return Interrupted(what, where, "give the same command again")
    if not any(folder.checkpoints.glob("step-*")):
        return Interrupted(f"stopped by {by} before the first step", where, "go on with --resume")
    return Interrupted(f"stopped by {by}; everything is saved", where, "go on with --resume")


def _check_start(job: Job, folder: RunFolder, world: World) -> None:
    folder.check_free()
    if world.size > 1 and "-" in job.pairs:
        raise UserError("several processes cannot share one stdin", "-", "give the pairs as a file")
    if not job.pairs:
        what = "there is no run to resume, and no pairs were given to start one" if job.resume else "no pairs are given"
        raise UserError(what, str(folder.path) if job.resume else "PAIRS", "name a pairs file: weft train pairs.tsv")


def _open(
    job: Job,
    requested: Spec,
    folder: RunFolder,
    pairs: Sequence[str],
    world: World,
    reporter: Reporter,
    resuming: bool,
) -> Ready:
    """Open the run; of several processes the first does it, and the others read what it has written."""
    with world.first_alone():
        if resuming or not world.first:
            return reopen(job, folder, pairs, reporter)
        return start(job, requested, folder, pairs, world, reporter)


def _locked_by_first(folder: RunFolder, world: World) -> AbstractContextManager[None]:
    return folder.locked() if world.first else nullcontext()


def _train(
    ready: Ready, folder: RunFolder, pairs: Sequence[str], world: World, reporter: Reporter, resuming: bool
) -> None:
    """Train the run's models and finish it. A start that fails before its first checkpoint leaves no run."""
    give_back()  # the memory that reading and encoding needed
    last_line = _reopened_log(folder) if world.first else {}
    try:
        trainers = _train_models(ready, folder, pairs, world, reporter)
        give_back()  # the memory that the steps needed
        if world.first:
            if is_finished(trainers, last_line):
                reporter.note(
                    "this run had finished before, so nothing was trained; --init starts a new run from its weights"
                )
            finish(ready, folder, trainers, last_line)
    except Exception as error:
        if world.first and not resuming:
            folder.give_up()
        folder.explain(error)
        explain_out_of_memory(error, ready.spec)
        raise


def _reopened_log(folder: RunFolder) -> dict[str, Any]:
    """Take what training changes off the manifest; return the last line of the log, if it is as it was written."""
    line = LogFile(folder.log).last()
    return {} if folder.log.name in folder.unseal((*FINISHED, *PICTURES, WORDS)) else line


def _train_models(
    ready: Ready, folder: RunFolder, pairs: Sequence[str], world: World, reporter: Reporter
) -> list[Trainer]:
    """Train the run's models; return the trainers of this process, the first model's first."""
    ready = replace(ready, spec=with_side_by_side(ready.spec, world))  # runs of earlier versions have not fixed it
    members, side_by_side = ready.spec.train.members, ready.spec.train.side_by_side
    if members == 1:
        return [fit(ready, folder, reporter, world)]
    with world.first_alone():
        if world.first:
            make_members(ready, folder)
    how = f"{side_by_side} at a time" if side_by_side > 1 else "one after the other"
    reporter.note(f"training an ensemble of {members} models, {how}; the progress shown is that of model 1")
    mine, *others = shares(members, side_by_side)
    with WorkerProcesses(folder, others, pairs) as workers, using_threads(mine.threads):
        trainers = train_share(ready, folder, mine.numbers, world, reporter)
        workers.wait()
    if world.first:
        report_diverged(folder, members, reporter.note)
        exclude_lagging(folder, members, reporter.note)
    return trainers
