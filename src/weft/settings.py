"""Composing a `Spec` from layers: the autopilot's values, then a file's, then the command line's; later ones win.

A layer is a nested dictionary. `compose` merges layers, records where every value came from, and turns pydantic's
errors into messages that name the setting and the way out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from weft.bounded_yaml import parse_yaml
from weft.compatibility import RENAMED, RENAMED_VALUES, earlier_values
from weft.core.errors import UserError, did_you_mean
from weft.implied import with_implied
from weft.spec import Search, Spec

Layer = dict[str, Any]
LENGTHS = ("budget_seconds", "steps", "epochs")  # of training


class Clash(UserError):
    """Settings that are valid one by one but do not go together."""


@dataclass(frozen=True)
class Composed:
    """A spec and, for each dotted key, its origin: default, autopilot, init, file or flag."""

    spec: Spec
    origins: dict[str, str]


def compose(*layers: tuple[str, Layer]) -> Composed:
    """Merge named layers, the later over the earlier, into a checked Spec."""
    merged: Layer = {}
    origins: dict[str, str] = {}
    implied: set[str] = set()  # what nobody gave: another setting of the same layer implies it
    for name, layer in layers:
        given = {key for key, _ in flatten(_nested(layer))}
        layer = _with_kinds(_nested(layer), merged)
        _drop_other_family(layer, merged, origins)
        for key in _drop_other_lengths(layer, merged):
            origins.pop(key, None)
        for key, value in flatten(layer):
            if value is None and origins.get(key) == "autopilot":
                continue  # null leaves it to the autopilot
            put(merged, key, value)
            origins[key] = name
            implied = implied - {key} if key in given else implied | {key}
    try:
        spec = Spec.model_validate(merged)
    except ValidationError as error:
        raise _readable(error, {key: origin for key, origin in origins.items() if key not in implied}) from None
    return Composed(spec, {key: origins.get(key, "default") for key, _ in flatten(spec.model_dump())})


def read_file(path: str | Path) -> Layer:
    """Read the settings of a YAML file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        what = f"cannot read the settings file: {error.strerror}"
        raise UserError(what, str(path), "check the file's name") from None
    except UnicodeDecodeError:
        what = "cannot read the settings file: it is not UTF-8 text"
        raise UserError(what, str(path), "save it as UTF-8") from None
    try:
        layer = parse_yaml(text) or {}
    except yaml.YAMLError as error:
        raise UserError(
            f"not valid YAML: {shortened(' '.join(str(error).split()), 300)}",
            str(path),
            "correct it; the spec.yaml of any run is an example",
        ) from None
    if not isinstance(layer, dict):
        raise UserError("a settings file must hold keys and values", str(path), "see `weft config show` for the shape")
    if isinstance(layer.get("train"), dict):
        layer["train"].pop("raced", None)  # runs of earlier versions: seconds that one run spent before training
    made_by = layer.pop("format", None)  # which is in every spec.yaml
    layer = {name: value for name, value in layer.items() if value is not None}  # an empty branch sets nothing
    return from_format(layer, made_by) if isinstance(made_by, int) else layer


