"""The tasks: what people ask for, and what each fixes of the rest. One line in the table for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.core.counts import row_unit


@dataclass(frozen=True)
class Task:
    """What a task fixes: the kind of its target, the columns it has, and settings."""

    target: str | None = None  # the kind of the target; None: any, as the column holds
    scores: str | None = None  # the table of metrics (score/metrics.py); None: that of the target's kind
    implied: Mapping[str, Any] = field(default_factory=dict)  # settings by dotted key
    alone: bool = False  # whether the target is the only column
    corrupts: bool = False  # whether the source is the target, corrupted
    words: Mapping[str, str] = field(default_factory=dict)  # what people call an input of a role


LABELS = {"target.kind": "label", "head.kind": "label", "decoder.kind": "none"}
ALONE = {"source.kind": "none", "encoder.kind": "none"}
SPANS = {
    "target.kind": "span",
    "head.kind": "span",
    "decoder.kind": "none",
    "objective.kind": "span",
    "data.context": "question",
    "data.longest": 10_000_000,  # characters: long documents are read in windows
    "context.kind": "text",
    "context.use": "flow",
    "context.shared": True,
}
HIDDEN = {"source.kind": "none", "head.kind": "hidden", "decoder.kind": "none"}
RESTORED = {"source.kind": "none"}
DOCUMENTS = {
    "target.kind": "document",
    "head.kind": "vector",
    "decoder.kind": "none",
    "objective.kind": "contrastive",
    "data.longest": 10_000_000,  # characters: of longer ones the beginning is read
}
TASKS: dict[str, Task] = {
    "transduce": Task(),
    "classify": Task(target="label", implied=LABELS),
    "classify-tokens": Task(target="labels", implied=LABELS),
    "language-model": Task(scores="language-model", implied=ALONE, alone=True, words={"source": "prompt"}),
    "masked-lm": Task(target="text", scores="hidden", implied=HIDDEN, alone=True, corrupts=True),
    "denoise": Task(target="text", implied=RESTORED, alone=True, corrupts=True),
    "answer": Task(target="span", implied=SPANS, words={"source": "document", "context": "question"}),
    "retrieve": Task(target="document", implied=DOCUMENTS, words={"source": "query", "target": "document"}),
}


def unit_of(task: str) -> str:
    """Return what one row of the data of a task is called."""
    return row_unit(TASKS[task].alone)


def continues(task: str) -> bool:
    """Return whether a model of this task continues a text or a series, as nothing else is given."""
    return TASKS[task].alone and not TASKS[task].corrupts
