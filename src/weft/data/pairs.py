"""Pairs: files of any format → a stream of `Pair`, with the columns chosen and every bad row named by file and line.

`read_pairs` reads data to learn from; `inputs.read_inputs` reads what to predict.
Nothing is stripped, normalised or held: memory is that of a line (but see the limits of `files` and `records`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data.blocks import Row
from weft.data.cells import TEXT, CellChecks, Kinds
from weft.data.columns import AUTOMATIC, NO_CONTEXT, PARTS, ROLES, Columns, choose_fields, unknown
from weft.data.conll import conll_rows
from weft.data.files import (
    Digest,
    File,
    display_name,
    drain,
    fingerprint,
    hash_file,
    opened,
    raw_lines,
    sides,
    size_of,
    spool_stdin,
)
from weft.data.formats import (
    BadRowPolicy,
    Cells,
    Fault,
    Layout,
    ReadReport,
    Rows,
    csv_rows,
    decoded,
    kind_of,
    parallel_rows,
    tsv_rows,
)
from weft.data.named_files import part_of
from weft.data.pieces import PASSAGE, PIECE, pieces
from weft.data.records import Fields, json_rows, parquet_rows
from weft.data.sides.span import span_cells
from weft.data.tables import parallel_positions, picked, picker

__all__ = ["Columns", "ReadReport", "fingerprint", "read_pairs", "spool_stdin"]

PROGRESS_ROWS, PROGRESS_FILES = 20_000, 200  # rows of text, and rows that each name a file, which take longer


def read_pairs(
    paths: Sequence[str],
    columns: Columns = AUTOMATIC,
    *,
    on_bad_line: Literal["stop", "skip"] = "stop",
    longest: int = 20_000,
    report: ReadReport | None = None,
    progress: Callable[[int, float], None] | None = None,
    kinds: Kinds = TEXT,
) -> Iterator[Pair]:
    """Stream the pairs of all files, one after the other; `progress` is told the rows and the share of bytes read."""
    rows = read_rows(
        paths, columns, on_bad_line=on_bad_line, longest=longest, report=report, progress=progress, kinds=kinds
    )
    for row in rows:
        yield Pair(*row)


def read_rows(
    paths: Sequence[str],
    columns: Columns = AUTOMATIC,
    *,
    on_bad_line: Literal["stop", "skip"] = "stop",
    longest: int = 20_000,
    report: ReadReport | None = None,
    progress: Callable[[int, float], None] | None = None,
    digest: Digest | None = None,
    kinds: Kinds = TEXT,
) -> Iterator[Row]:
    """Stream the same as bare tuples; `digest` is given all bytes of the files, in the order of `fingerprint`.

    Kinds of columns that are not given are recognised, and written down in the report.
    """
    policy = BadRowPolicy(ReadReport() if report is None else report, longest, on_bad_line == "skip")
    policy.spans = kinds.target == "span"
    stamps = policy.report.stamps if digest is not None else None
    checks = CellChecks(kinds, longest, policy.report.kinds, stamps)
    with spool_stdin(paths) as files:
        sizes = [size_of(path) for path in files]  # a missing file is said before an hour of reading, not after it
        policy.hint = _parallel_hint(files)
        roles = ROLES[1:] if checks.alone else ROLES
        for number, path in enumerate(files):
            if checks.running and kind_of(path) in ("", "stdin"):
                yield from _running_rows(path, policy, digest, checks, progress)
                continue
            with open_table(path, columns, roles, policy, digest) as table:
                table.before, table.size, table.total = sum(sizes[:number]), sizes[number], sum(sizes) or 1
                yield from _good_rows(table, columns, policy, checks, progress)
    if progress:
        progress(policy.report.rows, 1.0)


def _parallel_hint(paths: Sequence[str]) -> str:
    """Return what to do about plain files of one column each: two of them are likely to be parallel."""
    if len(paths) != 2 or any(kind_of(path) for path in paths) or any(len(sides(path)) == 2 for path in paths):
        return ""
    return f"if line n of one file belongs to line n of the other, give both as one argument: {paths[0]}:{paths[1]}"


@dataclass
class _Table:
    """Rows of chosen cells, and how far in the bytes of all files they are."""

    names: Sequence[str]  # of the files that hold the source and the target
    rows: Rows
    share: Callable[[], float]
    folder: str = ""  # that names of files in it are relative to
    before: int = 0
    size: int = 0
    total: int = 1

    def share_of_all(self) -> float:
        return (self.before + self.size * self.share()) / self.total


@contextmanager
def open_table(
    path: str, columns: Columns, roles: Sequence[str], policy: BadRowPolicy, digest: Digest | None = None
) -> Iterator[_Table]:
    """Open a file, or two parallel ones, as a table; `digest` is given the bytes of one after those of the other."""
    first, *second = sides(path) if policy.training and "source" in roles else [path]
    is_parquet = kind_of(path) == "parquet"
    with ExitStack() as stack:
        file = stack.enter_context(opened(first, text=not is_parquet, digest=None if is_parquet else digest))
        others = [stack.enter_context(opened(side)) for side in second]
        for each in (file, *others):
            note_encoding(each.name, each.encoding, policy)
        if not others:
            _check_tag_column(columns, path, policy)
        if others:
            yield _parallel((file, others[0]), columns, path, policy)
        else:
            yield _Table([file.name] * 2, _rows(file, columns, roles, policy), file.share, folder_of(first))
        if digest is not None and not is_parquet:
            drain(file)
    for side in [first] if is_parquet else second:  # read in another order than their bytes
        if digest is not None:
            hash_file(side, digest)


def _check_tag_column(columns: Columns, path: str, policy: BadRowPolicy) -> None:
    """Refuse a table where the tag is to be the ending of the target file."""
    if policy.training and columns.tag is None and columns.tag_from == "extension":
        raise UserError(
            "data.tag_from=extension needs parallel files, but this is a single table",
            path,
            "name its column of tags with --tag, or give parallel files such as train.en:train.de",
        )


def _tags_of(table: _Table, columns: Columns) -> tuple[str, str]:
    """Return the tags of a row and of the same row the other way round: the endings of the parallel files."""
    if columns.tag is not None or columns.tag_from != "extension":
        return "", ""
    endings = [name.removesuffix(".gz").rpartition("/")[2].rpartition(".")[2] for name in table.names]
    if endings[0] == endings[1] or not all("." in name.removesuffix(".gz") for name in table.names):
        raise UserError(
            f"{table.names[0]} and {table.names[1]} need different extensions, which become the tags",
            "data.tag_from=extension",
            "rename the files, for example to train.en:train.de",
        )
    return endings[1], endings[0]


def note_encoding(name: str, encoding: str, policy: BadRowPolicy) -> None:
    if encoding:
        policy.report.note(f"{name}: read as {encoding}, because it begins with a {encoding} byte order mark")


def _parallel(files: tuple[File, File], columns: Columns, path: str, policy: BadRowPolicy) -> _Table:
    positions = parallel_positions(columns, files, path, policy)
    pick = picker(positions)
    rows = ((line, pick(cells)) for line, cells in parallel_rows(files, policy))
    return _Table([files[at].name for at in positions], rows, files[0].share, folder_of(files[0].path))


def folder_of(path: str) -> str:
    """Return the folder that names in a table are relative to: its own, or the current one for stdin."""
    return os.getcwd() if display_name(path) == "<stdin>" else os.path.dirname(os.path.abspath(path))


def _rows(file: File, columns: Columns, roles: Sequence[str], policy: BadRowPolicy) -> Rows:
    """Return the chosen cells of one file, read as the format that its name tells: TSV if it tells none."""
    kind = kind_of(file.path)
    if kind == "stdin" and file.start().lstrip()[:1] == b"{":
        kind = "jsonl"
    target = roles.index("target") if "target" in roles else None

    def choose(fields: Fields) -> list[str]:
        chosen = choose_fields(fields.top, fields.leaves, columns, roles, file.name, policy)
        for role, name in chosen.items() if kind == "parquet" else ():
            if name not in fields.leaves:
                raise unknown(role, name, list(fields.leaves), file.name, policy)
        context = chosen.get("context", "")
        if policy.training and context and context not in (*fields.top, *fields.leaves):
            has = f"choose the context with --context (there are: {', '.join(fields.leaves)})"
            policy.hints[f"the field {context!r} is missing"] = f"{has}, {NO_CONTEXT}"
        unused = [name for name in fields.leaves if name not in chosen.values()] if columns == AUTOMATIC else []
        more = f"; not used: {', '.join(unused)}" if unused else ""
        policy.report.layout = Layout(file.name, chosen, more, chosen)
        return list(chosen.values())

    if kind == "parquet":
        return parquet_rows(file, choose, target, policy)
    if kind in ("conll", "conllu"):
        return conll_rows(file, columns, roles, policy, universal=kind == "conllu")
    if kind in ("jsonl", "json"):
        return json_rows(file, choose, target, policy)
    if kind in ("", "stdin") and "source" not in roles:
        return _line_rows(file, columns.present(roles), policy)
    return picked((csv_rows if kind == "csv" else tsv_rows)(file, policy), columns, roles, file.name, policy)


def _line_rows(file: File, roles: Sequence[str], policy: BadRowPolicy) -> Rows:
    """Yield each line of a plain text as one cell, tabs and all."""
    for role in (role for role in roles if role != "target"):
        raise UserError(f"a plain text has no column for the {role}", file.name, "give a table, such as a .tsv file")
    for line, raw in enumerate(raw_lines(file.stream), 1):
        try:
            text = decoded(raw)
        except Fault as fault:
            policy.bad(f"{file.name}:{line}", fault)
            continue
        yield line, [text] if text.strip() else []


def _running_rows(
    path: str,
    policy: BadRowPolicy,
    digest: Digest | None,
    checks: CellChecks,
    progress: Callable[[int, float], None] | None,
) -> Iterator[Row]:
    """Yield the pieces of a running text."""
    report, rows_before = policy.report, policy.report.rows
    checks.names["target"] = "text"
    with opened(path, digest=digest) as file:
        note_encoding(file.name, file.encoding, policy)
        most = PASSAGE if checks.running == "passages" else PIECE
        for _, text in pieces(file, by_line=checks.running == "lines", most=most):
            report.rows += 1
            if progress and report.rows % PROGRESS_ROWS == 0:
                progress(report.rows, file.share())
            yield "", text, "", (), (), ""
        if digest is not None:
            drain(file)
    if report.rows == rows_before:
        raise UserError("the file is empty", display_name(path), "give a file with some text in it")


def _good_rows(
    table: _Table,
    columns: Columns,
    policy: BadRowPolicy,
    checks: CellChecks,
    progress: Callable[[int, float], None] | None,
) -> Iterator[Row]:
    report, longest = policy.report, policy.longest
    rows_before, skipped_before = report.rows, report.skipped
    roles = columns.present(ROLES[1:] if checks.alone else ROLES)
    width, target_at = len(roles), roles.index("target")
    tag_at, features_at, context_at = extras(columns, target_at + 1)
    positions = ({} if checks.alone else {"source": 0}) | {"target": target_at}
    positions |= {"context": context_at} if context_at else {}
    tag_of_file, swapped_tag = _tags_of(table, columns)
    rows = checks.begin(table.rows, positions, table.folder)
    cut = cutter(columns, roles, checks, table.names[0])
    all_text = checks.all_text and not context_at
    spans = checks.names.get("target") == "span"
    every = PROGRESS_FILES if checks.names_files else PROGRESS_ROWS
    for line, cells in rows:
        if not cells:
            report.blank += 1
            continue
        example, references = cells, tuple(cells[width:])
        source, target = cells[0] if target_at else "", cells[target_at]
        if not (  # what most rows are, in one test without a call
            all_text
            and 0 < len(source) <= longest
            and 0 < len(target) <= longest
            and not (references or source.isspace() or target.isspace())
            and source.__class__ is target.__class__ is str
        ):
            try:
                cells = checks.resolved(cut(cells))
            except Fault as fault_of_part:
                policy.bad(f"{table.names[0]}:{line}", fault_of_part)
                continue
            fault = checks.fault(cells, references)
            if fault is not None:
                policy.bad(f"{table.names[fault[0] == 'target']}:{line}", fault[1])
                continue
            cells = checks.loaded(cells)
            source, target = cells[0] if target_at else "", cells[target_at]
            if spans:
                try:
                    target, *others = span_cells(source, (target, *references))
                except Fault as fault_of_span:
                    policy.bad(f"{table.names[1]}:{line}", fault_of_span)
                    continue
                references = tuple(others)
        if report.rows == rows_before:
            report.describe_columns(example)
        report.rows += 1
        if progress and report.rows % every == 0:
            progress(report.rows, table.share_of_all())
        tag = cells[tag_at].strip() if tag_at else tag_of_file
        if columns.swap:  # each reference is a pair, so that every second row is the one before it, swapped
            for each in (target, *references):
                yield source, each, tag, (), (), ""
                yield each, source, swapped_tag, (), (), ""
            continue
        features = split_features(cells[features_at]) if features_at else ()
        yield source, target, tag, features, references, cells[context_at] if context_at else ""
    if report.rows == rows_before:
        raise _no_rows(table.names[0], report.skipped - skipped_before, policy)


def _no_rows(name: str, skipped: int, policy: BadRowPolicy) -> UserError:
    if skipped:
        todo = (
            f"{policy.advice}; or check --source and --target, and that the ending of the file name matches the format"
        )
        return UserError(f"every row is bad ({skipped:,} were left out); the last one: {policy.latest}", name, todo)
    return UserError("the file is empty: it has no row of data", name, "give a file with one pair on each line")


def extras(columns: Columns, first: int, order: Sequence[str] = ROLES[2:]) -> tuple[int, int, int]:
    """Return where tag, features and context stand in a row of chosen cells; 0 for one that is not chosen."""
    roles = columns.present(order)
    at = {role: first + roles.index(role) if role in roles else 0 for role in order}
    return at["tag"], at["features"], at["context"]


def cutter(columns: Columns, roles: Sequence[str], checks: CellChecks, name: str) -> Callable[[Cells], Cells]:
    """Return what names the part of a recording that the start and the end of its row tell, if there are any."""
    at = {role: roles.index(role) for role in PARTS if columns.of(role) is not None and role in roles}
    if not at:
        return lambda cells: cells
    if checks.names.get("source") != "audio":
        what = f"{' and '.join(at)} select part of a recording, but the source is {checks.names.get('source')}"
        raise UserError(what, name, "leave data.start and data.end out, or choose a source of recordings")

    def cut(cells: Cells) -> Cells:
        begin, end = (cells[at[role]] if role in at and at[role] < len(cells) else "" for role in PARTS)
        return [part_of(cells[0], begin, end), *cells[1:]]

    return cut


@lru_cache(maxsize=65536)  # the same few hundred bundles come again and again
def split_features(text: str) -> tuple[str, ...]:
    pieces = text.split(";") if ";" in text else text.split()
    return tuple(stripped for piece in pieces if (stripped := piece.strip()))