def shortened(text: str, most: int = 80) -> str:
    """Return a text for a message, cut where it is long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def from_format(layer: Layer, made_by: int) -> Layer:
    """Return the settings of a spec.yaml of some format; those that came later have the value that means the same."""
    return merge(earlier_values(made_by), layer)


def read_overrides(items: Sequence[str], flag: str = "--set") -> Layer:
    """Parse `["decoder.cell=gru", "train.rate=1e-3"]` as a layer; `flag` is the option that they were given with."""
    layer: Layer = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or not key.strip():
            raise UserError(
                f"'{item}' is not of the form key=value",
                f"{flag} {item}",
                f"write key=value, such as {flag} train.rate=0.001",
            )
        put(layer, key.strip(), _value(text.strip(), f"{flag} {item}"))
    return layer


def _value(text: str, where: str) -> Any:
    """Parse a YAML value; 1e-3, which YAML 1.1 reads as text, is a number."""
    try:
        value = parse_yaml(text)
    except yaml.YAMLError:
        todo = "write a number, a name, true, false or null"
        raise UserError(f"'{shortened(text)}' is not a value", shortened(where), todo) from None
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def put(tree: Layer, key: str, value: Any) -> None:
    """Set a dotted key in a nested dictionary."""
    *path, leaf = key.split(".")
    for name in path:
        below = tree.setdefault(name, {})
        if not isinstance(below, dict):
            todo = f"leave {name}={below} out, and keep {name}.{leaf}={value}"
            raise UserError(f"{name} is a group of settings and cannot have a value itself", f"{name}={below}", todo)
        tree = below
    tree[leaf] = value


def merge(*layers: Mapping[str, Any]) -> Layer:
    """Merge layers into one nested dictionary; later values win."""
    merged: Layer = {}
    for layer in layers:
        layer = _nested(dict(layer))
        _drop_other_lengths(layer, merged)
        for key, value in flatten(layer):
            put(merged, key, value)
    return merged


def _drop_other_lengths(layer: Layer, merged: Layer) -> list[str]:
    """Let a layer that says how long to train replace what earlier layers said about it."""
    train, before = layer.get("train"), merged.get("train")
    if not isinstance(train, dict) or not isinstance(before, dict) or all(train.get(key) is None for key in LENGTHS):
        return []
    dropped = [key for key in LENGTHS if key in before]
    for key in dropped:
        del before[key]
    return [f"train.{key}" for key in dropped]


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys and values of a nested dictionary."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _nested(layer: Layer) -> Layer:
    """Return the layer with dotted keys as branches, and settings of earlier versions under their names of today."""
    nested: Layer = {}
    for key, value in flatten(layer):
        key = RENAMED.get(key, key)
        put(nested, key, RENAMED_VALUES.get((key, value), value) if isinstance(value, str) else value)
    return nested


def implied_kind(side: str, layer: Mapping[str, Any]) -> str | None:
    """Return the family that a layer's keys imply, if any: `decoder.cell` means recurrent, `heads` transformer."""
    part = layer.get(side)
    if not isinstance(part, Mapping):
        return None
    if "kind" in part:
        return str(part["kind"])
    reads = {"reverse"} if side == "encoder" else set()  # every decoder can write reversed
    if {"cell", "directions", "residual", "layer_norm", "variational", *reads} & set(part):
        return "recurrent"
    if {"heads", "inner", "norm"} & set(part):
        return "transformer"
    if "attention" in part:  # a recurrent encoder has none
        return "transformer" if side == "encoder" else "recurrent"
    return None


def _with_kinds(layer: Layer, below: Layer) -> Layer:
    """Fill in `kind` where a layer's keys imply it and no layer below sets it; a task, CTC and labels imply more."""
    layer = with_implied(layer, below)
    for side in ("encoder", "decoder"):
        part, before = layer.get(side), below.get(side)
        known = isinstance(before, dict) and "kind" in before
        if isinstance(part, dict) and "kind" not in part and not known:
            part["kind"] = implied_kind(side, layer) or "recurrent"
    return layer


def _drop_other_family(layer: Layer, merged: Layer, origins: dict[str, str]) -> None:
    """Drop what the autopilot chose for another family than the one that a layer asks for."""
    for side in ("encoder", "decoder"):
        part, below = layer.get(side), merged.get(side)
        if not isinstance(part, dict) or not isinstance(below, dict) or part.get("kind") in (None, below.get("kind")):
            continue
        known = _fields([side], [str(part["kind"])])
        for name in [n for n in below if n not in known and origins.get(f"{side}.{n}") == "autopilot"]:
            del below[name], origins[f"{side}.{name}"]


def _readable(error: ValidationError, origins: Mapping[str, str]) -> UserError:
    """Turn pydantic's first error into a message of three parts."""
    first = error.errors()[0]
    path = [str(p) for p in first["loc"] if p not in ("recurrent", "transformer", "none")]
    key, given = ".".join(path), first.get("input")
    where = _where(key, origins)
    known = "see `weft config show` for every setting and its meaning"
    if first["type"] == "extra_forbidden":
        parent = ".".join(path[:-1])
        if (family := _family_of(path, first["loc"])) is not None:
            return UserError(family[0], where, family[1])
        hint = did_you_mean(path[-1], _fields(path[:-1], first["loc"]))
        return UserError(f"{key}: there is no such setting{' in ' + parent if parent else ''}; {hint}", where, known)
    if first["type"] in ("literal_error", "union_tag_invalid"):
        name = str(given.get("kind")) if isinstance(given, Mapping) else str(given)
        key = key if first["type"] == "literal_error" else f"{key}.kind"
        what = f"{key}: {name!r} is not known; {did_you_mean(name, _choices(first))}"
        return UserError(what, _where(key, origins), known)
    if first["type"] == "value_error":
        what, _, todo = str(first["ctx"]["error"]).partition("; ")
        where = where if key else _where_of(what, origins)
        kind = Clash if isinstance(given, Mapping) else UserError  # a rule over several settings, or about one
        return kind(what if not key or "." in what.split()[0] else f"{key}: {what}", where, todo)
    return UserError(f"{key} {must_be(first)}, but it is {shortened(_shown(given))}", where, known)


