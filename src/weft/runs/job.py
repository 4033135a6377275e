"""What the user asks `weft train` for, and what follows from it before any data are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from pathlib import Path
from typing import Literal

from weft.choose import DEFAULT_BUDGET_SECONDS, Choices
from weft.choose.measure import estimated, measured
from weft.choose.throughput import Throughput
from weft.compatibility.tables import TARGETS
from weft.core.errors import UserError
from weft.core.machine import Speed, matrix_speed
from weft.data.cells import Kinds
from weft.data.files import sides
from weft.data.formats import kind_of
from weft.data.pairs import Columns
from weft.data.prepare import Files
from weft.learn.world import pick_device
from weft.settings import Clash, Layer, compose, flatten, merge
from weft.spec import Data, Spec
from weft.tasks import TASKS


@dataclass(frozen=True)
class Job:
    """One call of `weft train`."""

    pairs: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    out: Path | None = None
    file_layer: Layer = field(default_factory=dict)
    flag_layer: Layer = field(default_factory=dict)
    resume: bool = False
    init: Path | None = None
    command: str = ""
    strict: bool = False  # whether a damaged checkpoint is an error, instead of resuming from an older one
    chosen: Choices | None = None  # what the autopilot chose already, for runs that share its choices


def requested_spec(job: Job) -> Spec:
    """Return the settings that the user asks for, so that mistakes are told before data are read.

    `data` and `train` are final in it; the autopilot chooses the rest.
    """
    layers = ("file", job.file_layer), ("flag", job.flag_layer)
    try:
        return compose(*layers).spec
    except Clash:  # they may go together with what the autopilot chooses; if not, that is told then
        final = ("data.", "train.", "task")
        return compose(*((name, {k: v for k, v in flatten(tree) if k.startswith(final)}) for name, tree in layers)).spec


def named_files(
    pairs: tuple[str, ...], valid: tuple[str, ...], file_layer: Layer, flag_layer: Layer
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files that are given, or where none are, those that the settings name (data.pairs, data.valid).

    A settings file that names other pairs than are given has validation pairs of those, not of these.
    """
    layers = ("file", file_layer), ("flag", flag_layer)
    trees = [
        (name, {"data": {}, **{k: v for k, v in merge(layer).items() if k in ("data", "task")}})
        for name, layer in layers
    ]
    data = compose(*trees).spec.data
    (_, in_file), (_, in_flags) = trees
    named = in_file["data"].get("pairs")
    if pairs and named and absolute(pairs) != absolute(named) and "valid" not in in_flags["data"]:
        return pairs, valid
    return pairs or data.pairs, valid or data.valid


def files_of(spec: Spec, pairs: Sequence[str], valid: Sequence[str]) -> Files:
    """Return the files that training reads; of several validation sets the first selects the checkpoint."""
    data = spec.data
    kinds = replace(kinds_of(spec), running=_running(spec, (*pairs, *valid)))
    return Files(tuple(pairs), tuple(valid), columns_of(data), data.on_bad_line, data.longest, data.hold_out, kinds)


def _running(spec: Spec, paths: Sequence[str]) -> Literal["", "pieces", "passages"]:
    """Return whether plain files are read as running text, and how it is cut; then there are no tables beside them."""
    if not TASKS[spec.task].alone or spec.data.lines:
        return ""
    plain = [path for path in paths if kind_of(path) in ("", "stdin")]
    tables = [path for path in paths if path not in plain]
    if plain and tables:
        what = f"{plain[0]} is running text, but {tables[0]} is a table"
        raise UserError(what, tables[0], "give files of one kind, or read the text line by line: --set data.lines=true")
    if not plain:
        return ""
    return "passages" if TASKS[spec.task].corrupts else "pieces"


def kinds_of(spec: Spec) -> Kinds:
    """Return the kinds of columns that the settings give; a task fixes that of the target."""
    kinds = spec.source.kind, TARGETS.get(spec.task, spec.target.kind), spec.context.kind
    source, target, context = (None if kind == "auto" else kind for kind in kinds)
    missing = {"stop": (), "auto": ("source", "context")}.get(spec.numbers.missing, ("source", "target", "context"))
    in_step, seconds, megapixels = spec.context.use == "step", spec.audio.longest, spec.image.largest
    return Kinds(source, target, context, missing, in_step, seconds=seconds, megapixels=megapixels)


def columns_of(data: Data) -> Columns:
    """Return the columns that the settings name."""
    named = Columns(data.source, data.target, data.features, data.tag, data.context)
    return replace(named, tag_from=data.tag_from, swap=data.swap_pairs, start=data.start, end=data.end)


def data_layer(job: Job) -> Layer:
    """The files of a job that names some, over those of a settings file."""
    return {"data": {"pairs": absolute(job.pairs), "valid": absolute(job.valid)}} if job.pairs else {}


def absolute(paths: Sequence[str]) -> list[str]:
    """Paths that lead to the files from anywhere; both halves of a parallel pair."""
    return [p if p == "-" else ":".join(map(os.path.abspath, sides(p))) for p in paths]


def speed_for(asked: Spec) -> Speed | None:
    """The machine's speed, if a run by the clock hangs on it."""
    by_the_clock = asked.train.steps is None and asked.train.epochs is None
    return matrix_speed(pick_device(asked.train.device).type) if by_the_clock else None


def pace_for(asked: Spec) -> Throughput | None:
    """How fast models learn here, measured in a small part of the budget, if a run by the clock hangs on it."""
    speed = speed_for(asked)
    if speed is None:
        return None
    return measured(asked.train.budget_seconds or DEFAULT_BUDGET_SECONDS, estimated(speed))


def default_out(job: Job) -> Path:
    """Return `pairs-run` for pairs.tsv, in the current folder; with a number where that holds another run.

    With --resume it is the last of them.
    """
    if not job.pairs:
        if job.resume:
            raise UserError("--resume needs --out RUN", "--resume", "name the run: weft train --out RUN --resume")
        raise UserError("no pairs are given", "PAIRS", "name a pairs file: weft train pairs.tsv")
    stem = Path(sides(job.pairs[0])[0]).name.split(".")[0] or "stdin"
    first = Path(f"{'stdin' if job.pairs[0] == '-' else stem}-run")
    numbered = (Path(f"{first}-{n}") for n in range(2, 10_000))
    taken = list(takewhile(Path.exists, chain([first], numbered)))
    if job.resume:
        return taken[-1] if taken else first
    return Path(f"{first}-{len(taken) + 1}") if taken else first
