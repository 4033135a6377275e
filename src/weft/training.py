"""A training job from its files to its finished run folder: prepare, choose, train, score, write the card."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import weft
from weft.choose import choose, matrix_speed
from weft.core.errors import UserError
from weft.data.batches import too_long
from weft.data.corpus import Corpus
from weft.data.pairs import Columns, settle
from weft.data.prepare import Files, Prepared
from weft.data.tokens import Tokeniser
from weft.learn import checkpoint, snapshot
from weft.learn.folder import RunFolder, differences
from weft.learn.loop import FINAL_EVALUATIONS, Trainer
from weft.learn.report import Log, Reporter
from weft.learn.validate import Validator
from weft.learn.world import World, join_world
from weft.look.card import card
from weft.look.curves import draw_curves
from weft.nn.assemble import assemble
from weft.nn.model import Seq2Seq
from weft.score.metrics import signatures
from weft.serve.predictor import Predictor, make_plan
from weft.settings import Clash, Composed, Layer, compose, flatten, implied_kind, put
from weft.spec import Data, Spec

FINAL_PAIRS = 2000  # validation pairs that the finished model is scored on


@dataclass(frozen=True)
class Job:
    """What the user asked for."""

    pairs: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    out: Path | None = None
    file_layer: Layer = field(default_factory=dict)
    flag_layer: Layer = field(default_factory=dict)
    resume: bool = False
    init: Path | None = None
    command: str = ""


@dataclass(frozen=True)
class Ready:
    """Everything a trainer needs."""

    spec: Spec
    source: Tokeniser
    target: Tokeniser
    corpus: Corpus
    prepared: Prepared


def run_job(job: Job, reporter: Reporter) -> Path:
    """Train, or go on training; the run folder."""
    folder = RunFolder(job.out or _default_out(job))
    going_on = job.resume and folder.is_run
    if not going_on:
        _check_start(job, folder)
    asked = folder.read_spec() if going_on else _asked(job)
    try:
        with join_world(asked.train.device) as world:
            with settle(job.pairs) as pairs, world.first_alone():
                if going_on or not world.first:  # the others read what the first has written
                    ready = _go_on(job, folder, pairs, reporter)
                else:
                    ready = _start(job, asked, folder, pairs, reporter)
            with _locked_by_first(folder, world):
                _train(ready, folder, world, reporter, job.init)
    finally:
        reporter.close()
    return folder.path


def _locked_by_first(folder: RunFolder, world: World) -> AbstractContextManager[None]:
    return folder.locked() if world.first else nullcontext()


def _check_start(job: Job, folder: RunFolder) -> None:
    if not job.pairs:
        what = "there is no run to resume, and no pairs to start one" if job.resume else "no pairs are given"
        raise UserError(what, str(folder.path) if job.resume else "PAIRS", "name a pairs file: weft train pairs.tsv")
    folder.check_free()


def _default_out(job: Job) -> Path:
    """`pairs-run` for pairs.tsv, beside where the user stands; a number is added while that holds another run."""
    if not job.pairs:
        raise UserError("no pairs are given", "PAIRS", "name a pairs file: weft train pairs.tsv")
    stem = Path(job.pairs[0].split(":")[0]).name.split(".")[0] or "stdin"
    first = Path(f"{'stdin' if job.pairs[0] == '-' else stem}-run")
    if job.resume or not first.exists():
        return first
    return next(p for n in range(2, 10_000) if not (p := Path(f"{first}-{n}")).exists())


# starting -----------------------------------------------------------------------------------------------------------


def _start(job: Job, asked: Spec, folder: RunFolder, pairs: Sequence[str], reporter: Reporter) -> Ready:
    """Look at the data, choose, and write down what the run is."""
    prepared = Prepared(_files(asked.data, pairs, job.valid), progress=reporter.stage)
    inherited = _inherited(job.init) if job.init else {}
    given = _merged(inherited, job.file_layer, job.flag_layer)
    by_clock = asked.train.steps is None and asked.train.epochs is None
    chosen = choose(prepared.survey, given, matrix_speed() if by_clock else None)
    layers = (("autopilot", chosen.layer), ("init", inherited), ("file", job.file_layer), ("flag", job.flag_layer))
    composed = compose(*layers, ("flag", _data_layer(job)))
    if job.init:
        source, target = RunFolder(job.init).read_tokenisers()
    else:
        source, target = _learn(prepared, composed.spec)
    corpus = prepared.corpus(source, target)
    _say_notes(prepared, corpus, composed.spec, reporter)
    folder.create()
    with folder.locked():
        folder.write_tokenisers(source, target)
        folder.write_facts(_facts(job, folder, prepared, corpus))
        folder.write_spec(composed.spec, composed.origins, chosen.reasons)
    _say_choices(chosen.reasons, composed, reporter)
    return Ready(composed.spec, source, target, corpus, prepared)


def _asked(job: Job) -> Spec:
    """What the user asks for, so that mistakes are told before data are read; `data` and `train` are final in it."""
    layers = ("file", job.file_layer), ("flag", job.flag_layer)
    try:
        return compose(*layers).spec
    except Clash:  # with what the autopilot chooses they may go together; if not, it is told then
        final = ("data.", "train.")
        return compose(*((name, {k: v for k, v in flatten(tree) if k.startswith(final)}) for name, tree in layers)).spec


def _files(data: Data, pairs: Sequence[str], valid: Sequence[str]) -> Files:
    columns = Columns(data.source, data.target, data.features, data.tag)
    return Files(tuple(pairs), tuple(valid), columns, data.on_bad_line, data.longest, data.hold_out)


def _merged(*layers: Layer) -> Layer:
    merged: Layer = {}
    for layer in layers:
        for key, value in flatten(layer):
            put(merged, key, value)
    return merged


def _data_layer(job: Job) -> Layer:
    return {"data": {"pairs": _absolute(job.pairs), "valid": _absolute(job.valid)}}


def _absolute(paths: Sequence[str]) -> list[str]:
    """Paths that lead to the files from anywhere; both halves of a parallel pair."""
    return [p if p == "-" else ":".join(os.path.abspath(half) for half in _halves(p)) for p in paths]


def _halves(path: str) -> list[str]:
    return [path] if os.path.exists(path) else path.split(":")


def _inherited(init: Path) -> Layer:
    """The parts of another run's spec that its weights fix."""
    spec = RunFolder(init).read_spec().model_dump(mode="json")
    return {name: spec[name] for name in ("source", "target", "embed", "encoder", "bridge", "decoder", "head")}


