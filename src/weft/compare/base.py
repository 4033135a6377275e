"""The settings that all variants share, and those of one variant.

The autopilot chooses once, for the settings without what varies, and every variant takes its values: tokens, widths,
batches, learning rate, dropout, metric. A variant differs by what varies, and by what that forces:

- a side of another kind than the base's (`encoder.kind=transformer`) keeps its width, gets what that kind needs besides
  (layers, heads, inner) and loses what only the base's kind has, even if it was set; positions, and how much faster
  embeddings learn than the rest, go with the kinds;
- a side tokenised in another way (`target.tokens=bpe`) gets the vocabulary size and the limit of output length that go
  with it.

So a Transformer is compared at the base's learning rate and dropout, not at those that the autopilot would choose for
it: vary `train.rate` too where that matters.
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
SET_BY_KINDS = ("embed.positions", "train.embed_rate")  # what the autopilot chooses by the kinds of the sides,
SET_BY_TOKENS = ("embed.shared", "search.max_ratio", "data.unseen")  # and by how they are tokenised

# The autopilot's choices of these are dropped. A variant is one model that trains for its whole budget unless the user
# sets something else, and a setting that only some decoders have is chosen for none.
NOT_CHOSEN = (
    "train.members",
    "train.reversed_members",
    "train.max_epochs",
    "bridge.give",
    "decoder.attention.location_aware",
)


@dataclass(frozen=True)
class Base:
    """What all variants share."""

    survey: Survey
    speed: Speed | None
    file_layer: Layer
    flag_layer: Layer
    chosen: Choices
    spec: Spec


@dataclass(frozen=True)
class Layers:
    """The settings of one variant as a run takes them; `dropped` are user settings that its kind does not have."""

    chosen: Layer
    file_layer: Layer
    flag_layer: Layer
    dropped: tuple[str, ...] = ()

    def compose(self) -> Spec:
        return compose(("autopilot", self.chosen), ("file", self.file_layer), ("flag", self.flag_layer)).spec

    def changed(self, settings: Mapping[str, Any]) -> Layers:
        """Return a copy with these settings."""
        return Layers(self.chosen, self.file_layer, merge(self.flag_layer, nest(settings)), self.dropped)


def find_base(
    survey: Survey, speed: Speed | None, file_layer: Layer, flag_layer: Layer, variants: Sequence[Variant]
) -> Base:
    """Return the settings without what varies; if these are not compatible, those of the first variant that are."""
    kinds = _common_kinds(variants)
    clash: Clash | None = None
    for settings in ({}, *(variant.settings for variant in variants)):
        extra = nest(settings)
        chosen = choose(survey, merge(kinds, file_layer, flag_layer, extra), speed)
        for key in NOT_CHOSEN:
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
    """Return the kind of each side that all variants need, such as recurrent where `decoder.cell` varies."""
    layer: Layer = {}
    for side in SIDES:
        kinds = {_kind(side, nest(variant.settings)) for variant in variants}
        if len(kinds) == 1 and (kind := kinds.pop()) is not None:
            put(layer, f"{side}.kind", kind)
    return layer


def _kind(side: str, settings: Layer) -> str | None:
    """Return the kind that a variant's settings need, if any; CTC has no decoder."""
    is_ctc = isinstance(settings.get("head"), dict) and settings["head"].get("kind") == "ctc"
    return implied_kind(side, settings) or ("none" if is_ctc and side == "decoder" else None)


def nest(settings: Mapping[str, Any]) -> Layer:
    layer: Layer = {}
    for key, value in flatten(settings):
        put(layer, key, value)
    return layer


