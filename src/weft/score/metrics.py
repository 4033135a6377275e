"""The metrics of every kind of target: one file and one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.score.answers import ANSWERS
from weft.score.continued import CONTINUED
from weft.score.hidden import HIDDEN
from weft.score.label import LABEL, LABELS
from weft.score.language import LANGUAGE_MODEL
from weft.score.notes import NOTES
from weft.score.numbers import NUMBERS
from weft.score.retrieval import RETRIEVAL
from weft.score.table import NOT_APPLICABLE, Metric, Table
from weft.score.text import TEXT

TABLES: dict[str, Table] = {
    "text": TEXT,
    "label": LABEL,
    "labels": LABELS,
    "numbers": NUMBERS,
    "notes": NOTES,
    "span": ANSWERS,
    "document": RETRIEVAL,
    "language-model": LANGUAGE_MODEL,
    "continued": CONTINUED,
    "hidden": HIDDEN,
}


def table_of(name: str = "text") -> Table:
    """Return the metrics of a kind of target, or of a task that has its own (`Sides.scored_as`)."""
    return TABLES[name]


def table_for(line: Mapping[str, Any]) -> Table:
    """Return the metrics of a line of a log, or of a result; text where it does not name the kind of the target."""
    return table_of(line.get("target", "text"))


def applicable_signatures(result: Mapping[str, Any]) -> dict[str, str]:
    """Return what is to be quoted beside the scores of a result, without metrics that do not apply."""
    without = result.get(NOT_APPLICABLE) or ()
    return {name: text for name, text in result.get("signatures", {}).items() if name not in without}


def metric_named(name: str) -> Metric:
    """Return a metric by name, of the first kind of target that has one of this name."""
    return next(table for table in TABLES.values() if name in table)[name]


def with_current_names(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of a log with today's names of metrics; an earlier version may have written other names."""
    renamed = dict(line)
    for table in TABLES.values():
        renamed = table.renamed(renamed)
        if renamed.get("metric") in table:
            renamed["metric"] = table[renamed["metric"]].name
    return renamed
