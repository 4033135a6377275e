"""The settings that all cells share, and those of one cell.

The autopilot chooses once, for the settings without what varies, and every cell takes its values: tokens, widths,
batches, rate, dropout, metric. A cell differs by what varies, and by what that forces:

- a side of another kind than the base's (`encoder.kind=transformer`) keeps its width, gets what that kind needs besides
  (layers, heads, inner) and loses what only the base's kind has, even if it was set; positions, and how much faster
  embeddings learn than the rest, go with the kinds;
- a side cut otherwise (`target.tokens=bpe`) gets the size and the limit of output length that go with the cut.

So a Transformer is compared at the base's rate and dropout, not at those that the autopilot would take for it: vary
`train.rate` too where that matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel

from weft.choose import Choices, choose
from weft.compare.variants import Variant
from weft.core.machine import Speed
from weft.data.survey import Survey
from weft.settings import Clash, Layer, compose, flatten, implied_kind, merge, put
from weft.spec import Spec

SIDES, PAIRED = ("encoder", "decoder"), ("source", "target")
WITH_KINDS = ("embed.positions", "train.embed_rate")  # what the autopilot chooses by the kinds of the sides,
WITH_TOKENS = ("embed.shared", "search.max_ratio", "data.unseen")  # and by how they are cut

# what is compared is one model for all of its budget, unless the user says otherwise; what goes with some decoders
# only is chosen for none
ONLY_ALONE = (
    "train.members",
    "train.reversed_members",
    "train.max_epochs",
    "bridge.give",
    "decoder.attention.location_aware",
)


@dataclass(frozen=True)
class Base:
    """What is the same for all cells."""

    survey: Survey
    speed: Speed | None
    file_layer: Layer
    flag_layer: Layer
    chosen: Choices
    spec: Spec


@dataclass(frozen=True)
class Layers:
    """The settings of one cell as a run takes them; `dropped` were set by the user and are not its kind's."""

    chosen: Layer
    file_layer: Layer
    flag_layer: Layer
    dropped: tuple[str, ...] = ()

    def compose(self) -> Spec:
        return compose(("autopilot", self.chosen), ("file", self.file_layer), ("flag", self.flag_layer)).spec

    def changed(self, settings: Mapping[str, Any]) -> Layers:
        """The same with other settings."""
        return Layers(self.chosen, self.file_layer, merge(self.flag_layer, nest(settings)), self.dropped)


def find_base(
    survey: Survey, speed: Speed | None, file_layer: Layer, flag_layer: Layer, variants: Sequence[Variant]
) -> Base:
    """The settings without what varies; if they do not go together, those of the first variant that do."""
    kinds = _common_kinds(variants)
    clash: Clash | None = None
    for settings in ({}, *(variant.settings for variant in variants)):
        extra = nest(settings)
        chosen = choose(survey, merge(kinds, file_layer, flag_layer, extra), speed)
        for key in ONLY_ALONE:
            chosen.drop(key)
        try:
            spec = Layers(chosen.layer, file_layer, merge(flag_layer, extra)).compose()
        except Clash as error:
            clash = clash or error
            continue
        return Base(survey, speed, file_layer, flag_layer, chosen, spec)
    assert clash is not None
    raise clash


def _common_kinds(variants: Sequence[Variant]) -> Layer:
    """The kind of each side that all variants ask for, such as recurrent where `decoder.cell` varies."""
    layer: Layer = {}
    for side in SIDES:
        kinds = {_kind(side, nest(variant.settings)) for variant in variants}
        if len(kinds) == 1 and (kind := kinds.pop()) is not None:
            put(layer, f"{side}.kind", kind)
    return layer


def _kind(side: str, cell: Layer) -> str | None:
    """The kind that a cell's settings ask for, if any; CTC is an encoder alone."""
    alone = side == "decoder" and isinstance(cell.get("head"), dict) and cell["head"].get("kind") == "ctc"
    return implied_kind(side, cell) or ("none" if alone else None)


def nest(settings: Mapping[str, Any]) -> Layer:
    layer: Layer = {}
    for key, value in flatten(settings):
        put(layer, key, value)
    return layer


