"""Everything that training needs, as a value: settings, sides and encoded data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from weft.core.errors import UserError
from weft.core.pair import MASK, Pair
from weft.data.corpus import Corpus
from weft.data.corrupted import CorruptedCorpus
from weft.data.prepare import Prepared, Role
from weft.data.running import RunningText
from weft.data.sides.audio import Audio
from weft.data.sides.corrupted import Corrupted, HiddenSymbols
from weft.data.sides.document import Document, with_excerpts
from weft.data.sides.image import Image
from weft.data.sides.label import Label, TokenLabels
from weft.data.sides.notes import learned as learned_notes
from weft.data.sides.nothing import NoColumn
from weft.data.sides.numbers import Numbers, isotropic, learned
from weft.data.sides.side import Side, cells
from weft.data.sides.sides import Sides
from weft.data.sides.span import Span
from weft.data.text.tokens import Tokeniser
from weft.spec import Context, Spec
from weft.spec import Numbers as NumbersSpec
from weft.spec import Side as SideSpec
from weft.tasks import TASKS


def encoded(prepared: Prepared, sides: Sides, spec: Spec) -> Corpus:
    """Return what is learned from: the training pairs, and those that are made of them."""
    return prepared.corpus(sides, spec.data.augmented, spec.retrieve.excerpts)


@dataclass(frozen=True)
class Ready:
    """A run that is ready to be trained."""

    spec: Spec
    sides: Sides
    corpus: Corpus
    prepared: Prepared

    @classmethod
    def of(cls, spec: Spec, sides: Sides, prepared: Prepared) -> Ready:
        """Encode the training pairs, or read them from the cache."""
        corpus = encoded(prepared, sides, spec)
        if isinstance(sides.source, Corrupted):
            corpus = CorruptedCorpus(corpus.folder, sides.shapes)
        if sides.running is not None:
            corpus = RunningText(corpus.folder, sides.running.window, sides.running.carried)
        return cls(spec, sides, corpus, prepared)

    @property
    def valid(self) -> list[Pair]:
        """Return the pairs to validate on; of a document without a query, a sentence is the query for the rest."""
        pairs = self.prepared.valid
        if not isinstance(self.sides.target, Document) or all(pair.source != pair.target for pair in pairs):
            return pairs
        return list(with_excerpts(pairs, 1)) or pairs

    def member(self, spec: Spec) -> Ready:
        """Return the same data for another model of the run, turned round if it writes from the other end."""
        target = self.sides.target
        if spec.backward == self.spec.backward or not isinstance(target, Tokeniser):
            return replace(self, spec=spec)
        return Ready.of(spec, replace(self.sides, target=target.written(spec.backward)), self.prepared)


def learn_sides(prepared: Prepared, spec: Spec) -> Sides:
    """Learn the sides that the settings ask for."""
    kinds = prepared.survey.kinds
    if TASKS[spec.task].corrupts:
        return _corrupted(prepared, spec)
    if spec.context.shared and "context" in kinds:
        both = prepared.tokeniser(
            "source", spec.source.tokens, spec.source.size, spec.data.tag_at, spec.data.unseen, also="context"
        )
        return Sides(both, LEARN[kinds["target"]](prepared, spec, "target"), both)
    if kinds["target"] == "document":
        return _documents(prepared, spec)
    context = LEARN[kinds["context"]](prepared, spec, "context") if "context" in kinds else None
    if (kinds["source"], kinds["target"]) == ("text", "text"):
        source, target = _texts(prepared, spec)
        return Sides(source, target, context)
    source_side, target_side = LEARN[kinds["source"]], LEARN[kinds["target"]]
    return Sides(source_side(prepared, spec, "source"), target_side(prepared, spec, "target"), context)


def _corrupted(prepared: Prepared, spec: Spec) -> Sides:
    """Learn the sides of a task that restores a text from its corruption."""
    tokeniser = prepared.tokeniser("target", spec.target.tokens, spec.target.size, marks=(MASK,))
    hides = spec.task == "masked-lm"
    names = ("share", "hidden", "replaced") if hides else ("spans", "span", "dropped", "shuffled")
    amounts = {name: getattr(spec.corrupt, name) for name in names}
    source = Corrupted(spec.task, amounts, prepared.survey.running)
    return Sides(source, HiddenSymbols(tokeniser) if hides else tokeniser)


def _documents(prepared: Prepared, spec: Spec) -> Sides:
    """Learn one tokeniser of queries and documents."""
    tokens = spec.source.tokens, spec.source.size
    tokeniser = prepared.tokeniser("source", *tokens, spec.data.tag_at, spec.data.unseen, also="target")
    return Sides(tokeniser, Document(tokeniser, spec.retrieve.longest))


def _texts(prepared: Prepared, spec: Spec) -> tuple[Tokeniser, Tokeniser]:
    """Learn the tokenisers of source and target, which may be one."""
    parts = [(part.tokens, part.size) for part in (spec.source, spec.target)]
    source, target = prepared.tokenisers(parts[0], parts[1], spec.embed.shared, spec.data.tag_at, spec.data.unseen)
    return source, target.written(spec.backward)


def _text(prepared: Prepared, spec: Spec, role: Role) -> Side:
    parts: dict[str, SideSpec | Context] = {"source": spec.source, "target": spec.target, "context": spec.context}
    part = parts[role]
    return prepared.tokeniser(role, part.tokens, part.size, spec.data.tag_at, spec.data.unseen)


def _label(prepared: Prepared, spec: Spec, role: Role) -> Side:
    labels = prepared.survey.columns[role]["labels"]
    return Label(list(labels), list(labels.values()))


def _labels(prepared: Prepared, spec: Spec, role: Role) -> Side:
    labels = prepared.survey.columns[role]["labels"]
    return TokenLabels(list(labels), list(labels.values()))


def _span(prepared: Prepared, spec: Spec, role: Role) -> Side:
    survey, settings = prepared.survey.columns[role], spec.answer
    return Span(settings.longest, survey["none"] > 0, settings.window, settings.stride, settings.unit)


def _numbers(prepared: Prepared, spec: Spec, role: Role) -> Side:
    survey, settings = prepared.survey.columns[role], spec.numbers
    masked = settings.missing == "mask" or (settings.missing == "auto" and survey["missing"] > 0)
    fills = settings.missing in ("interpolate", "mask") or (settings.missing == "auto" and role != "target")
    side = replace(learned(survey), indicator=masked and role != "target", fills=fills)
    if settings.rotate or settings.mirror:
        side = _in_the_plane(side, prepared.survey.columns["target"], settings.rotate)
    if role == "context" and spec.context.use == "step":
        return side
    if role == "target":
        continues = survey["continues"] >= CONTINUES
        _check_target(settings, survey, continues)
        return replace(
            side,
            step_scale=_target_steps(side, survey, settings),
            values=not settings.differences,
            differences=settings.differences,
            continues=continues and (settings.differences or survey["going_on"] > 0),
            momentum=settings.momentum,
            length=settings.stop,
        )
    return replace(side, values=settings.values, differences=settings.differences)


def _check_target(settings: NumbersSpec, survey: Mapping[str, Any], continues: bool) -> None:
    """Refuse settings that the target does not allow."""
    if settings.rotate and survey["width"] != 2:
        what = f"rotation needs 2 numbers per step (x and y), but the target has {survey['width']}"
        raise UserError(what, "numbers.rotate", "leave it out; numbers.mirror works with any number of values per step")
    if settings.momentum and not continues:
        what = (
            f"momentum needs targets that continue from the end of their source, but only {survey['continues']:.0%} do"
        )
        raise UserError(what, "numbers.momentum", "leave it out")


def _target_steps(side: Numbers, survey: Mapping[str, Any], settings: NumbersSpec) -> tuple[float, ...]:
    """Return the scale of what is predicted of each step."""
    if not settings.momentum:
        return side.step_scale
    changes = replace(side, step_scale=tuple(survey["change_scale"]))
    return (isotropic(changes) if settings.rotate else changes).step_scale


def _in_the_plane(side: Numbers, target: Mapping[str, Any], rotated: bool) -> Numbers:
    """Return a side that turns around the same point as the target, if it has as many numbers per step."""
    if side.width != target["width"]:
        return side
    centred = replace(side, mean=tuple(target["mean"]))
    return isotropic(centred) if rotated else centred


def _notes(prepared: Prepared, spec: Spec, role: Role) -> Side:
    return learned_notes(prepared.survey.columns[role], spec.numbers.stop if role == "target" else "fixed")


def _audio(prepared: Prepared, spec: Spec, role: Role) -> Side:
    survey, settings = prepared.survey.columns[role], spec.audio
    highest = settings.highest or min(HIGHEST, min(map(int, survey["rates"])) / 2)
    side = Audio(
        settings.bands,
        settings.lowest,
        highest,
        deltas=settings.deltas,
        normalise=settings.normalise,
        longest=settings.longest,
        trim=settings.trim,
        range=settings.range,
    )
    if settings.normalise != "corpus":
        return side
    step = max(1, prepared.training_pairs // NORMALISED)
    recordings = cells(list(islice(prepared.training(), 0, None, step)), role)
    return side.fitted(recordings)


def _image(prepared: Prepared, spec: Spec, role: Role) -> Side:
    survey, settings = prepared.survey.columns[role], spec.image
    coloured = settings.colour == "colour" or (settings.colour == "auto" and survey["coloured"] > 0)
    free = settings.layout == "columns"
    width = settings.width or (0 if free else max(1, round(settings.height * survey["ratio"])))
    return Image(settings.height, width, coloured, settings.fit, settings.largest)


HIGHEST = 8000.0  # Hz: speech has little above
NORMALISED = 500  # recordings that means and deviations of the corpus are taken from


def _nothing(prepared: Prepared, spec: Spec, role: Role) -> Side:
    if not prepared.survey.running:
        return NoColumn()
    return NoColumn(spec.train.window, carried=spec.decoder.kind == "recurrent")


CONTINUES = 0.9  # the share of targets that go on where their source ends, from which on steps are counted from there

LEARN: dict[str, Callable[[Prepared, Spec, Role], Side]] = {
    "text": _text,
    "label": _label,
    "labels": _labels,
    "numbers": _numbers,
    "notes": _notes,
    "none": _nothing,
    "audio": _audio,
    "image": _image,
    "span": _span,
}
