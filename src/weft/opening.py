"""Opening a run: a new one is looked at, chosen for and written down; an old one is checked against what is asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import weft
from weft.choose import DEFAULT_BUDGET_SECONDS, Choices, choose
from weft.choose.pace import Pace
from weft.choose.rivals import rivals
from weft.choose.trial import estimated, measured
from weft.core.errors import UserError
from weft.core.machine import Speed, matrix_speed
from weft.core.pair import UNKNOWN
from weft.data.batches import too_long
from weft.data.corpus import Corpus
from weft.data.files import sides
from weft.data.pairs import Columns
from weft.data.prepare import Files, Prepared
from weft.data.tokens import Tokeniser, encode_pairs
from weft.learn.folder import RunFolder, differences
from weft.learn.report import Reporter
from weft.settings import Clash, Composed, Layer, compose, flatten, implied_kind, merge
from weft.spec import Data, Spec


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
    chosen: Choices | None = None  # what the autopilot chose already, for runs that share its choices


@dataclass(frozen=True)
class Ready:
    """Everything a trainer needs."""

    spec: Spec
    source: Tokeniser
    target: Tokeniser
    corpus: Corpus
    prepared: Prepared


# starting -----------------------------------------------------------------------------------------------------------


def start(job: Job, asked: Spec, folder: RunFolder, pairs: Sequence[str], reporter: Reporter) -> Ready:
    """Look at the data, choose, and write down what the run is."""
    prepared = Prepared(files_of(asked.data, pairs, job.valid), progress=reporter.stage)
    inherited = _inherited(job.init, asked.data) if job.init else {}
    given = merge(inherited, job.file_layer, job.flag_layer)
    chosen = job.chosen or choose(prepared.survey, given, speed_for(asked), pace_for(asked))
    layers = (("autopilot", chosen.layer), ("init", inherited), ("file", job.file_layer), ("flag", job.flag_layer))
    composed = compose(*layers, ("flag", _data_layer(job)))
    _check_length(composed.spec)
    if job.init:
        source, target = RunFolder(job.init).read_tokenisers()
    else:
        source, target = learn_tokenisers(prepared, composed.spec)
    if job.init:
        _check_tag(composed.spec.data, source, job.init)
        _check_unseen(composed.spec.data, source, job.init)
        _check_known(prepared, source, target, job.init, reporter)
    corpus = prepared.corpus(source, target, composed.spec.data.invented)
    _say_notes(prepared, corpus, composed.spec, reporter)
    folder.create()
    with folder.locked():
        folder.write_tokenisers(source, target)
        folder.write_facts(_facts(job, folder, prepared, corpus, composed.spec.data))
        folder.write_candidates(_candidates(job, given, chosen, composed, prepared))
        folder.write_spec(composed.spec, composed.origins, chosen.reasons)
    _say_choices(chosen, composed, reporter)
    return Ready(composed.spec, source, target, corpus, prepared)


def _check_length(spec: Spec) -> None:
    if (spec.train.budget_seconds, spec.train.steps, spec.train.epochs) == (None, None, None):
        what = "the settings take away how long to train (steps, epochs or budget_seconds is null)"
        raise UserError(what, "settings train", "say it: --budget 10m, --steps N or --epochs N")


def _candidates(
    job: Job, given: Layer, chosen: Choices, composed: Composed, prepared: Prepared
) -> list[dict[str, Any]]:
    """What takes part in a race, the autopilot's own choice first; nothing where there is no race."""
    found = [] if job.chosen or job.init else rivals(prepared.survey, given, chosen)
    if not found:
        return []
    entries = [("what the rules choose", composed, chosen.reasons)]
    for rival in found:
        own = choose(prepared.survey, merge(given, rival.asked), speed_for(composed.spec), pace_for(composed.spec))
        layers = ("autopilot", merge(own.layer, rival.asked)), ("file", job.file_layer), ("flag", job.flag_layer)
        asked = [[key, str(value), rival.why] for key, value in flatten(rival.asked)]
        entries.append((rival.name, compose(*layers, ("flag", _data_layer(job))), [*own.reasons, *asked]))
    return [
        {"name": name, "spec": made.spec.model_dump(mode="json"), "origins": made.origins, "reasons": reasons}
        for name, made, reasons in entries
    ]


