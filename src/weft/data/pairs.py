"""Pairs: files of any format → a stream of `Pair`, with the columns chosen and every bad row named by file and line.

`read_pairs` reads data to learn from, `read_inputs` what to predict: one Pair a line there, whatever the line holds.
Nothing is stripped, normalised or held: memory is that of a line (but see the limits of `files` and `records`).
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import BinaryIO, Literal, cast

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data.blocks import Row
from weft.data.cells import TEXT, CellChecks, Kinds
from weft.data.columns import AUTOMATIC, ROLES, Columns, choose_fields, unknown
from weft.data.conll import conll_rows
from weft.data.encodings import as_utf8
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
from weft.data.records import Fields, json_rows, parquet_rows
from weft.data.tables import parallel_positions, picked, picker

__all__ = ["Columns", "ReadReport", "fingerprint", "read_inputs", "read_pairs", "spool_stdin"]

PROGRESS_ROWS = 20_000


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
    checks = CellChecks(kinds, longest, policy.report.kinds)
    with spool_stdin(paths) as files:
        sizes = [size_of(path) for path in files]  # a missing file is said before an hour of reading, not after it
        policy.hint = _parallel_hint(files)
        for number, path in enumerate(files):
            with _table(path, columns, ROLES, policy, digest) as table:
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
    before: int = 0
    size: int = 0
    total: int = 1

    def share_of_all(self) -> float:
        return (self.before + self.size * self.share()) / self.total


@contextmanager
def _table(
    path: str, columns: Columns, roles: Sequence[str], policy: BadRowPolicy, digest: Digest | None = None
) -> Iterator[_Table]:
    """Open a file, or two parallel ones, as a table; `digest` is given the bytes of one after those of the other."""
    first, *second = sides(path) if policy.training else [path]
    is_parquet = kind_of(path) == "parquet"
    with ExitStack() as stack:
        file = stack.enter_context(opened(first, text=not is_parquet, digest=None if is_parquet else digest))
        others = [stack.enter_context(opened(side)) for side in second]
        for each in (file, *others):
            _note_encoding(each.name, each.encoding, policy)
        if others:
            yield _parallel((file, others[0]), columns, path, policy)
        else:
            yield _Table([file.name] * 2, _rows(file, columns, roles, policy), file.share)
        if digest is not None and not is_parquet:
            drain(file)
    for side in [first] if is_parquet else second:  # read in another order than their bytes
        if digest is not None:
            hash_file(side, digest)


def _note_encoding(name: str, encoding: str, policy: BadRowPolicy) -> None:
    if encoding:
        policy.report.note(f"{name}: read as {encoding}, which its byte order mark names")


def _parallel(files: tuple[File, File], columns: Columns, path: str, policy: BadRowPolicy) -> _Table:
    positions = parallel_positions(columns, files, path, policy)
    pick = picker(positions)
    rows = ((line, pick(cells)) for line, cells in parallel_rows(files, policy))
    return _Table([files[at].name for at in positions], rows, files[0].share)


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
                raise unknown(role, name, list(fields.leaves), file.name)
        unused = [name for name in fields.leaves if name not in chosen.values()] if columns == AUTOMATIC else []
        policy.report.layout = Layout(file.name, chosen, f"; not used: {', '.join(unused)}" if unused else "")
        return list(chosen.values())

    if kind == "parquet":
        return parquet_rows(file, choose, target, policy)
    if kind in ("conll", "conllu"):
        return conll_rows(file, columns, roles, policy, universal=kind == "conllu")
    if kind in ("jsonl", "json"):
        return json_rows(file, choose, target, policy)
    return picked((csv_rows if kind == "csv" else tsv_rows)(file, policy), columns, roles, file.name, policy)


def _good_rows(
    table: _Table,
    columns: Columns,
    policy: BadRowPolicy,
    checks: CellChecks,
    progress: Callable[[int, float], None] | None,
) -> Iterator[Row]:
    report, longest = policy.report, policy.longest
    rows_before, skipped_before = report.rows, report.skipped
    tag_at, features_at, context_at = _extras(columns, 2)
    width = len(columns.present(ROLES))
    positions = {"source": 0, "target": 1} | ({"context": context_at} if context_at else {})
    rows = checks.begin(table.rows, positions)
    all_text = checks.all_text and not context_at
    for line, cells in rows:
        if not cells:
            report.blank += 1
            continue
        source, target, references = cells[0], cells[1], tuple(cells[width:])
        if not (  # what most rows are, in one test without a call
            all_text
            and 0 < len(source) <= longest
            and 0 < len(target) <= longest
            and not (references or source.isspace() or target.isspace())
            and source.__class__ is target.__class__ is str
        ):
            fault = checks.fault(cells, references)
            if fault is not None:
                policy.bad(f"{table.names[fault[0] == 'target']}:{line}", fault[1])
                continue
        if report.rows == rows_before:
            report.describe_columns(cells)
        report.rows += 1
        if progress and report.rows % PROGRESS_ROWS == 0:
            progress(report.rows, table.share_of_all())
        tag = cells[tag_at].strip() if tag_at else ""
        features = _split_features(cells[features_at]) if features_at else ()
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


def _extras(columns: Columns, first: int, order: Sequence[str] = ROLES[2:]) -> tuple[int, int, int]:
    """Return where tag, features and context stand in a row of chosen cells; 0 for one that is not chosen."""
    roles = columns.present(order)
    at = {role: first + roles.index(role) if role in roles else 0 for role in order}
    return at["tag"], at["features"], at["context"]


@lru_cache(maxsize=65536)  # the same few hundred bundles come again and again
def _split_features(text: str) -> tuple[str, ...]:
    pieces = text.split(";") if ";" in text else text.split()
    return tuple(stripped for piece in pieces if (stripped := piece.strip()))


INPUTS = ("source", "context", "tag", "features")  # what a row to predict has, in the order of plain lines


def read_inputs(
    path: str, columns: Columns, *, longest: int = 20_000, report: ReadReport | None = None, kinds: Kinds = TEXT
) -> Iterator[Pair]:
    """Stream what to predict: one Pair for each line (or row of a table), in order, also for an empty one."""
    policy = BadRowPolicy(ReadReport() if report is None else report, longest, training=False)
    checks = CellChecks(kinds, longest, policy.report.kinds)
    if path == "-":
        buffer = (
            sys.stdin.buffer if isinstance(sys.stdin.buffer, io.BufferedReader) else io.BufferedReader(_raw_stdin())
        )
        stream, encoding = as_utf8(buffer, display_name(path))
        yield from _plain_inputs(stream, display_name(path), encoding, columns, policy, checks)
    elif kind_of(path) in ("", "stdin"):
        with opened(path) as file:
            yield from _plain_inputs(file.stream, file.name, file.encoding, columns, policy, checks)
    else:
        with _table(path, columns, INPUTS, policy) as table:
            yield from _inputs(table.rows, table.names[0], columns, policy, checks)


def _raw_stdin() -> io.RawIOBase:
    """Return a stdin that some program has put in the place of the real one."""
    return cast(io.RawIOBase, sys.stdin.buffer)


def _inputs(rows: Rows, name: str, columns: Columns, policy: BadRowPolicy, checks: CellChecks) -> Iterator[Pair]:
    tag_at, features_at, context_at = _extras(columns, 1, INPUTS[1:])
    for line, cells in checks.begin(rows, {"source": 0} | ({"context": context_at} if context_at else {})):
        if not cells:
            yield Pair("")
            continue
        fault = checks.fault(cells, ()) if cells[0].strip() else None  # an empty source has an empty output
        if fault is not None:
            policy.bad(f"{name}:{line}", fault[1])
        tag = cells[tag_at].strip() if tag_at else ""
        features = _split_features(cells[features_at]) if features_at else ()
        yield Pair(cells[0], "", tag, features, (), cells[context_at] if context_at else "")


def _plain_inputs(
    stream: BinaryIO, name: str, encoding: str, columns: Columns, policy: BadRowPolicy, checks: CellChecks
) -> Iterator[Pair]:
    _note_encoding(name, encoding, policy)
    return _inputs(_plain_rows(stream, name, columns, policy), name, columns, policy, checks)


def _plain_rows(stream: BinaryIO, name: str, columns: Columns, policy: BadRowPolicy) -> Rows:
    """Yield lines of source, or of source<TAB>context<TAB>tag<TAB>features with those that the training had."""
    roles = columns.present(INPUTS)
    for line, raw in enumerate(raw_lines(stream), 1):
        try:
            text = decoded(raw)
            if len(roles) == 1:
                yield line, [text]
            else:
                yield line, _split_plain(text, roles) if text.strip() else []
        except Fault as fault:
            policy.bad(f"{name}:{line}", fault)


def _split_plain(text: str, roles: list[str]) -> list[str]:
    cells = text.split("\t")
    if len(cells) == len(roles):
        return cells
    wanted = "<TAB>".join(roles)
    if len(cells) < len(roles):
        raise Fault(
            f"this line has no {roles[len(cells)]}",
            f"write each line as {wanted}, because the model was trained with these columns",
        )
    raise Fault(
        f"this line has {len(cells)} columns, but {wanted} is expected",
        "remove the other tabs, or name the file .tsv so that it is read with the columns of the training data",
    )
