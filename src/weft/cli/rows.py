"""Row by row: what `weft evaluate --lines` writes for each pair, and the column that `--by` splits the scores by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from weft.cli import common

if TYPE_CHECKING:
    from weft.api import Run
    from weft.core.pair import Pair
    from weft.data.columns import Columns


def check_folder(path: Path) -> None:
    """Refuse a file that cannot be made, before the evaluation rather than after it."""
    from weft.core.errors import UserError

    if path.is_dir() or not path.parent.is_dir():
        what = "this is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise UserError(what, f"--lines {path}", "give the name of a file in a folder that exists")


def write_lines(
    path: Path, pairs: Sequence[Pair], outputs: Sequence[str], log_probs: Sequence[float], target_kind: str = "text"
) -> None:
    """Write a row for each pair: JSON objects where the name ends in .jsonl, else a TSV with a header."""
    from weft.runs.log import finite

    records = _records(pairs, outputs, log_probs, target_kind)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(finite(record), ensure_ascii=False) + "\n" for record in records)
            return
        for number, record in enumerate(records):
            if number == 0:
                file.write("\t".join(record) + "\n")
            file.write("\t".join(map(_cell, record.values())) + "\n")


def _records(
    pairs: Sequence[Pair], outputs: Sequence[str], log_probs: Sequence[float], target_kind: str
) -> Iterator[dict[str, str | list[str] | float]]:
    """Yield source, target, output, scores of the line alone, and the log-probability of the (first) target."""
    from weft.score.metrics import table_of

    metrics = [metric for metric in table_of(target_kind).from_outputs if metric.per_line]
    for pair, output, log_prob in zip(pairs, outputs, log_probs, strict=True):
        scores = {metric.name: round(metric.of_line(output, pair.targets), 4) for metric in metrics}
        target = pair.targets if pair.references else pair.target
        yield {"source": pair.source, "target": target, "output": output, **scores, "log_prob": round(log_prob, 6)}


def _cell(value: str | list[str] | float) -> str:
    """Return a cell of a TSV; of several references the first."""
    return common.one_line(value[0] if isinstance(value, list) else str(value), "\t")


def column_values(
    path: str, column: str, columns: Columns, rows: Sequence[Pair], bad: Literal["stop", "skip"], longest: int
) -> list[str]:
    """Return the value of any column in each row of a table.

    The table is read once more, with that column in the place of the tag, which no row has to have.
    """
    from weft.core.errors import UserError
    from weft.data.pairs import read_pairs

    if path == "-":
        raise UserError("standard input can be read only once", f"--by {column}", "give the table as a file")
    chosen = common.column(column)
    if chosen is not None and chosen == columns.target:
        return [pair.target for pair in rows]
    if chosen == columns.tag:
        return [pair.tag for pair in rows]
    if chosen == columns.features:
        return [" ".join(pair.features) for pair in rows]
    by_tag = replace(columns, tag=chosen, features=None)
    try:
        values = [pair.tag for pair in read_pairs([path], by_tag, on_bad_line=bad, longest=longest)]
    except UserError as error:
        what, todo = (text.replace("the tag", "--by").replace("--tag", "--by") for text in (error.what, error.todo))
        raise UserError(what, error.where, todo) from None
    if len(values) != len(rows):
        raise UserError(f"not every row has a column {column}", f"--by {column}", "choose a column that every row has")
    return values


def grouped(values: Sequence[str]) -> dict[str, list[int]]:
    """Return the rows that have each value, by value."""
    groups: dict[str, list[int]] = {}
    for row, value in enumerate(values):
        groups.setdefault(value, []).append(row)
    return dict(sorted(groups.items()))


def scores_by_value(run: Run, pairs: Sequence[Pair], outputs: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    """Return the metrics and the number of pairs for each value."""
    scores = {}
    for value, rows in grouped(values).items():
        evaluation = run.predictor.score([pairs[row] for row in rows], [outputs[row] for row in rows])
        scores[value] = {**evaluation.metrics, "n": evaluation.n}
    return scores
