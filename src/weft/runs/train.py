"""A training job from its files to its finished run folder: open it, train, score the best, write the card."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, takewhile
from pathlib import Path

import torch

from weft.core.errors import Diverged, UserError
from weft.core.memory import give_back
from weft.core.reporting import Reporter
from weft.data.files import sides, spool_stdin
from weft.learn import checkpoint, snapshot
from weft.learn.loop import Trainer
from weft.learn.model import model_of
from weft.learn.validate import Validator
from weft.learn.world import World, join_world
from weft.nn.heads import Tokens
from weft.nn.model import Seq2Seq
from weft.predict.predictor import Predictor, make_plan
from weft.runs.finish import Curves, finish
from weft.runs.folder import RunFolder
from weft.runs.job import Job, Ready, asked_for
from weft.runs.log import LogFile
from weft.runs.members import (
    PATIENCE,
    Among,
    Beside,
    leave_out_those_behind,
    shares,
    side_by_side,
    spec_of,
    tell_of_those_astray,
    using_threads,
)
from weft.runs.memory import check_room, explain_room
from weft.runs.new import start
from weft.runs.resume import go_on


def run_job(job: Job, reporter: Reporter) -> Path:
    """Train, or go on training; the run folder."""
    folder = RunFolder(job.out or _default_out(job))
    asked = folder.read_spec() if job.resume and folder.is_run else asked_for(job)
    try:
        with join_world(asked.train.device) as world:
            going_on = world.agree(job.resume and folder.is_run)
            if world.first and not going_on:
                _check_start(job, folder, world)
            with spool_stdin(job.pairs) as pairs:  # kept until all is done: other processes read it, too
                with world.first_alone():
                    if going_on or not world.first:  # the others read what the first has written
                        ready = go_on(job, folder, pairs, reporter)
                    else:
                        ready = start(job, asked, folder, pairs, reporter)
                with _locked_by_first(folder, world):
                    try:
                        _train(ready, folder, world, reporter, job, pairs)
                    except Exception as error:
                        if world.first and not going_on:
                            folder.give_up()
                        folder.explain(error)
                        explain_room(error, ready.spec)
                        raise
    finally:
        reporter.close()
    return folder.path


def _locked_by_first(folder: RunFolder, world: World, patience: float = 0.0) -> AbstractContextManager[None]:
    return folder.locked(patience) if world.first else nullcontext()


def _check_start(job: Job, folder: RunFolder, world: World) -> None:
    folder.check_free()
    if world.size > 1 and "-" in job.pairs:
        raise UserError("several processes cannot read one stdin", "-", "give the pairs as a file")
    if not job.pairs:
        what = "there is no run to resume, and no pairs to start one" if job.resume else "no pairs are given"
        raise UserError(what, str(folder.path) if job.resume else "PAIRS", "name a pairs file: weft train pairs.tsv")


def _default_out(job: Job) -> Path:
    """`pairs-run` for pairs.tsv, beside where the user stands; a number is added while that holds another run.

    To be resumed is the last of them.
    """
    if not job.pairs:
        if job.resume:
            raise UserError("it is not said which run goes on", "--out", "name it: weft train --out RUN --resume")
        raise UserError("no pairs are given", "PAIRS", "name a pairs file: weft train pairs.tsv")
    stem = Path(sides(job.pairs[0])[0]).name.split(".")[0] or "stdin"
    first = Path(f"{'stdin' if job.pairs[0] == '-' else stem}-run")
    numbered = (Path(f"{first}-{n}") for n in range(2, 10_000))
    taken = list(takewhile(Path.exists, chain([first], numbered)))
    if job.resume:
        return taken[-1] if taken else first
    return Path(f"{first}-{len(taken) + 1}") if taken else first


def _train(ready: Ready, folder: RunFolder, world: World, reporter: Reporter, job: Job, pairs: Sequence[str]) -> None:
    """The run's models, and what is written when they are done."""
    give_back()  # what reading and encoding needed
    before = LogFile(folder.log).last()
    members, at_once = ready.spec.train.members, side_by_side(ready.spec, world)
    more: list[Trainer] = []  # after the first
    if members == 1:
        trainer = _train_one(ready, folder, reporter, world, _begun_from(folder))
    else:
        with world.first_alone():
            if world.first:
                _make_members(ready, folder, at_once)
        mine, *others = shares(members, at_once)
        how = f"{at_once} side by side" if at_once > 1 else "one after the other"
        reporter.note(f"{members} models, which predict together, are trained {how}; this tells of the first")
        with Beside(folder, others, pairs) as beside, using_threads(mine.threads):
            trainer, *more = _train_some(ready, folder, mine.numbers, world, reporter)
            beside.wait()
        if world.first:
            tell_of_those_astray(folder, members, reporter.note)
            leave_out_those_behind(folder, members, reporter.note)
    give_back()  # what the steps needed
    if world.first:
        finish(ready, folder, trainer, sum(one.progress.seconds for one in more), before)