def layers_of(base: Base, settings: Mapping[str, Any]) -> Layers:
    """The base with a cell's settings, and with what they force."""
    cell = nest(settings)
    own = {side: getattr(base.spec, side).kind for side in SIDES}
    kinds = {side: _kind(side, cell) or own[side] for side in SIDES}
    for side in SIDES:
        if kinds[side] != own[side]:
            put(cell, f"{side}.kind", kinds[side])
    changed, cut = {side: kind for side, kind in kinds.items() if kind != own[side]}, _cut(base, cell)
    if not changed and not cut:
        return Layers(base.chosen.layer, base.file_layer, merge(base.flag_layer, cell))
    fresh = _fresh(base, cell, kinds)
    sized = PAIRED if cut and fresh.get("embed.shared") else cut
    follow = {*(WITH_KINDS if changed else ()), *(WITH_TOKENS if cut else ()), *(f"{side}.size" for side in sized)}

    def follows(key: str) -> bool:
        """Whether the cell's own choice counts, not the base's."""
        return key in follow or (key.split(".")[0] in changed and not key.endswith(".width"))

    own_ones = {key: value for key, value in fresh.items() if follows(key)}
    kept = {key: value for key, value in flatten(base.chosen.layer) if not follows(key)}
    layers = Layers(nest({**own_ones, **kept}), base.file_layer, base.flag_layer)
    return _inner_with_width(_without_strangers(layers, changed).changed(cell), fresh, changed)


def _fresh(base: Base, cell: Layer, kinds: Mapping[str, str]) -> dict[str, Any]:
    """What the autopilot would choose for these kinds, and for each side as if both were of its kind."""

    def chosen(of: Mapping[str, str]) -> dict[str, Any]:
        as_kinds = nest({f"{side}.kind": kind for side, kind in of.items()})
        cut = nest({f"{side}.tokens": getattr(base.spec, side).tokens for side in PAIRED})
        given = merge(cut, base.file_layer, base.flag_layer, cell, as_kinds)
        return {k: v for k, v in flatten(choose(base.survey, given, base.speed).layer) if k not in ONLY_ALONE}

    fresh = chosen(kinds)
    for side, kind in kinds.items():
        fresh |= {k: v for k, v in chosen(dict.fromkeys(SIDES, kind)).items() if k.startswith(f"{side}.")}
    return fresh


def _cut(base: Base, cell: Layer) -> list[str]:
    """The sides of the pairs that a cell cuts in another way."""
    return [
        side
        for side in PAIRED
        if side in cell and {"tokens", "size"} & set(cell[side]) and cell[side] != getattr(base.spec, side).model_dump()
    ]


def _without_strangers(layers: Layers, kinds: Mapping[str, str]) -> Layers:
    """Without settings of a side that its new kind does not have."""

    def strange(key: str) -> bool:
        side, _, rest = key.partition(".")
        return side in kinds and not _knows(_model(side, kinds[side]), rest.split("."))

    trees = layers.chosen, layers.file_layer, layers.flag_layer
    chosen, file_layer, flags = (nest({k: v for k, v in flatten(tree) if not strange(k)}) for tree in trees)
    dropped = tuple(k for tree in trees[1:] for k, _ in flatten(tree) if strange(k))
    return Layers(chosen, file_layer, flags, dropped)


def _model(side: str, kind: str) -> type[BaseModel] | None:
    """The settings of a kind of encoder or decoder; none for an unknown kind, which the spec will refuse."""
    models = get_args(Spec.model_fields[side].annotation)
    return next((m for m in models if kind in get_args(m.model_fields["kind"].annotation)), None)


def _knows(model: Any, path: Sequence[str]) -> bool:
    """Whether there is such a setting below a branch."""
    if not path or not (isinstance(model, type) and issubclass(model, BaseModel)):
        return True
    return path[0] in model.model_fields and _knows(model.model_fields[path[0]].annotation, path[1:])


def _inner_with_width(layers: Layers, fresh: Mapping[str, Any], kinds: Mapping[str, str]) -> Layers:
    """A Transformer's inner width in the proportion that the autopilot gives it, at the width it has here."""
    now = dict(flatten(merge(layers.chosen, layers.file_layer, layers.flag_layer)))
    given = dict(flatten(merge(layers.file_layer, layers.flag_layer)))
    chosen = merge(layers.chosen)
    for side in kinds:
        inner, width = f"{side}.inner", f"{side}.width"
        if inner in fresh and inner not in given and isinstance(now.get(width), int):
            put(chosen, inner, max(1, round(fresh[inner] * now[width] / fresh[width])))
    return Layers(chosen, layers.file_layer, layers.flag_layer, layers.dropped)