def _learn(prepared: Prepared, spec: Spec) -> tuple[Tokeniser, Tokeniser]:
    sides = [(side.tokens, side.size) for side in (spec.source, spec.target)]
    return prepared.tokenisers(sides[0], sides[1], spec.embed.shared)


def _facts(job: Job, folder: RunFolder, prepared: Prepared, corpus: Corpus) -> dict[str, Any]:
    return {
        "weft": weft.__version__,
        "folder": str(folder.path),
        "pairs": _absolute(job.pairs),
        "valid": _absolute(job.valid),
        "fingerprint": prepared.fingerprint,
        "valid_fingerprint": prepared.valid_fingerprint,
        "training_pairs": len(corpus),
        "valid_pairs": len(prepared.valid),
        "init": str(job.init) if job.init else None,
        "command": job.command,
    }


def _say_notes(prepared: Prepared, corpus: Corpus, spec: Spec, reporter: Reporter) -> None:
    for note in prepared.notes:
        reporter.note(note)
    left_out = too_long(corpus.source_lengths, corpus.target_lengths, spec.train.batch_tokens)
    if left_out == len(corpus):
        raise UserError(
            f"no pair fits into a batch of {spec.train.batch_tokens} symbols",
            "setting train.batch_tokens",
            "raise train.batch_tokens, or cut the lines",
        )
    if left_out:
        reporter.note(
            f"{left_out:,} pairs longer than train.batch_tokens={spec.train.batch_tokens} symbols are left out"
        )
    if prepared.files.valid and (repeats := prepared.repeats()):
        reporter.note(
            f"{repeats:,} of {len(prepared.valid):,} validation pairs are training pairs too: scores will flatter"
        )


def _say_choices(reasons: list[list[str]], composed: Composed, reporter: Reporter) -> None:
    for key, value, why in reasons:
        if composed.origins.get(key) == "autopilot":
            reporter.note(f"chose {key} = {value}: {why}")


# going on -----------------------------------------------------------------------------------------------------------