def must_be(error: Mapping[str, Any]) -> str:
    """Say in words what pydantic wants of a value: `must be at least 1`."""
    limits = {name: _number(value) for name, value in error.get("ctx", {}).items() if isinstance(value, int | float)}
    for kind, words in MUST_BE.items():
        if error["type"] in kind:
            return f"must be {words.format(**limits)}"
    message = str(error["msg"])
    return f"must be {message.partition(' be ')[2]}" if " should be " in message else f"is wrong ({message.lower()})"


MUST_BE = {  # by pydantic's names of errors
    ("int_type", "int_parsing", "int_parsing_size", "int_from_float"): "a whole number",
    ("float_type", "float_parsing"): "a number",
    ("finite_number",): "a finite number",
    ("bool_type", "bool_parsing"): "true or false",
    ("string_type",): "a text",
    ("list_type", "tuple_type", "set_type"): "a list",
    ("dict_type", "model_type", "model_attributes_type", "mapping_type"): "a group of settings",
    ("greater_than",): "greater than {gt}",
    ("greater_than_equal",): "at least {ge}",
    ("less_than",): "less than {lt}",
    ("less_than_equal",): "at most {le}",
}


def possible(key: str) -> str:
    """Return which values a setting of the search can have: `a whole number from 1 to 1,000,000`."""
    properties = Search.model_json_schema()["properties"].get(key.removeprefix("search."), {})
    schema = next((each for each in properties.get("anyOf", [properties]) if each.get("type") in NUMBERS), None)
    if schema is None:
        return "another value"
    least, most = (_number(schema[name]) if name in schema else "" for name in ("minimum", "maximum"))
    above = f"greater than {_number(schema['exclusiveMinimum'])}" if "exclusiveMinimum" in schema else ""
    limits = f"from {least} to {most}" if least else f"{above} and at most {most}"
    return f"{NUMBERS[schema['type']]} {limits}"


NUMBERS = {"integer": "a whole number", "number": "a number"}  # by the name in JSON schemas


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def _shown(value: object) -> str:
    """Return a value as settings files write it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _where(key: str, origins: Mapping[str, str]) -> str:
    """`setting decoder.cell (from flag)`, or for a rule over several settings, those that were set."""
    if key in origins:
        return f"setting {key} (from {origins[key]})"
    changed = [f"{k} (from {o})" for k, o in origins.items() if k.startswith(key) and o in ("flag", "file")]
    return "settings " + ", ".join(changed[:6]) if changed else f"setting {key or 'tree'}"


def _where_of(what: str, origins: Mapping[str, str]) -> str:
    """Name the origins of the settings that a rule is about (a group by itself means all of it)."""
    named = set(re.findall(r"[a-z_]+(?:\.[a-z_]+)*", what))
    changed = [
        f"{key} (from {origin})"
        for key, origin in origins.items()
        if origin in ("flag", "file") and (key in named or key.split(".")[0] in named & {"bridge", "feeding"})
    ]
    return "settings " + ", ".join(changed) if changed else _where("", origins)


def _family_of(path: Sequence[str], loc: Sequence[Any]) -> tuple[str, str] | None:
    """Describe a setting that belongs to another family of encoder or decoder: what is wrong, and what to do."""
    side, kind = path[0], next((k for k in ("transformer", "recurrent", "none") if k in loc), None)
    if side not in ("encoder", "decoder") or kind is None or len(path) < 2:
        return None
    others = [k for k in ("recurrent", "transformer") if k != kind and path[1] in _fields([side], [k])]
    if len(path) > 2 or not others:
        return None
    name, belongs = ".".join(path), " or ".join(f"{side}.kind={k}" for k in others)
    if kind == "none" and side == "decoder":
        return f"{name} belongs to a decoder, but this run has none", "leave it out, or use head.kind=tokens"
    return f"{name} belongs to {belongs}, but this is {side}.kind={kind}", f"leave it out, or set {belongs}"


def _choices(problem: Any) -> list[str]:
    text = problem["ctx"].get("expected") or problem["ctx"].get("expected_tags", "")
    return [name.strip(" '") for name in text.replace(" or ", ", ").split(",")]


def _fields(path: Sequence[str], loc: Sequence[Any]) -> list[str]:
    """Return the names of a branch of the tree."""
    model: type[BaseModel] = Spec
    for name in path:
        below = _model_of(model, name, next((k for k in ("transformer", "none") if k in loc), "recurrent"))
        if below is None:
            return []
        model = below
    return list(model.model_fields)


def _model_of(model: type[BaseModel], name: str, kind: str) -> type[BaseModel] | None:
    """Return the model of a branch; of several families the one of that kind."""
    annotation = model.model_fields[name].annotation
    options = [m for m in (get_args(annotation) or (annotation,)) if isinstance(m, type) and issubclass(m, BaseModel)]
    wanted = [m for m in options if "kind" in m.model_fields and kind in get_args(m.model_fields["kind"].annotation)]
    return next(iter(wanted or options), None)
