"""The variants to compare: every combination of `--vary key=a,b`, or variants that the user names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from weft.core.errors import UserError
from weft.settings import flatten, read_overrides

FIXED = {  # settings that must be the same for all variants, and how each is set
    "train.seed": "to train each variant with several seeds, use --seeds N",
    "train.budget_seconds": "set it with --budget",
    "train.steps": "set it with --steps",
    "train.epochs": "set it with --epochs",
}
VARIABLE_DATA = (
    "data.tag_at",
    "data.repeat_power",
    "data.unseen",
    "data.back_translate",
)  # the settings of `data` that may vary
NOT_IN_FOLDER_NAMES = re.compile(r"[^\w.+]+")

Vary = dict[str, list[Any]]


@dataclass(frozen=True)
class Variant:
    """What one variant is called, the dotted settings it differs by, and the index of each varied value."""

    name: str
    label: str
    settings: dict[str, Any] = field(default_factory=dict)
    value_indices: tuple[int, ...] = ()


def read_vary(items: Sequence[str]) -> Vary:
    """Parse `["decoder.cell=lstm,gru", "encoder.layers=1,2"]` into keys and values; values are read as by `--set`."""
    vary: Vary = {}
    for item in items:
        key, equals, text = (part.strip() for part in item.partition("="))
        where, todo = f"--vary {item}", "write a key and its values: --vary decoder.cell=lstm,gru"
        if not equals or not key:
            raise UserError(f"'{item}' is not of the form KEY=A,B,…", where, todo)
        texts = [value.strip() for value in text.split(",")]
        if not all(texts):
            raise UserError(f"a value of {key} is empty", where, todo)
        if key in vary:
            raise UserError(f"{key} is varied twice", where, "give all its values in one --vary")
        vary[key] = [_parse_value(key, value) for value in texts]
    return vary


def _parse_value(key: str, text: str) -> Any:
    return next(value for _, value in flatten(read_overrides([f"{key}={text}"], "--vary")))


def combinations(vary: Mapping[str, Sequence[Any]]) -> list[Variant]:
    """Return every combination of the values; the last key's values change fastest."""
    _check(vary)
    variants = []
    for indices in itertools.product(*(range(len(values)) for values in vary.values())):
        settings = {key: values[index] for (key, values), index in zip(vary.items(), indices)}
        parts = [_value_label(key, value, vary) for key, value in settings.items()]
        variants.append(Variant(folder_name("-".join(parts)), ", ".join(parts), settings, indices))
    return _with_distinct_names(variants)


def named(variants: Mapping[str, Mapping[str, Any]]) -> list[Variant]:
    """Return variants with the user's own names: `{"with attention": {"decoder.attention.score": "additive"}}`."""
    for settings in variants.values():
        for key in settings:
            _check_key(key)
    numbered = enumerate(variants.items())
    return _with_distinct_names([Variant(folder_name(name), name, dict(flatten(s)), (i,)) for i, (name, s) in numbered])


def _check(vary: Mapping[str, Sequence[Any]]) -> None:
    if not vary:
        raise UserError("no setting is varied", "--vary", "name a setting and its values: --vary decoder.cell=lstm,gru")
    for key, values in vary.items():
        _check_key(key)
        texts = [value_text(value) for value in values]
        if not texts or len(set(texts)) < len(texts):
            what = f"the values of {key} are not all different: {', '.join(texts)}"
            raise UserError(what, f"--vary {key}", "name each value once")


def _check_key(key: str) -> None:
    if key in FIXED:
        what = f"{key} cannot be varied: it is the same for all variants"
        raise UserError(what, f"--vary {key}", FIXED[key])
    if key.split(".")[0] == "data" and key not in VARIABLE_DATA:
        what = f"{key} cannot be varied: all variants are trained and scored on the same pairs"
        raise UserError(what, f"--vary {key}", "run one comparison for each data set")


def value_text(value: Any) -> str:
    """Return a value as it is written on the command line."""
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def _value_label(key: str, value: Any, vary: Mapping[str, Sequence[Any]]) -> str:
    """Return `gru`, or the setting's name too where the value alone is not clear: `layers 2`, `score none`."""
    text = value_text(value)
    others = {value_text(v) for other, values in vary.items() if other != key for v in values}
    is_clear = isinstance(value, str) and text != "none" and text not in others
    return text if is_clear else f"{short_key(key, list(vary))} {text}"


def short_key(key: str, keys: Sequence[str]) -> str:
    """Return the last part of a dotted key (`decoder` of decoder.kind), or all of it where two keys end alike."""
    parts = {other: other.removesuffix(".kind").split(".") for other in (key, *keys)}
    is_unique = sum(parts[other][-1] == parts[key][-1] for other in keys) == 1
    return parts[key][-1] if is_unique else " ".join(parts[key])


def folder_name(text: str) -> str:
    return NOT_IN_FOLDER_NAMES.sub("-", text).strip("-.") or "variant"


def _with_distinct_names(variants: list[Variant]) -> list[Variant]:
    """Add a number to a name that an earlier variant has."""
    seen: dict[str, int] = {}
    distinct = []
    for variant in variants:
        count = seen[variant.name] = seen.get(variant.name, 0) + 1
        distinct.append(variant if count == 1 else replace(variant, name=f"{variant.name}-{count}"))
    return distinct
