"""What a setting implies for others: a task, CTC or a kind of column fixes heads, objectives and decoders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.compatibility.tables import SERIES, TARGETS, metrics_of
from weft.tasks import TASKS

Layer = dict[str, Any]
IMPLIED: dict[tuple[str, str], dict[str, Any]] = {  # what a setting means for others of its layer
    ("head.kind", "ctc"): {"objective.kind": "ctc", "decoder.kind": "none"},
    **{("task", name): dict(task.implied) for name, task in TASKS.items() if task.implied},
    **{("objective.kind", each): {"target.kind": kind} for kind, objectives in SERIES.items() for each in objectives},
    **{("target.kind", kind): {"head.kind": kind, "objective.kind": each[0]} for kind, each in SERIES.items()},
    ("context.kind", "text"): {"context.use": "attend"},
    ("context.kind", "audio"): {"context.use": "attend"},
}
ABSENT = "none"  # as data.context: the data have none, although the task usually has one
DECIDING = ("task", "transduce"), ("target.kind", "auto")  # what decides which metric selects
KEPT = {("objective.kind", each) for objectives in SERIES.values() for each in objectives}
"""What a layer below may have said already."""


def with_implied(layer: Layer, below: Layer) -> Layer:
    """Return a layer with what its settings imply for others that it does not set; `below` are earlier layers."""
    if _value_at(layer, "data.context") == ABSENT:
        layer = {**layer, "data": {**layer["data"], "context": None}}
    data = layer.get("data")
    absent = ("context.",) if isinstance(data, dict) and data.get("context", ABSENT) is None else ()
    for (cause, value), implied in IMPLIED.items():
        if _value_at(layer, cause) == value:
            fitting = {k: v for k, v in implied.items() if (k, _value_at(below, k)) not in KEPT}
            layer = _with_defaults(layer, {k: v for k, v in fitting.items() if not k.startswith(absent)})
    task, target = (str(_value_at(layer, key) or default) for key, default in DECIDING)
    fixed = task in TARGETS or TASKS[task].scores if task in TASKS else None
    if (fixed or target in SERIES) and _value_at(below, "train.select") is None:
        layer = _with_defaults(layer, {"train.select": metrics_of(task, target)[0]})
    return layer


def _value_at(tree: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key, or None."""
    value: Any = tree
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _with_defaults(layer: Layer, defaults: Mapping[str, Any]) -> Layer:
    """Return the layer with values for dotted keys of two parts that it does not set."""
    for key, value in defaults.items():
        branch, leaf = key.split(".")
        part = layer.get(branch, {})
        if isinstance(part, dict):
            layer = {**layer, branch: {leaf: value, **part}}
    return layer
