"""Inputs to predict: one `Pair` for each line or row, in order, whatever the line holds.

A file with the ending of a table is read with the columns of the training data; any other file, and stdin, holds plain
lines. A recording or a picture, or a folder of them, is an input too.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO, cast

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data.cells import TEXT, CellChecks, Kinds
from weft.data.columns import PARTS, Columns
from weft.data.encodings import NotText, as_utf8
from weft.data.files import display_name, opened, raw_lines
from weft.data.formats import BadRowPolicy, Fault, ReadReport, Rows, decoded, kind_of
from weft.data.named_files import has_ending
from weft.data.pairs import cutter, extras, note_encoding, open_table, split_features
from weft.data.sides.table import READ_ONLY, endings_of, kind_of_file

INPUTS = ("source", "context", "tag", "features")  # what a row to predict has, in the order of plain lines
CONTENTS = {  # by kind of column: what a file holds, and what a run reads
    "audio": ("a recording", READ_ONLY["audio"]),
    "image": ("a picture", READ_ONLY["image"]),
    "numbers": ("numbers", "lists of numbers"),
    "notes": ("notes", "lists of notes"),
    "text": ("text", "text"),
}


def read_inputs(
    path: str, columns: Columns, *, longest: int = 20_000, report: ReadReport | None = None, kinds: Kinds = TEXT
) -> Iterator[Pair]:
    """Stream what to predict: one Pair for each line (or row of a table), in order, also for an empty one."""
    try:
        yield from _read_inputs(path, columns, longest, report, kinds)
    except NotText as error:
        raise _other_content(path, kinds, error) from None


def _other_content(path: str, kinds: Kinds, error: NotText) -> UserError:
    """Return an error that says what a run reads, for a file that is not text."""
    given, kind = kind_of_file(path), kinds.target if kinds.source == "none" else kinds.source
    what = f"the file is not text but {CONTENTS[given][0]}" if given else error.what
    where = path if given else error.where
    endings = endings_of(kind)
    if given == "audio" and kind == "numbers":  # whose samples are numbers
        todo = "give a text file with the name of a recording on each line"
        return UserError(f"{what}; this run reads numbers, or names of files with numbers", where, todo)
    if endings:
        names = CONTENTS[str(kind)][1]
        todo = f"give a file that ends in {', '.join(endings)}, a folder of such files, or a text file with their names"
        return UserError(f"{what}; this run reads {names}", where, todo)
    if given:
        content = CONTENTS.get(str(kind), CONTENTS["text"])[1]
        return UserError(f"{what}; this run reads {content}", where, "give a text file in UTF-8, or a table")
    return UserError(error.what, error.where, f"this run reads text files: {error.todo}")


def _read_inputs(path: str, columns: Columns, longest: int, report: ReadReport | None, kinds: Kinds) -> Iterator[Pair]:
    policy = BadRowPolicy(ReadReport() if report is None else report, longest, training=False)
    checks = CellChecks(kinds, longest, policy.report.kinds)
    endings = endings_of(kinds.source)
    if endings and (os.path.isdir(path) or has_ending(path, endings)):
        yield from _inputs(_files(path, endings), path, columns, policy, checks, path if os.path.isdir(path) else "")
    elif path == "-":
        buffer = (
            sys.stdin.buffer if isinstance(sys.stdin.buffer, io.BufferedReader) else io.BufferedReader(_raw_stdin())
        )
        stream, encoding = as_utf8(buffer, display_name(path))
        yield from _plain_inputs(stream, display_name(path), encoding, columns, policy, checks)
    elif kind_of(path) in ("", "stdin"):
        with opened(path) as file:
            yield from _plain_inputs(file.stream, file.name, file.encoding, columns, policy, checks)
    else:
        roles = ("target",) if checks.alone else (*INPUTS, *PARTS)
        with open_table(path, columns, roles, policy) as table:
            yield from _inputs(table.rows, table.names[0], columns, policy, checks, table.folder, roles)


def parse_inputs(lines: Sequence[str], columns: Columns, *, longest: int = 20_000, kinds: Kinds = TEXT) -> list[Pair]:
    """Return what to predict of lines that somebody typed, which are written as those of a plain file."""
    stream, policy = io.BytesIO("\n".join(lines).encode()), BadRowPolicy(ReadReport(), longest, training=False)
    checks = CellChecks(kinds, longest, policy.report.kinds)
    return list(_plain_inputs(stream, "input", "", columns, policy, checks))


def _files(path: str, endings: Sequence[str]) -> Rows:
    """Yield a row for a file, or for each file of a folder, by name."""
    names = sorted(n for n in os.listdir(path) if has_ending(n, endings)) if os.path.isdir(path) else [path]
    if not names:
        raise UserError(f"there is no file in this folder that ends in {', '.join(endings)}", path, "check the folder")
    return ((number, [name]) for number, name in enumerate(names, 1))


def _raw_stdin() -> io.RawIOBase:
    """Return a stdin that some program has put in the place of the real one."""
    return cast(io.RawIOBase, sys.stdin.buffer)


def _inputs(
    rows: Rows,
    name: str,
    columns: Columns,
    policy: BadRowPolicy,
    checks: CellChecks,
    folder: str = "",
    roles: Sequence[str] = INPUTS,
) -> Iterator[Pair]:
    """Yield the pairs of rows, which have these roles; names of files are relative to `folder`, or to the current."""
    tag_at, features_at, context_at = extras(columns, 1, INPUTS[1:])
    positions = {"target" if checks.alone else "source": 0}  # a prompt is the beginning of a target
    positions |= {"context": context_at} if context_at else {}
    rows = checks.begin(rows, positions, folder)
    cut = cutter(columns, columns.present(roles), checks, name)
    for line, cells in rows:
        if not cells:
            yield Pair("")
            continue
        try:
            cells = checks.resolved(cut(cells)) if cells[0].strip() else cells
        except Fault as fault_of_part:
            policy.bad(f"{name}:{line}", fault_of_part)
        fault = checks.fault(cells, ()) if cells[0].strip() else None  # an empty source has an empty output
        if fault is not None:
            policy.bad(f"{name}:{line}", fault[1])
        cells = checks.loaded(cells) if cells[0].strip() else cells
        tag = cells[tag_at].strip() if tag_at else ""
        features = split_features(cells[features_at]) if features_at else ()
        yield Pair(cells[0], "", tag, features, (), cells[context_at] if context_at else "")


def _plain_inputs(
    stream: BinaryIO, name: str, encoding: str, columns: Columns, policy: BadRowPolicy, checks: CellChecks
) -> Iterator[Pair]:
    note_encoding(name, encoding, policy)
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
            f"write each line as {wanted}, because the model was trained with these columns"
            + ("; --tag gives all lines the same tag" if "tag" in roles else ""),
        )
    raise Fault(
        f"this line has {len(cells)} columns, but {wanted} is expected",
        "remove the extra tabs, or name the file .tsv so that it is read with the columns of the training data",
    )
