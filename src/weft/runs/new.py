"""Starting a run: survey its data, choose its settings, and write them down."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import weft
from weft.choose import Choices, choose
from weft.core.errors import UserError
from weft.core.reporting import Reporter
from weft.data.batches import too_long
from weft.data.corpus import Corpus
from weft.data.prepare import Prepared, given_in_memory
from weft.data.sides.sides import Sides
from weft.data.text.tokens import Tokeniser
from weft.learn.world import World
from weft.runs.folder import RunFolder
from weft.runs.init import check_kinds, inherited, init_sides, origin_of
from weft.runs.job import Job, absolute, data_layer, files_of, pace_for, speed_for
from weft.runs.members import with_side_by_side
from weft.runs.ready import Ready, learn_sides
from weft.runs.transfer import Origin, check_transfer, transfer
from weft.runs.weights import best_weights
from weft.settings import Composed, Layer, compose, merge
from weft.spec import Spec, Train


def start(
    job: Job, requested: Spec, folder: RunFolder, pairs: Sequence[str], world: World, reporter: Reporter
) -> Ready:
    """Survey the data, let the autopilot choose, and write the run down."""
    prepared = Prepared(files_of(requested, pairs, job.valid), progress=reporter.stage)
    origin = origin_of(job.init, requested.task) if job.init else None
    kept = {} if origin is None else origin.kept(prepared, merge(job.file_layer, job.flag_layer))
    chosen, composed = _settle(job, requested, prepared, origin, kept)
    spec = with_side_by_side(composed.spec, world) if composed.spec.train.members > 1 else composed.spec
    _check_train(spec.train)
    if job.init and origin is None:
        sides = init_sides(job.init, spec, prepared, reporter)
    else:
        sides = learn_sides(prepared, spec)
    taken = tuple[str, ...]()
    if origin is not None:
        sides = origin.join(sides, kept, spec)
        taken = _taken(origin, spec, sides, reporter)
    ready = Ready.of(spec, sides, prepared)
    _report_notes(ready, reporter)
    folder.create()
    with folder.locked():
        folder.write_sides(sides)
        folder.write_facts({**_facts(job, folder, ready), **({"init_taken": taken} if taken else {})})
        folder.write_spec(spec, composed.origins, chosen.reasons)
    _report_choices(chosen, composed, reporter)
    return ready


def _taken(origin: Origin, spec: Spec, sides: Sides, reporter: Reporter) -> tuple[str, ...]:
    """Report what the run takes from that of another task, and return the names of these tensors."""
    transferred = transfer(origin, best_weights(RunFolder(origin.path)), spec, sides)
    check_transfer(transferred, origin, spec.task)
    for sentence in transferred.described():
        reporter.note(f"--init {origin.path}: {sentence}")
    return tuple(each.new for each in transferred.taken)


def _settle(
    job: Job, requested: Spec, prepared: Prepared, origin: Origin | None, kept: Mapping[str, Tokeniser]
) -> tuple[Choices, Composed]:
    """Let the autopilot choose what nobody has set, and compose the settings of all."""
    of_init: Layer = {}
    if origin is not None:
        of_init = origin.settings(prepared, requested.task, kept, merge(job.file_layer, job.flag_layer))
    elif job.init:
        check_kinds(job.init, prepared)
        of_init = inherited(job.init, requested.data)
    given = merge(of_init, job.file_layer, job.flag_layer)
    chosen = job.chosen or choose(
        prepared.survey, given, speed_for(requested), pace_for(requested), pretrained=job.init is not None
    )
    layers = (("autopilot", chosen.layer), ("init", of_init), ("file", job.file_layer), ("flag", job.flag_layer))
    return chosen, compose(*layers, ("flag", data_layer(job)))


def _check_train(train: Train) -> None:
    """Check what is known only when everything is chosen."""
    if (train.budget_seconds, train.steps, train.epochs) == (None, None, None):
        what = "the settings do not say how long to train (steps, epochs and budget_seconds are null)"
        raise UserError(what, "settings train", "give --budget 10m, --steps N or --epochs N")
    if train.reversed_members and train.members == 1:
        what = "train.reversed_members=true needs several models, but train.members is 1"
        todo = "set train.members=2 or more, or train.reversed_members=false"
        raise UserError(what, "setting train.reversed_members", todo)


def _facts(job: Job, folder: RunFolder, ready: Ready) -> dict[str, Any]:
    """Return what data.json holds: what the data were, and where the run came from."""
    prepared = ready.prepared
    return {
        "weft": weft.__version__,
        "folder": str(folder.path),
        "pairs": absolute(job.pairs),
        "columns": prepared.column_names,
        "valid": absolute(job.valid),
        "fingerprint": prepared.fingerprint,
        "valid_fingerprint": prepared.valid_fingerprint,
        "training_pairs": prepared.training_pairs,
        "augmented_pairs": ready.spec.data.augmented,
        "valid_pairs": len(prepared.valid),
        "kept_aside": prepared.held_out,
        "source_tabs": "\t" in prepared.survey.source.characters,
        "init": os.path.abspath(job.init) if job.init else None,
        "cache": prepared.entries_used(ready.corpus),
        "command": job.command,
    }


def _report_notes(ready: Ready, reporter: Reporter) -> None:
    prepared, corpus, spec = ready.prepared, ready.corpus, ready.spec
    for note in prepared.notes if given_in_memory(prepared.files.pairs) else (*prepared.columns, *prepared.notes):
        reporter.note(note)
    if spec.objective.kind == "ctc":
        _report_alignable(corpus, spec.factor, reporter)
    left_out = too_long(corpus.source_lengths, corpus.target_lengths, spec.train.batch_tokens)
    if too_long(*corpus.lengths(spec.objective.kind == "ctc", spec.factor), spec.train.batch_tokens) == len(corpus):
        raise UserError(
            f"no pair fits into a batch of {spec.train.batch_tokens} tokens",
            "setting train.batch_tokens",
            "raise train.batch_tokens, or shorten the lines",
        )
    if left_out:
        limit = f"train.batch_tokens={spec.train.batch_tokens}"
        reporter.note(f"pairs left out because their source or target has more tokens than {limit}: {left_out:,}")


def _report_alignable(corpus: Corpus, factor: int, reporter: Reporter) -> None:
    """Report targets that CTC cannot produce: it writes at most one token at each position of the source."""
    left_out = int((~corpus.alignable(factor)).sum())
    what = (
        "CTC cannot produce targets that are longer than their sources "
        "(two equal adjacent tokens need an extra position)"
    )
    if left_out == len(corpus):
        raise UserError(
            f"{what}; all {left_out:,} pairs have such targets",
            "setting head.kind=ctc",
            "use smaller source tokens (--set source.tokens=characters or bytes), or use head.kind=tokens",
        )
    if left_out:
        reporter.note(f"left out {left_out:,} of {len(corpus):,} pairs, because {what}")


def _report_choices(chosen: Choices, composed: Composed, reporter: Reporter) -> None:
    for key, value, why in chosen.reasons:
        if composed.origins.get(key) == "autopilot":
            reporter.note(f"chose {key} = {value}: {why}")
    for note in chosen.notes:
        reporter.note(note)
