"""A new run: its data are looked at, its settings chosen, and what it is is written down."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import weft
from weft.choose import Choices, choose
from weft.core.errors import UserError
from weft.core.reporting import Reporter
from weft.data.batches import too_long
from weft.data.corpus import Corpus
from weft.data.prepare import Prepared
from weft.runs.folder import RunFolder
from weft.runs.init import check_init, inherited
from weft.runs.job import Job, Ready, absolute, data_layer, files_of, learn_tokenisers, pace_for, speed_for
from weft.settings import Composed, compose, merge
from weft.spec import Data, Spec, Train


def start(job: Job, asked: Spec, folder: RunFolder, pairs: Sequence[str], reporter: Reporter) -> Ready:
    """Look at the data, choose, and write down what the run is."""
    prepared = Prepared(files_of(asked.data, pairs, job.valid), progress=reporter.stage)
    of_init = inherited(job.init, asked.data) if job.init else {}
    given = merge(of_init, job.file_layer, job.flag_layer)
    chosen = job.chosen or choose(prepared.survey, given, speed_for(asked), pace_for(asked))
    layers = (("autopilot", chosen.layer), ("init", of_init), ("file", job.file_layer), ("flag", job.flag_layer))
    composed = compose(*layers, ("flag", data_layer(job)))
    _check_train(composed.spec.train)
    if job.init:
        source, target = RunFolder(job.init).read_tokenisers()
        check_init(composed.spec.data, prepared, source, target, job.init, reporter)
        target = target.written(composed.spec.backward)
    else:
        source, target = learn_tokenisers(prepared, composed.spec)
    corpus = prepared.corpus(source, target, composed.spec.data.augmented)
    _say_notes(prepared, corpus, composed.spec, reporter)
    folder.create()
    with folder.locked():
        folder.write_tokenisers(source, target)
        folder.write_facts(_facts(job, folder, prepared, composed.spec.data))
        folder.write_spec(composed.spec, composed.origins, chosen.reasons)
    _say_choices(chosen, composed, reporter)
    return Ready(composed.spec, source, target, corpus, prepared)


def _check_train(train: Train) -> None:
    """What can only be told when everything is chosen."""
    if (train.budget_seconds, train.steps, train.epochs) == (None, None, None):
        what = "the settings take away how long to train (steps, epochs or budget_seconds is null)"
        raise UserError(what, "settings train", "say it: --budget 10m, --steps N or --epochs N")
    if train.reversed_members and train.members == 1:
        what = "train.reversed_members=true is about several models, and there is one"
        todo = "set train.members=2 or more, or train.reversed_members=false"
        raise UserError(what, "setting train.reversed_members", todo)


def _facts(job: Job, folder: RunFolder, prepared: Prepared, data: Data) -> dict[str, Any]:
    return {
        "weft": weft.__version__,
        "folder": str(folder.path),
        "pairs": absolute(job.pairs),
        "valid": absolute(job.valid),
        "fingerprint": prepared.fingerprint,
        "valid_fingerprint": prepared.valid_fingerprint,
        "training_pairs": prepared.training_pairs,
        "invented_pairs": data.augmented,
        "valid_pairs": len(prepared.valid),
        "kept_aside": prepared.kept_aside,
        "source_tabs": "\t" in prepared.survey.source.characters,
        "init": os.path.abspath(job.init) if job.init else None,
        "command": job.command,
    }


def _say_notes(prepared: Prepared, corpus: Corpus, spec: Spec, reporter: Reporter) -> None:
    for note in (*prepared.columns, *prepared.notes):
        reporter.note(note)
    if spec.objective.kind == "ctc":
        _say_alignable(corpus, reporter)
    left_out = too_long(corpus.source_lengths, corpus.target_lengths, spec.train.batch_tokens)
    if too_long(*corpus.lengths(spec.objective.kind == "ctc"), spec.train.batch_tokens) == len(corpus):
        raise UserError(
            f"no pair fits into a batch of {spec.train.batch_tokens} symbols",
            "setting train.batch_tokens",
            "raise train.batch_tokens, or cut the lines",
        )
    if left_out:
        limit = f"train.batch_tokens={spec.train.batch_tokens}"
        reporter.note(f"pairs left out because a side has more symbols than {limit}: {left_out:,}")
    if prepared.files.valid and (repeats := prepared.repeats()):
        reporter.note(
            f"{repeats:,} of {len(prepared.valid):,} validation pairs are training pairs too: scores will flatter"
        )


def _say_alignable(corpus: Corpus, reporter: Reporter) -> None:
    """CTC says at most one symbol at each place of the source."""
    left_out = int((~corpus.alignable).sum())
    what = "targets that are longer than their source (a blank between equal symbols counted), which CTC cannot say"
    if left_out == len(corpus):
        raise UserError(
            f"all {left_out:,} pairs have {what}",
            "setting head.kind=ctc",
            "cut the source into smaller symbols (--set source.tokens=characters or bytes), or use head.kind=tokens",
        )
    if left_out:
        reporter.note(f"pairs left out, {what}: {left_out:,} of {len(corpus):,}")


def _say_choices(chosen: Choices, composed: Composed, reporter: Reporter) -> None:
    for key, value, why in chosen.reasons:
        if composed.origins.get(key) == "autopilot":
            reporter.note(f"chose {key} = {value}: {why}")
    for note in chosen.notes:
        reporter.note(note)