def _make_members(ready: Ready, folder: RunFolder, at_once: int) -> None:
    """The folders of the other models, each a run of its own, and what those that write the other way learn from."""
    if ready.spec.train.reversed_members:
        ready.prepared.corpus(ready.source, ready.target.written(not ready.spec.backward), ready.spec.data.augmented)
    for number in range(2, ready.spec.train.members + 1):
        member = folder.member(number)
        if not member.is_run:
            member.create()
            spec = spec_of(ready.spec, number, at_once)
            member.write_tokenisers(ready.source, ready.target.written(spec.backward))
            member.write_facts({**folder.read_facts(), "folder": str(member.path)})
            member.write_spec(spec, folder.read_choices()["origins"], [])


def train_members(folder: RunFolder, numbers: Sequence[int], pairs: Sequence[str], reporter: Reporter) -> None:
    """Train, or go on training, some models of a run that another process has opened."""
    with join_world(folder.read_spec().train.device) as world:
        ready = go_on(Job(), folder, pairs, reporter)
        _train_some(ready, folder, numbers, world, reporter)


def _train_some(
    ready: Ready, folder: RunFolder, numbers: Sequence[int], world: World, reporter: Reporter
) -> list[Trainer]:
    trainers = []
    init = _begun_from(folder)
    seconds = folder.member(2).read_spec().train.budget_seconds
    for done, number in enumerate(numbers):
        if done:
            reporter.note(f"now model {number}")
        told = Among(reporter, done, len(numbers), seconds)
        member = folder.member(number) if number > 1 else folder
        own = _own(ready, number, folder)
        with _locked_by_first(member, world, PATIENCE) if number > 1 else nullcontext():
            member.astray.unlink(missing_ok=True)
            try:
                trainers.append(_train_one(own, member, told, world, init))
            except Diverged as error:
                if number == 1:
                    raise
                member.write(member.astray.name, f"{error.what}\n")  # whoever speaks to the user will tell
    return trainers


def _begun_from(folder: RunFolder) -> Path | None:
    """The run whose weights it started with (--init), as it was written down: whoever goes on need not say it again."""
    given = folder.read_facts()["init"]
    return Path(given) if given else None


def _own(ready: Ready, number: int, folder: RunFolder) -> Ready:
    """What one of several models is trained by, as it was settled when their folders were made."""
    if number == 1:
        spec, second = ready.spec, folder.member(2).read_spec().train
        train = spec.train.model_copy(update={"members": 1, "budget_seconds": second.budget_seconds})
        return replace(ready, spec=spec.model_copy(update={"train": train}))
    spec = folder.member(number).read_spec()
    if spec.backward == ready.spec.backward:
        return replace(ready, spec=spec)
    target = ready.target.written(spec.backward)
    corpus = ready.prepared.corpus(ready.source, target, spec.data.augmented)
    return replace(ready, spec=spec, target=target, corpus=corpus)


def _train_one(ready: Ready, folder: RunFolder, reporter: Reporter, world: World, init: Path | None = None) -> Trainer:
    spec = ready.spec
    make = partial(model_of, spec, ready.source, ready.target)
    check_room(make, spec, world.device)
    torch.manual_seed(spec.train.seed)
    model = make().to(world.device)
    if isinstance(model, Seq2Seq) and isinstance(model.head, Tokens):
        model.head.expect(torch.from_numpy(ready.corpus.target_counts(len(ready.target))).to(world.device))
    validator = Validator.of(ready.prepared.valid, ready.source, ready.target, spec.train.batch_tokens)
    greedy = make_plan(spec.search.model_copy(update={"kind": "greedy"}), ready.target)
    trainer = Trainer(spec, model, ready.corpus, validator, greedy, folder.path, LogFile(folder.log), world, reporter)
    _restore(trainer, folder, world, reporter, init)
    trainer.run(Curves(folder))
    return trainer


def _restore(trainer: Trainer, folder: RunFolder, world: World, reporter: Reporter, init: Path | None) -> None:
    """From the run's own last checkpoint; of a new run from the weights of `init`, if any."""
    saved = checkpoint.load_last(folder.checkpoints, reporter.note)
    if saved is None:
        log = LogFile(folder.log)
        if log.bytes:
            reporter.note(f"there is no checkpoint in {folder.checkpoints}: training starts from the beginning")
        if world.first:
            log.cut(0)
        if init is not None:
            snapshot.put_weights(Predictor.load(init, alone=True).model.state_dict(), trainer.model)
            trainer.average.reset()
        return
    if saved.progress.processes != world.size:
        raise UserError(
            f"the run was trained by {saved.progress.processes} processes, this is {world.size}",
            str(folder.path),
            f"resume it with as many: torchrun --nproc-per-node {saved.progress.processes} -m weft train …",
        )
    trainer.restore(saved)
