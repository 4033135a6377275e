"""What tasks, kinds of columns, heads and objectives have in common: names that the checks share."""

from __future__ import annotations

from pydantic import BaseModel

from weft.score.metrics import table_of
from weft.tasks import TASKS

LABELS = tuple(name for name, task in TASKS.items() if task.target in ("label", "labels"))
WITHOUT_TOKENS = ("numbers", "notes", "audio", "image")  # the kinds of sources that have none
WITHOUT_DECODER = ("label", "span", "hidden", "vector")  # heads of models that predict everything at once
TOGETHER = ("flow", "joint")  # ways to read the context that change how the source is read
DENSITIES = ("squared", "distance", "gaussian", "mixture")  # the objectives of numbers
POINTS = ("squared", "distance")  # those that predict no probabilities
READ = ("text", "numbers", "notes", "audio", "image", "none")  # the kinds of sources
WRITTEN = ("text", "numbers", "notes", "label", "span", "document")  # the kinds of targets
SERIES = {"numbers": DENSITIES, "notes": ("notes",)}  # what is predicted step by step, and by which objectives
TARGETS = {name: task.target for name, task in TASKS.items() if task.target}  # the kind of target that a task fixes


def metrics_of(task: str, target_kind: str = "auto") -> list[str]:
    """Return the metrics that a checkpoint can be chosen by, the first by default."""
    usual = (target_kind,) if target_kind in WRITTEN else ("text", *SERIES)
    own = TASKS[task].scores if target_kind in ("auto", "text") else None
    if TASKS[task].alone and target_kind in SERIES:
        own = "continued"
    fixed = own or TASKS[task].target
    tables = [table_of(kind) for kind in ((fixed,) if fixed else usual)]
    return list(dict.fromkeys(metric.name for table in tables for metric in table.values() if metric.selects))


def refuse_without_effect(group: str, part: BaseModel, needed: str, given: str = "") -> None:
    """Refuse a group of settings, unless all have their default values, where something that it needs is missing."""
    usual = type(part)()
    for name in type(part).model_fields:
        if getattr(part, name) != getattr(usual, name):
            raise ValueError(
                f"{group}.{name} has no effect without {needed}{f' ({given})' if given else ''}; leave {group}.{name} "
                f"out, or {'set' if '=' in needed else 'name'} {needed}"
            )
