"""What an input of a run consists of, and how a client gives each part: as text, as a list, or as a file.

The kinds of the columns say it themselves (data/sides/side.py): a kind whose cells name files has endings, and one
whose files stay files has no lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.api import Run
from weft.data.sides.side import NamesFiles, ReadsFiles
from weft.data.sides.table import KINDS, endings_of
from weft.tasks import TASKS

MARKS = ("tag", "features")


@dataclass(frozen=True)
class Field:
    """One part of an input. `name` is what people call it: a prompt, a question."""

    role: str
    kind: str = "text"
    name: str = ""
    lists: bool = False
    endings: tuple[str, ...] = ()

    @property
    def is_text(self) -> bool:
        return self.kind == "text"

    @property
    def todo(self) -> str:
        """How it is given."""
        ways = ["give a text"] * self.is_text + ["give a list"] * self.lists
        if self.endings:
            ways.append(f"upload a file as multipart/form-data (it ends in {', '.join(self.endings)})")
        return ", or ".join(ways)

    def described(self) -> dict[str, Any]:
        """Return it as /runs shows it."""
        shown = {"role": self.role, "kind": self.kind, "name": self.name or self.role}
        return {**shown, "lists": self.lists, "endings": list(self.endings)}


def fields_of(run: Run) -> dict[str, Field]:
    """Return the parts of an input by role, the source first."""
    sides, words = run.predictor.sides, TASKS[run.spec.task].words
    known = sides.kinds
    kinds = {"source": known.target if known.source == "none" else known.source, "context": known.context}
    fields = [_field(role, kind, words.get(role, "")) for role, kind in kinds.items() if kind is not None]
    trained_with = {"tag": run.spec.data.tagged, "features": run.spec.data.features is not None}
    marks = [Field(role) for role in MARKS if trained_with[role]]
    return {field.role: field for field in (*fields, *marks)}


def _field(role: str, kind: str, name: str) -> Field:
    rule = KINDS[kind]()
    only_files = isinstance(rule, NamesFiles) and not isinstance(rule, ReadsFiles)
    return Field(role, kind, name, kind != "text" and not only_files, tuple(endings_of(kind)))
