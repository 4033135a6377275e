"""The metrics of every kind of target: one file and one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.score.table import Table
from weft.score.text import TEXT

TABLES: dict[str, Table] = {"text": TEXT}


def table_of(target_kind: str = "text") -> Table:
    """Return the metrics of a kind of target, by name."""
    return TABLES[target_kind]


def with_current_names(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of a log with today's names of metrics; an earlier version may have written other names."""
    renamed = dict(line)
    for table in TABLES.values():
        renamed = table.renamed(renamed)
        if renamed.get("metric") in table:
            renamed["metric"] = table[renamed["metric"]].name
    return renamed