def layers_of(base: Base, settings: Mapping[str, Any]) -> Layers:
    """Return the base with a variant's settings, and with what they force."""
    variant = nest(settings)
    base_kinds = {side: getattr(base.spec, side).kind for side in SIDES}
    kinds = {side: _kind(side, variant) or base_kinds[side] for side in SIDES}
    new_kinds = {side: kind for side, kind in kinds.items() if kind != base_kinds[side]}
    for side, kind in new_kinds.items():
        put(variant, f"{side}.kind", kind)
    retokenised = _retokenised(base, variant)
    if not new_kinds and not retokenised:
        return Layers(base.chosen.layer, base.file_layer, merge(base.flag_layer, variant))
    chosen = _choose_for(base, variant, kinds)
    sized = PAIRED if retokenised and chosen.get("embed.shared") else retokenised
    forced = {*(SET_BY_KINDS if new_kinds else ()), *(SET_BY_TOKENS if retokenised else ())}
    forced |= {f"{side}.size" for side in sized}

    def is_forced(key: str) -> bool:
        """Tell whether the choice for this variant counts, not that for the base."""
        return key in forced or (key.split(".")[0] in new_kinds and not key.endswith(".width"))

    from_variant = {key: value for key, value in chosen.items() if is_forced(key)}
    from_base = {key: value for key, value in flatten(base.chosen.layer) if not is_forced(key)}
    layers = Layers(nest({**from_variant, **from_base}), base.file_layer, base.flag_layer)
    return _scale_inner(_drop_unknown(layers, new_kinds).changed(variant), chosen, new_kinds)


def _choose_for(base: Base, variant: Layer, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Return the autopilot's choices for these kinds; those of each side as if both sides were of its kind."""

    def choices(of: Mapping[str, str]) -> dict[str, Any]:
        as_kinds = nest({f"{side}.kind": kind for side, kind in of.items()})
        tokens = nest({f"{side}.tokens": getattr(base.spec, side).tokens for side in PAIRED})
        given = merge(tokens, base.file_layer, base.flag_layer, variant, as_kinds)
        return {k: v for k, v in flatten(choose(base.survey, given, base.speed).layer) if k not in NOT_CHOSEN}

    chosen = choices(kinds)
    for side, kind in kinds.items():
        chosen |= {k: v for k, v in choices(dict.fromkeys(SIDES, kind)).items() if k.startswith(f"{side}.")}
    return chosen


def _retokenised(base: Base, variant: Layer) -> list[str]:
    """Return the sides (source, target) that a variant tokenises in another way than the base."""

    def differs(side: str) -> bool:
        return bool({"tokens", "size"} & set(variant[side])) and variant[side] != getattr(base.spec, side).model_dump()

    return [side for side in PAIRED if side in variant and differs(side)]


def _drop_unknown(layers: Layers, kinds: Mapping[str, str]) -> Layers:
    """Drop the settings of a side that its new kind does not have."""

    def is_unknown(key: str) -> bool:
        side, _, rest = key.partition(".")
        return side in kinds and not _has_setting(_model(side, kinds[side]), rest.split("."))

    trees = layers.chosen, layers.file_layer, layers.flag_layer
    chosen, file_layer, flags = (nest({k: v for k, v in flatten(tree) if not is_unknown(k)}) for tree in trees)
    dropped = tuple(k for tree in trees[1:] for k, _ in flatten(tree) if is_unknown(k))
    return Layers(chosen, file_layer, flags, dropped)


def _model(side: str, kind: str) -> type[BaseModel] | None:
    """Return the settings class of a kind of encoder or decoder; None for an unknown kind, which the spec refuses."""
    models = get_args(Spec.model_fields[side].annotation)
    return next((m for m in models if kind in get_args(m.model_fields["kind"].annotation)), None)


def _has_setting(model: Any, path: Sequence[str]) -> bool:
    """Tell whether a settings class has a setting at this path."""
    if not path or not (isinstance(model, type) and issubclass(model, BaseModel)):
        return True
    return path[0] in model.model_fields and _has_setting(model.model_fields[path[0]].annotation, path[1:])


def _scale_inner(layers: Layers, choices: Mapping[str, Any], kinds: Mapping[str, str]) -> Layers:
    """Scale a Transformer's inner width to its width here, in the proportion that the autopilot chose."""
    current = dict(flatten(merge(layers.chosen, layers.file_layer, layers.flag_layer)))
    given = dict(flatten(merge(layers.file_layer, layers.flag_layer)))
    chosen = merge(layers.chosen)
    for side in kinds:
        inner, width = f"{side}.inner", f"{side}.width"
        if inner in choices and inner not in given and isinstance(current.get(width), int):
            put(chosen, inner, max(1, round(choices[inner] * current[width] / choices[width])))
    return Layers(chosen, layers.file_layer, layers.flag_layer, layers.dropped)