def asked_for(job: Job) -> Spec:
    """What the user asks for, so that mistakes are told before data are read; `data` and `train` are final in it."""
    layers = ("file", job.file_layer), ("flag", job.flag_layer)
    try:
        return compose(*layers).spec
    except Clash:  # with what the autopilot chooses they may go together; if not, it is told then
        final = ("data.", "train.")
        return compose(*((name, {k: v for k, v in flatten(tree) if k.startswith(final)}) for name, tree in layers)).spec


def speed_for(asked: Spec) -> Speed | None:
    """The machine's speed, if a run by the clock hangs on it."""
    return matrix_speed() if asked.train.steps is None and asked.train.epochs is None else None


def pace_for(asked: Spec) -> Pace | None:
    """How fast models learn here, measured in a small part of the budget, if a run by the clock hangs on it."""
    speed = speed_for(asked)
    if speed is None:
        return None
    return measured(asked.train.budget_seconds or DEFAULT_BUDGET_SECONDS, estimated(speed))


def files_of(data: Data, pairs: Sequence[str], valid: Sequence[str]) -> Files:
    columns = Columns(data.source, data.target, data.features, data.tag)
    return Files(tuple(pairs), tuple(valid), columns, data.on_bad_line, data.longest, data.hold_out)


def named_files(
    pairs: tuple[str, ...], valid: tuple[str, ...], file_layer: Layer, flag_layer: Layer
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files that are given, or where none are, those that the settings name (data.pairs, data.valid).

    A settings file that names other pairs than are given has validation pairs of those, not of these.
    """
    layers = ("file", file_layer), ("flag", flag_layer)
    trees = [(name, {"data": merge(layer).get("data", {})}) for name, layer in layers]
    data = compose(*trees).spec.data
    if pairs and (named := trees[0][1]["data"]).get("pairs") and "valid" not in trees[1][1]["data"]:
        data = data.model_copy(update={"valid": () if _absolute(pairs) != list(named["pairs"]) else data.valid})
    return pairs or data.pairs, valid or data.valid


def _data_layer(job: Job) -> Layer:
    files = {"pairs": _absolute(job.pairs), "valid": _absolute(job.valid)}
    return {"data": {name: paths for name, paths in files.items() if paths}}


def _absolute(paths: Sequence[str]) -> list[str]:
    """Paths that lead to the files from anywhere; both halves of a parallel pair."""
    return [p if p == "-" else ":".join(map(os.path.abspath, sides(p))) for p in paths]


def _inherited(init: Path, data: Data) -> Layer:
    """The parts of another run's spec that its weights fix; a tag stands where it stood."""
    spec = RunFolder(init).read_spec().model_dump(mode="json")
    kept = {name: spec[name] for name in ("source", "target", "embed", "encoder", "bridge", "decoder", "head")}
    tag_at, unseen = spec["data"]["tag_at"], {"unseen": spec["data"]["unseen"]}
    placed = data.tag is not None or tag_at == "decoder"
    return {**kept, "data": {"tag_at": tag_at, **unseen} if placed else unseen}


def _check_tag(data: Data, source: Tokeniser, init: Path) -> None:
    if data.tag is not None and data.tag_at != source.tag_at:
        raise UserError(
            f"data.tag_at={data.tag_at}, but the run that --init names was trained with data.tag_at={source.tag_at}",
            str(init),
            "leave data.tag_at out, or start without --init",
        )


def _check_unseen(data: Data, source: Tokeniser, init: Path) -> None:
    if data.unseen != source.unseen:
        raise UserError(
            f"data.unseen={data.unseen}, but the run that --init names was trained with data.unseen={source.unseen}",
            str(init),
            "leave data.unseen out, or start without --init",
        )


def learn_tokenisers(prepared: Prepared, spec: Spec) -> tuple[Tokeniser, Tokeniser]:
    sides = [(side.tokens, side.size) for side in (spec.source, spec.target)]
    return prepared.tokenisers(sides[0], sides[1], spec.embed.shared, spec.data.tag_at, spec.data.unseen)


def _check_known(prepared: Prepared, source: Tokeniser, target: Tokeniser, init: Path, reporter: Reporter) -> None:
    """The symbols of another run must be those of these data; a few unknown ones are told, many are refused."""
    some = list(islice(prepared.training(), 1000))
    for name, rows in zip(("source", "target"), encode_pairs(some, source, target)):
        unknown = sum(ids.count(UNKNOWN) for ids in rows) / max(1, sum(len(ids) for ids in rows))
        if unknown > 0.2:
            raise UserError(
                f"{unknown:.0%} of the {name} symbols are unknown to the run that --init names",
                str(init),
                "start from a run on data of this kind, or without --init",
            )
        if unknown:
            reporter.note(f"{unknown:.1%} of the {name} symbols are unknown to {init}")
    if prepared.survey.marks and not set(prepared.survey.marks) <= set(source.marks):
        missing = sorted(set(prepared.survey.marks) - set(source.marks))
        reporter.note(f"tags or features that {init} does not know: {' '.join(missing[:5])}")


def _facts(job: Job, folder: RunFolder, prepared: Prepared, corpus: Corpus, data: Data) -> dict[str, Any]:
    more = data.invented or data.unseen == "carried"  # than the training pairs is in the corpus
    return {
        "weft": weft.__version__,
        "folder": str(folder.path),
        "pairs": _absolute(job.pairs),
        "valid": _absolute(job.valid),
        "fingerprint": prepared.fingerprint,
        "valid_fingerprint": prepared.valid_fingerprint,
        "training_pairs": sum(1 for _ in prepared.training()) if more else len(corpus),
        "invented_pairs": data.invented,
        "valid_pairs": len(prepared.valid),
        "source_tabs": "\t" in prepared.survey.source.characters,
        "init": os.path.abspath(job.init) if job.init else None,
        "command": job.command,
    }


def _say_notes(prepared: Prepared, corpus: Corpus, spec: Spec, reporter: Reporter) -> None:
    for note in prepared.notes:
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


# going on -----------------------------------------------------------------------------------------------------------


def go_on(job: Job, folder: RunFolder, pairs: Sequence[str], reporter: Reporter) -> Ready:
    """Open a run again, refusing if settings or data have changed."""
    spec = folder.read_spec()
    changed = _changed(spec, job)
    if changed:
        raise UserError(
            f"the settings are not those of the run: {'; '.join(changed)}",
            str(folder.spec_file),
            "leave them out to go on, or train anew into another --out (--init starts from these weights)",
        )
    if not pairs and "-" in spec.data.pairs:
        todo = f"pipe the same pairs in again: … | weft train - --out {folder.path} --resume"
        raise UserError("the run's pairs came from a pipe, and are gone with it", str(folder.path), todo)
    prepared = Prepared(
        files_of(spec.data, pairs or spec.data.pairs, job.valid or spec.data.valid), progress=reporter.stage
    )
    _check_same_data(folder, prepared)
    _check_same_init(folder, job.init)
    source, target = folder.read_tokenisers()
    return Ready(spec, source, target, prepared.corpus(source, target, spec.data.invented), prepared)


def _changed(spec: Spec, job: Job) -> list[str]:
    """What the user asks for now that the run does not have."""
    own, asked = spec.model_dump(mode="json"), merge(job.file_layer, job.flag_layer)
    kinds = {f"{side}.kind": implied_kind(side, asked) for side in ("encoder", "decoder")}
    other = {key: kind for key, kind in kinds.items() if kind not in (None, own[key.split(".")[0]]["kind"])}
    if other:  # another family has other settings: there is no need to look at them one by one
        return differences({key: own[key.split(".")[0]]["kind"] for key in other}, other)
    files = {"data": {name: own["data"][name] for name in ("pairs", "valid")}}  # which are known by what they hold
    layers = ("run", own), ("file", job.file_layer), ("flag", job.flag_layer), ("run", files)
    now = compose(*layers).spec.model_dump(mode="json")
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


def _check_same_init(folder: RunFolder, init: Path | None) -> None:
    begun = folder.read_facts()["init"]
    if init is not None and os.path.abspath(init) != begun:
        raise UserError(
            f"the run was started from {begun or 'nothing'}, and it has its own weights by now",
            f"--init {init}",
            "leave --init out to go on, or train anew into another --out",
        )
