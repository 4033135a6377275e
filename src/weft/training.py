"""A training job from its files to its finished run folder: open it, train, score the best, write the card."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from weft.core.errors import UserError
from weft.core.memory import give_back
from weft.data.pairs import settle
from weft.learn import checkpoint, snapshot
from weft.learn.folder import RunFolder
from weft.learn.loop import FINAL_EVALUATIONS, Trainer
from weft.learn.model import model_of
from weft.learn.report import Log, Reporter
from weft.learn.room import check_room
from weft.learn.validate import Validator
from weft.learn.world import World, join_world
from weft.look.card import card
from weft.nn.model import Model
from weft.opening import Job, Ready, asked_for, go_on, start
from weft.score.metrics import signatures
from weft.serve.predictor import Predictor, best_weights, make_plan

SECONDS_BETWEEN_PICTURES = 30.0
FINAL_PAIRS = 2000  # validation pairs that the finished model is scored on


def run_job(job: Job, reporter: Reporter) -> Path:
    """Train, or go on training; the run folder."""
    folder = RunFolder(job.out or _default_out(job))
    asked = folder.read_spec() if job.resume and folder.is_run else asked_for(job)
    try:
        with join_world(asked.train.device) as world:
            going_on = world.agree(job.resume and folder.is_run)
            if world.first and not going_on:
                _check_start(job, folder)
            with settle(job.pairs) as pairs, world.first_alone():
                if going_on or not world.first:  # the others read what the first has written
                    ready = go_on(job, folder, pairs, reporter)
                else:
                    ready = start(job, asked, folder, pairs, reporter)
            with _locked_by_first(folder, world):
                try:
                    _train(ready, folder, world, reporter, job.init)
                except Exception as error:
                    if world.first and not going_on:
                        folder.give_up()
                    folder.explain(error)
                    raise
    finally:
        reporter.close()
    return folder.path


def _locked_by_first(folder: RunFolder, world: World) -> AbstractContextManager[None]:
    return folder.locked() if world.first else nullcontext()


def _check_start(job: Job, folder: RunFolder) -> None:
    folder.check_free()
    if not job.pairs:
        what = "there is no run to resume, and no pairs to start one" if job.resume else "no pairs are given"
        raise UserError(what, str(folder.path) if job.resume else "PAIRS", "name a pairs file: weft train pairs.tsv")


def _default_out(job: Job) -> Path:
    """`pairs-run` for pairs.tsv, beside where the user stands; a number is added while that holds another run."""
    if not job.pairs:
        raise UserError("no pairs are given", "PAIRS", "name a pairs file: weft train pairs.tsv")
    path = job.pairs[0] if Path(job.pairs[0]).exists() else job.pairs[0].split(":")[0]
    stem = Path(path).name.split(".")[0] or "stdin"
    first = Path(f"{'stdin' if job.pairs[0] == '-' else stem}-run")
    if job.resume or not first.exists():
        return first
    return next(p for n in range(2, 10_000) if not (p := Path(f"{first}-{n}")).exists())


def _train(ready: Ready, folder: RunFolder, world: World, reporter: Reporter, init: Path | None) -> None:
    spec = ready.spec
    give_back()  # what reading and encoding needed
    make = partial(model_of, spec, ready.source, ready.target)
    check_room(make, spec, world.device)
    torch.manual_seed(spec.train.seed)
    model = make().to(world.device)
    validator = Validator.of(ready.prepared.valid, ready.source, ready.target, spec.train.batch_tokens)
    greedy = make_plan(spec.search.model_copy(update={"kind": "greedy"}), ready.target)
    trainer = Trainer(spec, model, ready.corpus, validator, greedy, folder, world, reporter)
    _restore(trainer, folder, world, reporter, init)
    trainer.run(Curves(folder))
    give_back()  # what the steps needed
    if world.first:
        _finish(ready, folder, model, validator, trainer, reporter)


def _restore(trainer: Trainer, folder: RunFolder, world: World, reporter: Reporter, init: Path | None) -> None:
    """From the run's own last checkpoint; of a new run from the weights of `init`, if any."""
    saved = checkpoint.load_last(folder.checkpoints, reporter.note)
    if saved is None:
        log = Log(folder.log)
        if log.bytes:
            reporter.note(f"there is no checkpoint in {folder.checkpoints}: training starts from the beginning")
        if world.first:
            log.cut(0)
        if init is not None:
            snapshot.put_weights(Predictor.load(init).model.state_dict(), trainer.model)
            trainer.average.reset()
        return
    if saved.progress.processes != world.size:
        raise UserError(
            f"the run was trained by {saved.progress.processes} processes, this is {world.size}",
            str(folder.path),
            f"resume it with as many: torchrun --nproc-per-node {saved.progress.processes} -m weft train …",
        )
    trainer.restore(saved)


def _finish(
    ready: Ready, folder: RunFolder, model: Model, validator: Validator, trainer: Trainer, reporter: Reporter
) -> None:
    """Score the best checkpoint by the run's own search, and write the card and the curves."""
    log = Log(folder.log)
    final = log.last()
    if final.get("kind") != "final":
        final = _final_scores(ready, folder, model, validator, trainer)
        log.write(final)
    facts = {**folder.read_facts(), "parameters": model.parameter_count}
    folder.write("README.md", card(folder.path.name, ready.spec, facts, folder.read_choices()["reasons"], final))
    Curves(folder).draw()


class Curves:
    """Draws the curves while a run goes on, now and then: a picture takes as long as many steps of a small model."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._drawn = folder, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._drawn >= SECONDS_BETWEEN_PICTURES:
            self.draw()
            self._drawn = time.monotonic()

    def draw(self) -> None:
        from weft.look.curves import draw_curves  # matplotlib takes half a second to load

        draw_curves(self._folder.log, self._folder.path / "curves.png", self._folder.path.name)


def _final_scores(
    ready: Ready, folder: RunFolder, model: Model, validator: Validator, trainer: Trainer
) -> dict[str, Any]:
    progress, spec = trainer.progress, ready.spec
    snapshot.put_weights(best_weights(folder), model)
    part = validator.part(_affordable(trainer, len(validator.pairs)))
    found = part.evaluate(model, make_plan(spec.search, ready.target), trainer.world.device)
    search = spec.search
    return {
        "kind": "final",
        "step": progress.best_step,
        "steps": progress.step,
        **found.metrics,
        "pairs": found.pairs,
        "of": len(validator.pairs),
        "metric": spec.train.select,
        "search": f"beam {search.width}" if search.kind == "beam" else search.kind,
        "signatures": signatures([[pair.target] for pair in part.pairs]),
        "parameters": model.parameter_count,
        "examples": [[e.source, e.wanted, e.said] for e in found.examples(part.pairs, 6)],
        "seconds": round(progress.seconds, 2),
    }


def _affordable(trainer: Trainer, pairs: int) -> int:
    """How many validation pairs can be decoded in what is left of the budget; without a clock, FINAL_PAIRS."""
    wanted = min(pairs, FINAL_PAIRS)
    each = trainer.progress.evaluation_seconds / max(1, len(trainer.validator.pairs))
    if trainer.budget.seconds is None or each == 0:
        return wanted
    left = max(trainer.budget.seconds - trainer.progress.seconds, 0.02 * trainer.budget.seconds)
    return max(min(wanted, 20), min(wanted, math.floor(left / (each * (FINAL_EVALUATIONS - 1)))))
