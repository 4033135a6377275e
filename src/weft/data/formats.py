"""Formats without names for their cells: TSV, CSV and parallel files → rows of text with their line numbers.

Each reader yields (line, cells); a blank line yields no cells. A row that cannot be read goes to the `BadRowPolicy`,
which stops or leaves it out. `records` holds the formats that name their fields, `columns` picks the wanted cells.

Limits: a cell of CSV has at most 131,072 characters, or `longest` if that is more.
"""

from __future__ import annotations

import csv
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from weft.core.errors import UserError
from weft.core.pair import OFFSET
from weft.data.delimiters import NAMES, delimiter_of
from weft.data.files import STDIN_SUFFIX, File, Stamps, raw_lines

Cells = Sequence[str]  # one a role, then the further references of the target
Rows = Iterator[tuple[int, Cells]]

LONGEST_EXAMPLE = 30  # characters of a cell that is shown

KINDS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".conll": "conll",
    ".conllu": "conllu",
    STDIN_SUFFIX: "stdin",
}


@dataclass(frozen=True)
class Layout:
    """Where a file has what is read."""

    file: str
    locations: Mapping[str, str]  # by role
    unused: str = ""  # the end of a sentence on what is not read
    names: Mapping[str, str] = field(default_factory=dict)  # by role, of columns that have a name

    def sentence(self, cells: Cells) -> str:
        """Return a sentence that says it, with a row as the example."""
        each = [f"{role} is {where} ({_clipped(text)})" for (role, where), text in zip(self.locations.items(), cells)]
        return f"{self.file}: {', '.join(each)}{self.unused}"


def _clipped(text: str) -> str:
    text = text.partition(OFFSET)[0]
    return repr(text if len(text) <= LONGEST_EXAMPLE else f"{text[: LONGEST_EXAMPLE - 1]}…")


@dataclass
class ReadReport:
    """What was met while reading; filled as the rows go by."""

    rows: int = 0
    """good rows yielded"""
    skipped: int = 0
    """bad rows left out"""
    blank: int = 0
    """blank lines passed over"""
    columns: dict[str, str] = field(default_factory=dict)
    """which columns are read: a sentence for each layout of a table"""
    names: dict[str, str] = field(default_factory=dict)
    """the names of the columns in the first file, by role"""
    layout: Layout | None = None
    """that of the file being read"""
    notes: list[str] = field(default_factory=list)
    """warnings for the user, each once"""
    bad: list[str] = field(default_factory=list)
    """the first ten rows left out, as `file:line: reason`"""
    kinds: dict[str, str] = field(default_factory=dict)
    """the kind of each column, by role"""
    stamps: Stamps = field(default_factory=dict)
    """size, time and hash of each file that a cell names, by path"""

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def renamed(self, names: Mapping[str, str]) -> ReadReport:
        """Return the same report of files that have other names now; `names` has the new ones by the old."""
        old = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))

        def renamed(text: str) -> str:
            return old.sub(lambda match: names[match.group()], text)

        columns = {key: renamed(sentence) for key, sentence in self.columns.items()}
        notes, bad = ([renamed(text) for text in texts] for texts in (self.notes, self.bad))
        return replace(self, columns=columns, notes=notes, bad=bad)

    def describe_columns(self, cells: Cells) -> None:
        """Write down which columns are read, with a row as the example; once for files that have the same."""
        if self.layout is not None:
            key = "; ".join(f"{role} {location}" for role, location in self.layout.locations.items())
            self.names = self.names if self.columns else dict(self.layout.names)
            self.columns.setdefault(key, self.layout.sentence(cells))


class Fault(Exception):
    """Why one row is bad, and what to do about it."""

    def __init__(self, what: str, todo: str) -> None:
        super().__init__(what)
        self.what, self.todo = what, todo


@dataclass
class BadRowPolicy:
    """What happens to a bad row: it stops the reading, or is counted and left out."""

    report: ReadReport
    longest: int
    skip: bool = False
    training: bool = True  # the rows are pairs to learn from, so that --on-bad-line and the column flags exist
    hint: str = ""  # what to do about a file of one column
    spans: bool = False  # whether targets stand in their sources, and may say where
    hints: dict[str, str] = field(default_factory=dict)  # what to do about a fault, by what it says
    latest: str = ""
    advice: str = ""  # about the latest

    def bad(self, where: str, fault: Fault) -> None:
        if not self.skip:
            way_out = ", or leave such rows out with --on-bad-line skip" if self.training else ""
            raise UserError(fault.what, where, self.hints.get(fault.what, fault.todo) + way_out)
        self.latest, self.advice = f"{where}: {fault.what}", fault.todo
        self.report.skipped += 1
        if len(self.report.bad) < 10:
            self.report.bad.append(self.latest)


