"""Starting from another run's weights (--init): which settings they fix, and whether the data go with them."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from weft.core.errors import UserError
from weft.core.pair import UNKNOWN
from weft.core.reporting import Reporter
from weft.core.shapes import Hidden, Symbols
from weft.data.prepare import Prepared, counted
from weft.data.sides.numbers import Numbers
from weft.data.sides.sides import Sides
from weft.data.text.tokens import Tokeniser
from weft.learn.model import model_of
from weft.runs.folder import RunFolder, differences
from weft.runs.transfer import Origin
from weft.runs.weights import best_weights
from weft.settings import Layer
from weft.spec import Data, Spec

PARTS = ("task", "source", "target", "context", "numbers", "embed", "encoder", "bridge", "decoder", "pool", "head")
LARGEST_UNKNOWN = 0.2  # share of tokens that the run started from does not know, above which it is refused
CHECKED_PAIRS = 1000


def inherited(init: Path, data: Data) -> Layer:
    """Return the settings of another run that its weights fix, with the place of the tag."""
    spec = RunFolder(init).read_spec().model_dump(mode="json")
    kept = _fixed(spec)
    tag_at, unseen = spec["data"]["tag_at"], {"unseen": spec["data"]["unseen"]}
    placed = data.tagged or tag_at in ("decoder", "both")
    return {**kept, "data": {"tag_at": tag_at, **unseen} if placed else unseen}


def _fixed(spec: Layer) -> Layer:
    """Return the settings that weights fix; that of numbers also depends on the objective."""
    fixed = {name: spec[name] for name in PARTS}
    if spec["head"]["kind"] == "numbers":
        fixed["objective"] = {name: spec["objective"][name] for name in ("kind", "components")}
    return fixed


def origin_of(init: Path, task: str) -> Origin | None:
    """Return the run of another task that a run starts from; None where it has the same task.

    A run that another process is training is refused: its weights may change while they are taken.
    """
    folder = RunFolder(init)
    spec = folder.read_spec()
    if folder.is_locked():
        todo = "wait until it has finished, or stop it with Ctrl-C, which saves it"
        raise UserError("the run that --init names is still being trained", str(init), todo)
    return None if spec.task == task else Origin(init)


def init_sides(init: Path, spec: Spec, prepared: Prepared, reporter: Reporter) -> Sides:
    """Return the sides of the run that is started from, if its weights and tokens go with these settings and data.

    Checked before the new run folder is made.
    """
    sides = RunFolder(init).read_sides()
    if isinstance(sides.source, Tokeniser):
        _check_same("tag_at", spec.data.tag_at, sides.source.tag_at, init, spec.data.tagged)
        _check_same("unseen", spec.data.unseen, sides.source.unseen, init)
    _check_weights(init, spec, sides)
    _check_known(prepared, sides, init, reporter)
    target = sides.target
    return replace(sides, target=target.written(spec.backward)) if isinstance(target, Tokeniser) else sides


def check_kinds(init: Path, prepared: Prepared) -> None:
    """Refuse data of other kinds than the run was trained on, whose settings would not go with them."""
    sides = RunFolder(init).read_sides()
    theirs = {role: sides.kinds.of(role) or "none" for role in sides.by_role}
    ours = prepared.survey.kinds
    for role in ("source", "target", "context"):
        here, there = ours.get(role, "none"), theirs.get(role, "none")
        if here != there:
            raise UserError(
                f"the {role} is of kind {here}, but in the run given by --init it is of kind {there}",
                str(init),
                "start from a run on data of this kind, or without --init",
            )
        if (
            isinstance(side := sides.by_role.get(role), Numbers)
            and side.width != prepared.survey.columns[role]["width"]
        ):
            raise UserError(
                f"the {role} has {counted(prepared.survey.columns[role]['width'], 'number')} per step, but in the run "
                f"given by --init it has {side.width}",
                str(init),
                "start from a run on data of this width, or without --init",
            )


def _check_weights(init: Path, spec: Spec, sides: Sides) -> None:
    """Refuse settings that make a model of other shapes than the weights have; name them with both values."""
    with torch.device("meta"):  # shapes without numbers
        wanted = {name: p.shape for name, p in model_of(spec, sides).named_parameters()}
    shapes = {name: weight.shape for name, weight in best_weights(RunFolder(init)).items()}
    if wanted == shapes:
        return
    theirs = RunFolder(init).read_spec().model_dump(mode="json")
    ours = spec.model_dump(mode="json")
    changed = differences(_fixed(theirs), _fixed(ours))
    keys = [change.partition(":")[0] for change in changed]
    raise UserError(
        f"the weights of the run that --init names do not fit these settings: {'; '.join(changed)}",
        str(init),
        f"leave {', '.join(keys)} out, or start without --init",
    )


def _check_same(name: str, here: str, there: str, init: Path, counts: bool = True) -> None:
    if counts and here != there:
        raise UserError(
            f"data.{name}={here}, but the run that --init names was trained with data.{name}={there}",
            str(init),
            f"leave data.{name} out, or start without --init",
        )


def _check_known(prepared: Prepared, sides: Sides, init: Path, reporter: Reporter) -> None:
    """Note tokens of these data that the other run does not know; refuse them if they are many."""
    encoded = sides.encode(list(islice(prepared.training(), CHECKED_PAIRS)))
    for name, rows in (("source", encoded.source), ("target", encoded.target)):
        shape = sides.by_role[name].shape
        if not isinstance(shape, Symbols) or isinstance(shape, Hidden):  # hidden tokens are those of the source
            continue
        unknown = sum(list(ids).count(UNKNOWN) for ids in rows) / max(1, sum(len(ids) for ids in rows))
        if unknown > LARGEST_UNKNOWN:
            raise UserError(
                f"{unknown:.0%} of the {name} tokens are unknown to the run that --init names",
                str(init),
                "start from a run on data of this kind, or without --init",
            )
        if unknown:
            reporter.note(f"{unknown:.1%} of the {name} tokens are unknown to {init}")
    source = sides.source
    if isinstance(source, Tokeniser) and prepared.survey.marks and not set(prepared.survey.marks) <= set(source.marks):
        missing = sorted(set(prepared.survey.marks) - set(source.marks))
        reporter.note(f"tags or features that {init} does not know: {' '.join(missing[:5])}")
