"""Starting from another run's weights (--init): what they fix, and whether the data go with them."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from weft.core.errors import UserError
from weft.core.pair import UNKNOWN
from weft.core.reporting import Reporter
from weft.data.prepare import Prepared
from weft.data.text.tokens import Tokeniser, encode_pairs
from weft.runs.folder import RunFolder
from weft.settings import Layer
from weft.spec import Data


def inherited(init: Path, data: Data) -> Layer:
    """The parts of another run's spec that its weights fix; a tag stands where it stood."""
    spec = RunFolder(init).read_spec().model_dump(mode="json")
    kept = {name: spec[name] for name in ("source", "target", "embed", "encoder", "bridge", "decoder", "head")}
    tag_at, unseen = spec["data"]["tag_at"], {"unseen": spec["data"]["unseen"]}
    placed = data.tag is not None or tag_at == "decoder"
    return {**kept, "data": {"tag_at": tag_at, **unseen} if placed else unseen}


def check_init(
    data: Data, prepared: Prepared, source: Tokeniser, target: Tokeniser, init: Path, reporter: Reporter
) -> None:
    """Whether these data can be learned with the symbols of the run that is started from."""
    _check_same("tag_at", data.tag_at, source.tag_at, init, data.tag is not None)
    _check_same("unseen", data.unseen, source.unseen, init)
    _check_known(prepared, source, target, init, reporter)


def _check_same(name: str, here: str, there: str, init: Path, counts: bool = True) -> None:
    if counts and here != there:
        raise UserError(
            f"data.{name}={here}, but the run that --init names was trained with data.{name}={there}",
            str(init),
            f"leave data.{name} out, or start without --init",
        )


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