def kind_of(path: str) -> str:
    """Return the format that a file's name tells, or "" if it tells none."""
    stem = path.lower().removesuffix(".gz")
    return KINDS.get(os.path.splitext(stem)[1], "")


def decoded(raw: bytes) -> str:
    """Return a line as text, without its line end and otherwise untouched."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise not_utf8(raw, error.start) from error
    if text.endswith("\n"):
        return text[:-2] if text.endswith("\r\n") else text[:-1]
    return text


def not_utf8(raw: bytes, at: int) -> Fault:
    """Return the fault of a line whose byte `at` is wrong."""
    return Fault(
        f"byte {at + 1} of this line (0x{raw[at]:02x}) is not UTF-8",
        "save the file as UTF-8 (`iconv -f LATIN1 -t UTF-8`, if it is LATIN1)",
    )


def tsv_rows(file: File, policy: BadRowPolicy) -> Rows:
    """Yield the cells between tabs; quotes mean nothing."""
    for line, raw in enumerate(raw_lines(file.stream), 1):
        try:
            text = decoded(raw)
        except Fault as fault:
            policy.bad(f"{file.name}:{line}", fault)
            continue
        cells = text.split("\t")
        yield line, cells if len(cells) > 1 or text.strip() else []


def csv_rows(file: File, policy: BadRowPolicy) -> Rows:
    """Yield the records of the csv module, which may hold quoted line ends; the line is the record's last."""
    if policy.longest > csv.field_size_limit():
        csv.field_size_limit(policy.longest)
    delimiter = delimiter_of(file.start())
    if delimiter != ",":
        policy.report.note(f"{file.name}: the columns are separated by {NAMES[delimiter]}, not by commas")
    broken: list[Fault] = []
    # Strict, as otherwise a quote that is never closed makes one cell of the rest of the file, silently.
    reader = csv.reader(_csv_lines(file.stream, broken), delimiter=delimiter, strict=True)
    while True:
        broken.clear()
        first = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            policy.bad(f"{file.name}:{first}", _not_csv(error))
            continue
        if broken:
            policy.bad(f"{file.name}:{reader.line_num}", broken[0])
            continue
        yield reader.line_num, cells if len(cells) > 1 or any(map(str.strip, cells)) else []


def _csv_lines(stream: BinaryIO, broken: list[Fault]) -> Iterator[str]:
    """Yield lines for the csv module; one that is not UTF-8, too, so that its record stays whole."""
    for raw in raw_lines(stream):
        try:
            yield raw.decode()
        except UnicodeDecodeError as error:
            broken.append(not_utf8(raw, error.start))
            yield raw.decode(errors="replace")


def _not_csv(error: csv.Error) -> Fault:
    reason = str(error)
    if reason == "unexpected end of data":
        reason = "a quote that opens here is never closed"
    elif reason.startswith("field larger"):
        reason = f"a cell has more than {csv.field_size_limit():,} characters (is a quote never closed?)"
    return Fault(f"this is not valid CSV: {reason}", 'check the quotes: "…" around a cell, "" for a quote inside it')


def parallel_rows(files: tuple[File, File], policy: BadRowPolicy) -> Rows:
    """Yield line n of one file beside line n of the other."""
    left, right = (iter(raw_lines(file.stream)) for file in files)
    for line, raws in enumerate(itertools.zip_longest(left, right), 1):
        if raws[0] is None:
            raise _different_length(files, (line - 1, line + sum(1 for _ in right)))
        if raws[1] is None:
            raise _different_length(files, (line + sum(1 for _ in left), line - 1))
        cells = []
        for file, raw in zip(files, raws):
            try:
                cells.append(decoded(raw))
            except Fault as fault:
                policy.bad(f"{file.name}:{line}", fault)
                break
        else:
            yield line, cells


def _different_length(files: tuple[File, File], counts: tuple[int, int]) -> UserError:
    return UserError(
        f"the parallel files differ in length: {counts[0]:,} and {counts[1]:,} lines",
        f"{files[0].name}:{files[1].name}",
        "line n of one file must belong to line n of the other; `wc -l` counts the lines",
    )
