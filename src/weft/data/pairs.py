"""Pairs: files of any format → a stream of `Pair`, with the columns chosen and every bad row named by file and line.

`read_pairs` reads data to learn from, `read_inputs` what to predict: one Pair a line there, whatever the line holds.
Nothing is stripped, normalised or held: memory is that of a line (but see the limits of `files` and `records`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import BinaryIO, Literal

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data.columns import FIRST_TWO, ROLES, Columns, choose_fields, parallel_places, picked, picker
from weft.data.files import File, fingerprint, opened, raw_lines, settle, shown, sides, size_of
from weft.data.formats import Fault, Judge, Reading, Rows, csv_rows, decoded, kind_of, parallel_rows, tsv_rows
from weft.data.records import json_rows, parquet_rows

__all__ = ["Columns", "Reading", "fingerprint", "read_inputs", "read_pairs", "settle"]

PROGRESS_ROWS = 20_000


def read_pairs(
    paths: Sequence[str],
    columns: Columns = FIRST_TWO,
    *,
    on_bad_line: Literal["stop", "skip"] = "stop",
    longest: int = 20_000,
    reading: Reading | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> Iterator[Pair]:
    """Stream the pairs of all files, one after the other; `progress` is told the rows and the share of bytes read."""
    judge = Judge(Reading() if reading is None else reading, longest, skip=on_bad_line == "skip")
    with settle(paths) as settled:
        sizes = [size_of(path) for path in settled]  # a missing file is said before an hour of reading, not after it
        for place, path in enumerate(settled):
            with _table(path, columns, ROLES, judge) as table:
                table.before, table.size, table.total = sum(sizes[:place]), sizes[place], sum(sizes) or 1
                yield from _pairs(table, columns, judge, progress)
    if progress:
        progress(judge.reading.rows, 1.0)


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
def _table(path: str, columns: Columns, roles: Sequence[str], judge: Judge) -> Iterator[_Table]:
    """Open a file, or two parallel ones, as a table."""
    with ExitStack() as stack:
        files = [stack.enter_context(opened(side)) for side in (sides(path) if judge.training else [path])]
        if len(files) == 1:
            yield _Table([files[0].name] * 2, _rows(files[0], columns, roles, judge), files[0].share)
            return
        places = parallel_places(columns, path)
        pick = picker(places)
        rows = ((line, pick(cells)) for line, cells in parallel_rows((files[0], files[1]), judge))
        yield _Table([files[place].name for place in places], rows, files[0].share)


def _rows(file: File, columns: Columns, roles: Sequence[str], judge: Judge) -> Rows:
    """The chosen cells of one file, read as the format that its name tells: TSV if it tells none."""
    kind = kind_of(file.path)
    if kind == "stdin" and file.first_byte() == b"{":
        kind = "jsonl"

    def choose(names: list[str]) -> list[str]:
        return choose_fields(names, columns, roles, file.name, judge, fixed=kind == "parquet")

    if kind == "parquet":
        return parquet_rows(file, choose, judge)
    if kind in ("jsonl", "json"):
        return json_rows(file, choose, judge)
    return picked((csv_rows if kind == "csv" else tsv_rows)(file, judge), columns, roles, file.name, judge)


def _pairs(
    table: _Table, columns: Columns, judge: Judge, progress: Callable[[int, float], None] | None
) -> Iterator[Pair]:
    reading, longest = judge.reading, judge.longest
    rows_before, skipped_before = reading.rows, reading.skipped
    tag_at, features_at = _extras(columns, 2)
    for line, cells in table.rows:
        if not cells:
            reading.blank += 1
            continue
        source, target = cells[0], cells[1]
        if not 0 < len(source) <= longest or not 0 < len(target) <= longest or source.isspace() or target.isspace():
            side, fault = _fault_of(source, target, longest)
            judge.bad(f"{table.names[side]}:{line}", fault)
            continue
        reading.rows += 1
        if progress and reading.rows % PROGRESS_ROWS == 0:
            progress(reading.rows, table.share_of_all())
        tag = cells[tag_at].strip() if tag_at else ""
        yield Pair(source, target, tag, _split_features(cells[features_at]) if features_at else ())
    if reading.rows == rows_before:
        raise _no_rows(table.names[0], reading.skipped - skipped_before, judge)


def _fault_of(source: str, target: str, longest: int) -> tuple[int, Fault]:
    """Which side is bad (0 the source, 1 the target), and why."""
    for side, (role, text) in enumerate((("source", source), ("target", target))):
        if not text or text.isspace():
            return side, Fault(f"the {role} is empty", f"fill in the {role}")
        if len(text) > longest:
            return side, _too_long(role, text, longest)
    raise AssertionError("a row without a fault")


def _too_long(role: str, text: str, longest: int) -> Fault:
    return Fault(f"the {role} has {len(text):,} characters, the limit is {longest:,}", "cut or split it")


def _no_rows(name: str, skipped: int, judge: Judge) -> UserError:
    if skipped:
        todo = f"{judge.advice}; or check --source, --target and the format that its name tells"
        return UserError(f"every row is bad ({skipped:,} left out); the last: {judge.latest}", name, todo)
    return UserError("the file is empty: it has no row of data", name, "give a file with one pair on each line")


def _extras(columns: Columns, first: int) -> tuple[int, int]:
    """Where the tag and the features stand in a row of chosen cells; 0 for one that is not chosen."""
    roles = [role for role, _ in columns.chosen("tag", "features")]
    tag_at, features_at = (first + roles.index(role) if role in roles else 0 for role in ("tag", "features"))
    return tag_at, features_at


@lru_cache(maxsize=65536)  # the same few hundred bundles come again and again
def _split_features(text: str) -> tuple[str, ...]:
    pieces = text.split(";") if ";" in text else text.split()
    return tuple(stripped for piece in pieces if (stripped := piece.strip()))


def read_inputs(path: str, columns: Columns, *, longest: int = 20_000) -> Iterator[Pair]:
    """Stream what to predict: one Pair for each line (or row of a table), in order, also for an empty one."""
    judge = Judge(Reading(), longest, training=False)
    if path == "-":
        yield from _plain_inputs(sys.stdin.buffer, shown(path), columns, judge)
    elif kind_of(path) in ("", "stdin"):
        with opened(path) as file:
            yield from _plain_inputs(file.stream, file.name, columns, judge)
    else:
        with _table(path, columns, ("source", "tag", "features"), judge) as table:
            yield from _inputs(table.rows, table.names[0], columns, judge)


def _inputs(rows: Rows, name: str, columns: Columns, judge: Judge) -> Iterator[Pair]:
    tag_at, features_at = _extras(columns, 1)
    for line, cells in rows:
        if not cells:
            yield Pair("")
            continue
        if len(cells[0]) > judge.longest:
            judge.bad(f"{name}:{line}", _too_long("source", cells[0], judge.longest))
        tag = cells[tag_at].strip() if tag_at else ""
        yield Pair(cells[0], "", tag, _split_features(cells[features_at]) if features_at else ())


def _plain_inputs(stream: BinaryIO, name: str, columns: Columns, judge: Judge) -> Iterator[Pair]:
    return _inputs(_plain_rows(stream, name, columns, judge), name, columns, judge)


def _plain_rows(stream: BinaryIO, name: str, columns: Columns, judge: Judge) -> Rows:
    """Lines of source, or of source<TAB>tag<TAB>features with those of the two that the training had."""
    roles = [role for role, _ in columns.chosen("source", "tag", "features")]
    for line, raw in enumerate(raw_lines(stream), 1):
        try:
            text = decoded(raw)
            if len(roles) == 1:
                yield line, [text]
            else:
                yield line, _split_plain(text, roles) if text.strip() else []
        except Fault as fault:
            judge.bad(f"{name}:{line}", fault)


def _split_plain(text: str, roles: list[str]) -> list[str]:
    cells = text.split("\t")
    if len(cells) == len(roles):
        return cells
    wanted = "<TAB>".join(roles)
    if len(cells) < len(roles):
        raise Fault(
            f"this line has no {roles[len(cells)]}", f"write each line as {wanted}, as the model was trained with it"
        )
    raise Fault(
        f"this line has {len(cells)} columns, expected {wanted}",
        "take the other tabs out, or name the file .tsv to have it read by the columns of the training",
    )
