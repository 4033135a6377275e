"""Texts with ids: the documents that are searched, and queries that a file of relevance judgements names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain

from weft.core.errors import UserError
from weft.data.columns import Columns
from weft.data.files import opened
from weft.data.formats import BadRowPolicy, ReadReport
from weft.data.pairs import open_table

ID = "id"
Text = tuple[str, str]  # an id, and the text
SHOWN = 3  # unknown ids that a message lists


def read_documents(path: str, column: str | int | None, report: ReadReport) -> Iterator[Text]:
    """Yield the id and the text of each document: the run's target column, or the only one; an empty line has none.

    The id stands in the column `id`; without one, it is the number of the line.
    """
    if path == "-":
        raise UserError("documents are read several times, but stdin only once", "--among -", "give them as a file")
    choices = [Columns(target=target, tag=tag) for target in dict.fromkeys((column, None)) for tag in (ID, None)]
    return _first_that_fits(path, "target", choices, report)


def read_queries(path: str, column: str | int | None, report: ReadReport) -> Iterator[Text]:
    """Yield the id and the text of each query, in the same way; the text stands in the run's source column."""
    choices = [Columns(source=source, tag=tag) for source in dict.fromkeys((column, None)) for tag in (ID, None)]
    return _first_that_fits(path, "source", choices, report)


def _first_that_fits(path: str, role: str, choices: list[Columns], report: ReadReport) -> Iterator[Text]:
    """Read with the first choice of columns that the file has; if it has none, tell what the last one misses."""
    with opened(path):  # a missing file is told as such
        pass
    for columns in choices[:-1]:
        with suppress(UserError):
            rows = _texts(path, role, columns, report)
            first = next(rows)
            return chain([first], rows)
        report.blank = 0
    return _texts(path, role, choices[-1], report)


def _texts(path: str, role: str, columns: Columns, report: ReadReport) -> Iterator[Text]:
    policy = BadRowPolicy(report, longest=2**62, training=False)
    count = 0
    with open_table(path, columns, (role, "tag"), policy) as table:
        for line, cells in table.rows:
            if not cells or not cells[0].strip():
                report.blank += 1
                continue
            count += 1
            yield (cells[1].strip() if len(cells) > 1 and columns.tag else str(line)), cells[0]
    if not count:
        what = "there is no document in this file" if role == "target" else "there is no query in this file"
        raise UserError(what, path, "give a file with at least one line")


def check_ids(ids: Mapping[str, int], name: str, where: str) -> None:
    """Refuse an id that stands several times: results could not tell them apart."""
    raise UserError(
        f"the {name}{'s' * (len(ids) > 1)} {', '.join(list(ids)[:SHOWN])} {'occurs' if len(ids) == 1 else 'occur'} "
        "several times",
        where,
        f"give each row an id of its own in the column {ID}, or leave the column out",
    )


def read_judgements(path: str) -> dict[str, dict[str, float]]:
    """Return the relevance of documents by query, from lines of query, iteration, document, relevance (TREC qrels)."""
    judged: dict[str, dict[str, float]] = {}
    with opened(path) as file:
        for number, raw in enumerate(file.stream, 1):
            cells = raw.decode("utf-8", errors="replace").split()
            if not cells:
                continue
            try:
                query, _, document, relevance = cells
                judged.setdefault(query, {})[document] = float(relevance)
            except ValueError:
                what = "each line of a qrels file needs four fields: query, iteration, document, relevance (a number)"
                raise UserError(what, f"{path}:{number}", "write it as: 1 0 184 3") from None
    if not judged:
        raise UserError("there is no judgement in this file", path, "give lines such as: 1 0 184 3")
    return judged
