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
    from weft.data.cells import Kinds
    from weft.data.columns import Columns


ENDINGS = (".tsv", ".jsonl")


def check_lines_file(path: Path) -> None:
    """Refuse a file that cannot be made, or not in that format, before the evaluation rather than after it."""
    from weft.core.errors import UserError
    from weft.core.files import check_writable

    check_writable(path, f"--lines {path}")
    if path.suffix not in ENDINGS:
        what = f"lines are written as tab-separated values or as JSON lines, but the name ends in '{path.suffix}'"
        raise UserError(what, f"--lines {path}", f"give a name that ends in {' or '.join(ENDINGS)}")


def write_lines(
    path: Path, pairs: Sequence[Pair], outputs: Sequence[Any], log_probs: Sequence[float], scored_as: str = "text"
) -> None:
    """Write a row for each pair: JSON objects where the name ends in .jsonl, else a TSV with a header."""
    from weft.runs.log import finite

    records = _records(pairs, outputs, log_probs, scored_as)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(finite(record), ensure_ascii=False) + "\n" for record in records)
            return
        for number, record in enumerate(records):
            if number == 0:
                file.write("\t".join(record) + "\n")
            file.write("\t".join(map(_cell, record.values())) + "\n")


def _records(
    pairs: Sequence[Pair], outputs: Sequence[Any], log_probs: Sequence[float], scored_as: str
) -> Iterator[dict[str, str | list[str] | float]]:
    """Yield source, target, output, scores of the line alone, and the log-probability of the (first) target.

    A model that is scored by likelihood has no source and no output.
    """
    from weft.data.sides.table import shown
    from weft.score.metrics import table_of

    table = table_of(scored_as)
    metrics = [metric for metric in table.from_outputs if metric.per_line]
    for pair, output, log_prob in zip(pairs, outputs, log_probs, strict=True):
        scores = {metric.name: _rounded(metric.of_line(output, pair.targets), metric.unit) for metric in metrics}
        target = pair.targets if pair.references else pair.targets[0]
        texts = {"source": shown(pair.source), "target": target, "output": str(output)}
        yield {**({"target": target} if table.of_likelihood else texts), **scores, "log_prob": round(log_prob, 6)}


def _rounded(score: float, unit: str) -> float:
    """Return a share with four decimals, a count as an integer, a number in the units of the data with six digits."""
    if unit == "count":
        return int(score)
    return float(f"{score:.6g}") if unit == "number" else round(score, 4)


def _cell(value: str | list[str] | float) -> str:
    """Return a cell of a TSV; of several references the first."""
    return common.one_line(value[0] if isinstance(value, list) else str(value), "\t")


def column_values(
    paths: Sequence[str],
    column: str,
    columns: Columns,
    rows: Sequence[Pair],
    bad: Literal["stop", "skip"],
    longest: int,
    kinds: Kinds,
) -> list[str]:
    """Return the value of any column in each row of the tables.

    The tables are read once more, with that column in the place of the tag, which no row has to have. Parallel files
    have the column `direction`, which is en-de for train.en:train.de.
    """
    from weft.core.errors import UserError
    from weft.data.files import sides
    from weft.data.pairs import read_pairs
    from weft.data.sides.side import ROLES, cells

    if column == "direction" and all(len(sides(path)) == 2 for path in paths):
        return _directions(paths, columns, bad, longest)
    if "-" in paths:
        raise UserError("standard input can be read only once", f"--by {column}", "give the table as a file")
    chosen = common.column(column)
    for role in ROLES:
        if chosen is not None and chosen == columns.of(role):
            return cells(rows, role)
    if chosen == columns.tag or (column == "tag" and columns.tag_from == "extension"):
        return [pair.tag for pair in rows]
    if chosen == columns.features:
        return [" ".join(pair.features) for pair in rows]
    by_tag = replace(columns, tag=chosen, features=None)
    try:
        values = [pair.tag for pair in read_pairs(paths, by_tag, on_bad_line=bad, longest=longest, kinds=kinds)]
    except UserError as error:
        what = error.what.replace(" for the tag", " (given with --by)")
        what = what.replace("the tag should be in column", "--by asks for column")
        what, todo = (
            text.replace("the tag", "the column of --by").replace("--tag", "--by") for text in (what, error.todo)
        )
        if f"the field {column!r} is missing" in what:
            what = f"there is no column {column!r} in this row (given with --by)"
        raise UserError(what, error.where, todo) from None
    if len(values) != len(rows):
        raise UserError(f"not every row has a column {column}", f"--by {column}", "choose a column that every row has")
    return values


def _directions(paths: Sequence[str], columns: Columns, bad: Literal["stop", "skip"], longest: int) -> list[str]:
    """Return the endings of the two parallel files that each row comes from."""
    from weft.data.files import sides
    from weft.data.pairs import read_pairs

    values: list[str] = []
    for path in paths:
        direction = "-".join(name.removesuffix(".gz").rpartition(".")[2] for name in sides(path))
        values += [direction for _ in read_pairs([path], columns, on_bad_line=bad, longest=longest)]
    return values


def grouped(values: Sequence[str]) -> dict[str, list[int]]:
    """Return the rows that have each value, by value."""
    groups: dict[str, list[int]] = {}
    for row, value in enumerate(values):
        groups.setdefault(value, []).append(row)
    return dict(sorted(groups.items()))


def scores_by_value(run: Run, pairs: Sequence[Pair], outputs: Sequence[Any], values: Sequence[str]) -> dict[str, Any]:
    """Return the metrics and the number of pairs for each value."""
    scores = {}
    for value, rows in grouped(values).items():
        evaluation = run.predictor.score([pairs[row] for row in rows], [outputs[row] for row in rows])
        scores[value] = {**evaluation.metrics, "n": evaluation.n}
    return scores
