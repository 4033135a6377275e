"""What is compared: each combination of `--vary key=a,b`, or named variants, with a name for its folders."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.core.errors import UserError
from weft.settings import flatten, read_overrides

FIXED = {  # what must be alike for all, and the flag that sets it
    "train.seed": "--seeds",
    "train.budget_seconds": "--budget",
    "train.steps": "--steps",
    "train.epochs": "--epochs",
}
PLAIN = re.compile(r"[^\w.+]+")  # what is left out of a folder's name

Vary = dict[str, list[Any]]


@dataclass(frozen=True)
class Variant:
    """One cell of the table: what it is called, the dotted settings it differs by, and which of the varied values."""

    name: str
    label: str
    settings: dict[str, Any] = field(default_factory=dict)
    places: tuple[int, ...] = ()


def read_vary(items: Sequence[str]) -> Vary:
    """`["decoder.cell=lstm,gru", "encoder.layers=1,2"]` as keys with their values, which are read as `--set` does."""
    vary: Vary = {}
    for item in items:
        key, equals, text = (part.strip() for part in item.partition("="))
        where, todo = f"--vary {item}", "write a key and its values: --vary decoder.cell=lstm,gru"
        if not equals or not key:
            raise UserError(f"'{item}' names no setting with values", where, todo)
        texts = [value.strip() for value in text.split(",")]
        if not all(texts):
            raise UserError(f"a value of {key} is empty", where, todo)
        if key in vary:
            raise UserError(f"{key} is varied twice", where, "give all its values in one --vary")
        vary[key] = [_value(key, value) for value in texts]
    return vary


def _value(key: str, text: str) -> Any:
    return next(value for _, value in flatten(read_overrides([f"{key}={text}"], "--vary")))


def combinations(vary: Mapping[str, Sequence[Any]]) -> list[Variant]:
    """Every combination of the values, the last key's changing fastest."""
    _check(vary)
    made = []
    for places in itertools.product(*(range(len(values)) for values in vary.values())):
        settings = {key: values[place] for (key, values), place in zip(vary.items(), places)}
        parts = [_called(key, value, vary) for key, value in settings.items()]
        made.append(Variant(folder_name("-".join(parts)), ", ".join(parts), settings, places))
    return _distinct(made)


def named(variants: Mapping[str, Mapping[str, Any]]) -> list[Variant]:
    """Variants that somebody has named: `{"with attention": {"decoder.attention.score": "additive"}}`."""
    for settings in variants.values():
        for key in settings:
            _check_key(key)
    many = enumerate(variants.items())
    return _distinct([Variant(folder_name(name), name, dict(flatten(s)), (i,)) for i, (name, s) in many])


def _check(vary: Mapping[str, Sequence[Any]]) -> None:
    if not vary:
        raise UserError("nothing varies", "--vary", "name a setting and its values: --vary decoder.cell=lstm,gru")
    for key, values in vary.items():
        _check_key(key)
        shown = [text_of(value) for value in values]
        if not shown or len(set(shown)) < len(shown):
            what = f"the values of {key} are not all different: {', '.join(shown)}"
            raise UserError(what, f"--vary {key}", "name each value once")


def _check_key(key: str) -> None:
    if key in FIXED:
        what = f"{key} cannot be varied: it is the same for all that are compared"
        raise UserError(what, f"--vary {key}", f"set it with {FIXED[key]}")
    if key.split(".")[0] == "data" and key not in ("data.tag_at", "data.repeat_power", "data.unseen"):
        what = f"{key} cannot be varied: all are trained and scored on the same pairs"
        raise UserError(what, f"--vary {key}", "compare two data sets by a comparison of each")


def text_of(value: Any) -> str:
    """A value as it is written on the command line."""
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def _called(key: str, value: Any, vary: Mapping[str, Sequence[Any]]) -> str:
    """`gru`, or with the setting's name where a value alone says nothing: `layers 2`, `score none`."""
    text = text_of(value)
    others = {text_of(v) for other, values in vary.items() if other != key for v in values}
    tells = isinstance(value, str) and text != "none" and text not in others
    return text if tells else f"{short_key(key, list(vary))} {text}"


def short_key(key: str, keys: Sequence[str]) -> str:
    """The last part of a dotted key (`decoder` of decoder.kind), or all of it where two keys end alike."""
    said = {other: other.removesuffix(".kind").split(".") for other in (key, *keys)}
    alone = sum(said[other][-1] == said[key][-1] for other in keys) == 1
    return said[key][-1] if alone else " ".join(said[key])


def folder_name(text: str) -> str:
    return PLAIN.sub("-", text).strip("-.") or "variant"


def _distinct(variants: list[Variant]) -> list[Variant]:
    """The same with a number behind a name that stood before."""
    seen: dict[str, int] = {}
    made = []
    for v in variants:
        seen[v.name] = seen.get(v.name, 0) + 1
        made.append(v if seen[v.name] == 1 else Variant(f"{v.name}-{seen[v.name]}", v.label, v.settings, v.places))
    return made
