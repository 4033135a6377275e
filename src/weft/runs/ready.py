"""Everything that training needs, as a value: settings, sides and encoded data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from weft.data.corpus import Corpus
from weft.data.prepare import Prepared, Role
from weft.data.sides.label import Label, TokenLabels
from weft.data.sides.numbers import learned
from weft.data.sides.side import Side
from weft.data.sides.sides import Sides
from weft.data.text.tokens import Tokeniser
from weft.spec import Context, Spec
from weft.spec import Side as SideSpec


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
        return cls(spec, sides, prepared.corpus(sides, spec.data.augmented), prepared)

    def member(self, spec: Spec) -> Ready:
        """Return the same data for another model of the run, turned round if it writes from the other end."""
        target = self.sides.target
        if spec.backward == self.spec.backward or not isinstance(target, Tokeniser):
            return replace(self, spec=spec)
        return Ready.of(spec, replace(self.sides, target=target.written(spec.backward)), self.prepared)


def learn_sides(prepared: Prepared, spec: Spec) -> Sides:
    """Learn the sides that the settings ask for."""
    kinds = prepared.survey.kinds
    context = LEARN[kinds["context"]](prepared, spec, "context") if "context" in kinds else None
    if (kinds["source"], kinds["target"]) == ("text", "text"):
        source, target = _texts(prepared, spec)
        return Sides(source, target, context)
    source_side, target_side = LEARN[kinds["source"]], LEARN[kinds["target"]]
    return Sides(source_side(prepared, spec, "source"), target_side(prepared, spec, "target"), context)


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


def _numbers(prepared: Prepared, spec: Spec, role: Role) -> Side:
    survey, settings = prepared.survey.columns[role], spec.numbers
    masked = settings.missing == "mask" or (settings.missing == "auto" and survey["missing"] > 0)
    fills = settings.missing in ("interpolate", "mask") or (settings.missing == "auto" and role != "target")
    side = replace(learned(survey), indicator=masked and role != "target", fills=fills)
    if role == "context" and spec.context.use == "step":
        return side
    if role == "target":
        return replace(
            side,
            values=not settings.differences,
            differences=settings.differences,
            continues=survey["continues"] >= CONTINUES,
            length=settings.stop,
        )
    return replace(side, values=settings.values, differences=settings.differences)


CONTINUES = 0.9  # the share of targets that go on where their source ends, from which on steps are counted from there

LEARN: dict[str, Callable[[Prepared, Spec, Role], Side]] = {
    "text": _text,
    "label": _label,
    "labels": _labels,
    "numbers": _numbers,
}
