"""Starting from another run's weights (--init): which settings they fix, and whether the data go with them."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import torch

from weft.core.errors import UserError
from weft.core.pair import UNKNOWN
from weft.core.reporting import Reporter
from weft.data.prepare import Prepared
from weft.data.text.tokens import Tokeniser, encode_pairs
from weft.learn.model import model_of
from weft.runs.folder import RunFolder, best_weights, differences
from weft.settings import Layer
from weft.spec import Data, Spec

PARTS = ("source", "target", "embed", "encoder", "bridge", "decoder", "head")  # of the settings, that weights fix
LARGEST_UNKNOWN = 0.2  # share of tokens that the run started from does not know, above which it is refused
CHECKED_PAIRS = 1000


def inherited(init: Path, data: Data) -> Layer:
    """Return the settings of another run that its weights fix, with the place of the tag."""
    spec = RunFolder(init).read_spec().model_dump(mode="json")
    kept = {name: spec[name] for name in PARTS}
    tag_at, unseen = spec["data"]["tag_at"], {"unseen": spec["data"]["unseen"]}
    placed = data.tag is not None or tag_at == "decoder"
    return {**kept, "data": {"tag_at": tag_at, **unseen} if placed else unseen}


def init_tokenisers(init: Path, spec: Spec, prepared: Prepared, reporter: Reporter) -> tuple[Tokeniser, Tokeniser]:
    """Return the tokenisers of the run that is started from, if its weights and tokens go with these settings and data.

    Checked before the new run folder is made.
    """
    source, target = RunFolder(init).read_tokenisers()
    _check_same("tag_at", spec.data.tag_at, source.tag_at, init, spec.data.tag is not None)
    _check_same("unseen", spec.data.unseen, source.unseen, init)
    _check_weights(init, spec, source, target)
    _check_known(prepared, source, target, init, reporter)
    return source, target.written(spec.backward)


def _check_weights(init: Path, spec: Spec, source: Tokeniser, target: Tokeniser) -> None:
    """Refuse settings that make a model of other shapes than the weights have; name them with both values."""
    with torch.device("meta"):  # shapes without numbers
        wanted = {name: p.shape for name, p in model_of(spec, source, target).named_parameters()}
    shapes = {name: weight.shape for name, weight in best_weights(RunFolder(init)).items()}
    if wanted == shapes:
        return
    theirs = RunFolder(init).read_spec().model_dump(mode="json")
    ours = spec.model_dump(mode="json")
    changed = differences({name: theirs[name] for name in PARTS}, {name: ours[name] for name in PARTS})
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


def _check_known(prepared: Prepared, source: Tokeniser, target: Tokeniser, init: Path, reporter: Reporter) -> None:
    """Note tokens of these data that the other run does not know; refuse them if they are many."""
    sample = list(islice(prepared.training(), CHECKED_PAIRS))
    for name, rows in zip(("source", "target"), encode_pairs(sample, source, target)):
        unknown = sum(ids.count(UNKNOWN) for ids in rows) / max(1, sum(len(ids) for ids in rows))
        if unknown > LARGEST_UNKNOWN:
            raise UserError(
                f"{unknown:.0%} of the {name} tokens are unknown to the run that --init names",
                str(init),
                "start from a run on data of this kind, or without --init",
            )
        if unknown:
            reporter.note(f"{unknown:.1%} of the {name} tokens are unknown to {init}")
    if prepared.survey.marks and not set(prepared.survey.marks) <= set(source.marks):
        missing = sorted(set(prepared.survey.marks) - set(source.marks))
        reporter.note(f"tags or features that {init} does not know: {' '.join(missing[:5])}")