def _go_on(job: Job, folder: RunFolder, pairs: Sequence[str], reporter: Reporter) -> Ready:
    """Open a run again, refusing if settings or data have changed."""
    spec = folder.read_spec()
    changed = _changed(spec, job)
    if changed:
        raise UserError(
            f"the settings are not those of the run: {'; '.join(changed)}",
            str(folder.spec_file),
            "leave them out to go on, or train anew into another --out (--init starts from these weights)",
        )
    prepared = Prepared(
        _files(spec.data, pairs or spec.data.pairs, job.valid or spec.data.valid), progress=reporter.stage
    )
    _check_same_data(folder, prepared)
    source, target = folder.read_tokenisers()
    return Ready(spec, source, target, prepared.corpus(source, target), prepared)


def _changed(spec: Spec, job: Job) -> list[str]:
    """What the user asks for now that the run does not have."""
    own, asked = spec.model_dump(mode="json"), _merged(job.file_layer, job.flag_layer)
    kinds = {f"{side}.kind": implied_kind(side, asked) for side in ("encoder", "decoder")}
    other = {key: kind for key, kind in kinds.items() if kind not in (None, own[key.split(".")[0]]["kind"])}
    if other:  # another family has other settings: there is no need to look at them one by one
        return differences({key: own[key.split(".")[0]]["kind"] for key in other}, other)
    now = compose(("run", own), ("file", job.file_layer), ("flag", job.flag_layer)).spec.model_dump(mode="json")
    return differences(own, now)


def _check_same_data(folder: RunFolder, prepared: Prepared) -> None:
    facts = folder.read_facts()
    now = {"fingerprint": prepared.fingerprint, "valid_fingerprint": prepared.valid_fingerprint}
    changed = differences({k: facts[k] for k in now}, now)
    if changed:
        raise UserError(
            f"the data are not those the run was started with: {'; '.join(changed)}",
            ", ".join([*prepared.files.pairs, *prepared.files.valid]),
            f"give the files as they were ({', '.join(facts['pairs'])}), or train anew into another --out",
        )


# training and finishing ---------------------------------------------------------------------------------------------


def _train(ready: Ready, folder: RunFolder, world: World, reporter: Reporter, init: Path | None) -> None:
    spec = ready.spec
    torch.manual_seed(spec.train.seed)
    model = assemble(spec, len(ready.source), len(ready.target)).to(world.device)
    validator = Validator.of(ready.prepared.valid, ready.source, ready.target, spec.train.batch_tokens)
    greedy = make_plan(spec.search.model_copy(update={"kind": "greedy"}), ready.target)
    trainer = Trainer(spec, model, ready.corpus, validator, greedy, folder, world, reporter)
    _restore(trainer, folder, world, reporter, init)
    trainer.run(lambda: draw_curves(folder.log, folder.path / "curves.png", folder.path.name))
    if world.first:
        _finish(ready, folder, model, validator, trainer, reporter)


def _restore(trainer: Trainer, folder: RunFolder, world: World, reporter: Reporter, init: Path | None) -> None:
    """From the run's own last checkpoint; of a new run from the weights of `init`, if any."""
    saved = checkpoint.load_last(folder.checkpoints, reporter.note)
    if saved is None:
        if world.first:
            Log(folder.log).cut(0)
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
    ready: Ready, folder: RunFolder, model: Seq2Seq[Any], validator: Validator, trainer: Trainer, reporter: Reporter
) -> None:
    """Score the best checkpoint by the run's own search, and write the card and the curves."""
    log = Log(folder.log)
    final = log.last()
    if final.get("kind") != "final":
        final = _final_scores(ready, folder, model, validator, trainer)
        log.write(final)
    facts = {**folder.read_facts(), "parameters": model.parameter_count}
    folder.write("README.md", card(folder.path.name, ready.spec, facts, folder.read_choices()["reasons"], final))
    draw_curves(folder.log, folder.path / "curves.png", folder.path.name)


def _final_scores(
    ready: Ready, folder: RunFolder, model: Seq2Seq[Any], validator: Validator, trainer: Trainer
) -> dict[str, Any]:
    progress, spec = trainer.progress, ready.spec
    snapshot.put_weights(checkpoint.load(folder.path / "best", weights_only=True).weights, model)
    part = validator.part(_affordable(trainer, len(validator.pairs)))
    found = part.evaluate(model, make_plan(spec.search, ready.target), trainer.world.device)
    search = spec.search
    return {
        "kind": "final",
        "step": progress.best_step,
        "steps": progress.step,
        **found.metrics,
        "pairs": found.pairs,
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
