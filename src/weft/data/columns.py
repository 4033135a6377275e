"""Columns: which cell of a row is the source, the target, the tag, the features; and whether line 1 is a header.

A column is a number from 1 or a name. With a name, line 1 of a TSV or CSV is its header. Without, it is data, unless it
says just "source" and "target"; if it only looks like a header, a note warns and it stays data.
"""

from __future__ import annotations

import operator
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.core.errors import UserError, did_you_mean
from weft.data.formats import Fault, Judge, Rows, kind_of

ROLES = ("source", "target", "tag", "features")
DEFAULTS = (("source", 1), ("target", 2))  # in JSON and Parquet: the fields of that name, if there are any
# fmt: off
HEADER_WORDS = frozenset((
    "mr", "ref", "reference", "pron",
    "src", "tgt", "trg", "source", "target", "input", "output", "word", "words", "pronunciation", "phones",
    "phonemes", "phoneme", "ipa", "grapheme", "graphemes", "spelling", "transcription", "lemma", "form",
    "inflected", "english", "french", "german", "spanish", "en", "fr", "de", "es", "text", "label", "labels",
    "question", "answer", "query", "response", "prompt", "completion", "original", "normalized", "normalised",
    "noisy", "clean", "raw", "corrected", "sentence", "translation", "x", "y", "from", "to", "before", "after",
    "document", "summary", "id", "index", "nr",
))
# fmt: on


@dataclass(frozen=True)
class Columns:
    """Where each part of a pair stands: a number from 1, or a name in the header."""

    source: str | int = 1
    target: str | int = 2
    features: str | int | None = None
    tag: str | int | None = None

    def __post_init__(self) -> None:
        for role, column in self.chosen(*ROLES):
            if column == "" or (isinstance(column, int) and column < 1):
                raise UserError(
                    f"{column!r} is not a column", f"--{role}", "give a number from 1 on, or a name in the header"
                )

    def chosen(self, *roles: str) -> list[tuple[str, str | int]]:
        """The given roles that have a column, in the given order."""
        columns = {"source": self.source, "target": self.target, "tag": self.tag, "features": self.features}
        return [(role, column) for role in roles if (column := columns[role]) is not None]


FIRST_TWO = Columns()


def picked(rows: Rows, columns: Columns, roles: Sequence[str], name: str, judge: Judge) -> Rows:
    """The cells of the given roles, in their order, of each row that is as wide as the first; no header."""
    width = 0
    pick: Callable[[Sequence[str]], Sequence[str]] = tuple
    for line, cells in rows:
        if len(cells) != width:  # a blank line, the first row or an uneven one: all that is rare, in one test
            if not cells:
                yield line, ()
                continue
            if width:
                judge.bad(f"{name}:{line}", _uneven(len(cells), width))
                continue
            width = len(cells)
            places, is_header = _layout(cells, columns, roles, f"{name}:{line}", judge)
            pick = picker(places)
            if is_header:
                continue
        yield line, pick(cells)


def picker(places: Sequence[int]) -> Callable[[Sequence[str]], Sequence[str]]:
    """A function from a row to its cells at these places."""
    if len(places) == 1:  # itemgetter would give the cell itself
        return lambda cells: (cells[places[0]],)
    return operator.itemgetter(*places)


def _uneven(cells: int, width: int) -> Fault:
    return Fault(f"this row has {_columns(cells)}, the first row has {width}", "check the separators in this row")


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _layout(
    cells: Sequence[str], columns: Columns, roles: Sequence[str], where: str, judge: Judge
) -> tuple[list[int], bool]:
    """From the first row: the places of the roles, and whether the row is a header."""
    names = [cell.strip() for cell in cells]
    chosen = columns.chosen(*roles)
    if len(cells) == 1 and len(chosen) == 1:  # a table of inputs alone: that column is the source
        return [0], names[0] == columns.source
    if len(cells) == 1 and judge.training and columns.source != columns.target:
        raise _one_column(cells[0], where)
    places = [_place(role, column, names, where, judge) for role, column in chosen]
    _check_apart(chosen, [f"column {place + 1}" for place in places], where, judge)
    if columns == FIRST_TWO and len(cells) > 2 and judge.training:
        judge.reading.note(_unused(len(cells)))
    if any(isinstance(column, str) for _, column in columns.chosen(*ROLES)):
        return places, True
    return places, _says_header(names, columns, where, judge)


def _check_apart(
    chosen: Sequence[tuple[str, str | int]], found: Sequence[str], where: str, judge: Judge, known: str = ""
) -> None:
    """No column has two roles, unless one and the same is asked for as source and as target."""
    taken: dict[str, tuple[str, str | int]] = {}
    for (role, column), place in zip(chosen, found, strict=True):
        other, asked = taken.setdefault(place, (role, column))
        if other != role and (other, role, column) != ("source", "target", asked):
            flags = f" with --{other} and --{role}" if judge.training else ", as in the data of the training"
            todo = f"give each a column of its own{flags}{known}"
            raise UserError(f"{other} and {role} would both be {place}", where, todo)


def _unused(width: int) -> str:
    which = "column 3 is" if width == 3 else f"columns 3 to {width} are"
    return f"{which} not used; if column 3 holds features or a tag, train with --features 3 or --tag 3"


def _place(role: str, column: str | int, names: list[str], where: str, judge: Judge) -> int:
    if isinstance(column, int):
        if column > len(names):
            raise _beyond(role, column, _columns(len(names)), where, judge)
        return column - 1
    if column not in names:
        raise _unknown(role, column, names, where)
    return names.index(column)


def _says_header(names: list[str], columns: Columns, where: str, judge: Judge) -> bool:
    """Whether a first row that nobody called a header is one; a note says what was decided, if that may surprise."""
    numbers = [column for _, column in columns.chosen("source", "target") if isinstance(column, int)]
    if max(numbers) > len(names):
        return False
    source, target = (names[number - 1] for number in numbers)
    words = {source.lower(), target.lower()}
    if words == {"source", "target"}:
        judge.reading.note(f"{where}: taken as a header ({source}, {target}), not as data")
        return True
    if len(words) == 2 and words <= HEADER_WORDS:
        flags = f"--source {shlex.quote(source)} --target {shlex.quote(target)}"
        judge.reading.note(
            f"{where}: {source!r}, {target!r} looks like a header but is taken as data; "
            f"name the columns with {flags} if it is one"
        )
    return False


def parallel_places(columns: Columns, name: str) -> list[int]:
    """Parallel files as a table of two columns without names."""
    places = []
    for role, column in columns.chosen(*ROLES):
        if not isinstance(column, int) or column > 2 or role in ("tag", "features"):
            raise UserError(
                "parallel files have the columns 1 and 2 for source and target, without names, "
                f"but the {role} should be in {column!r}",
                name,
                f"leave --{role} out, or put all columns into one TSV file",
            )
        places.append(column - 1)
    return places


def choose_fields(
    names: list[str], columns: Columns, roles: Sequence[str], name: str, judge: Judge, fixed: bool
) -> list[str]:
    """The wanted names among those of a JSON object or (`fixed`, for all rows) a Parquet file."""
    wanted = []
    for role, column in columns.chosen(*roles):
        if isinstance(column, str):
            if fixed and column not in names:
                raise _unknown(role, column, names, name)
            wanted.append(column)
        elif (role, column) in DEFAULTS and role in names:
            wanted.append(role)
        elif column > len(names):
            raise _beyond(role, column, f"{len(names)} field(s)", name, judge)
        else:
            wanted.append(names[column - 1])
    known = f"; there are: {', '.join(names)}"
    _check_apart(columns.chosen(*roles), [f"the field {field!r}" for field in wanted], name, judge, known)
    return wanted


def _beyond(role: str, column: int, width: str, where: str, judge: Judge) -> UserError:
    todo = f"choose another column with --{role}, or add the column"
    if not judge.training:
        todo = f"give the {role} in column {column}, as in the data that the model was trained on"
    return UserError(f"the {role} should be in column {column}, but there are only {width}", where, todo)


def _unknown(role: str, column: str, names: list[str], where: str) -> UserError:
    known = [name if len(name) <= 40 else f"{name[:40]}…" for name in names[:30]]
    todo = did_you_mean(column, known)
    if where.endswith(":1"):  # a line of a table, and not the names of a Parquet file
        todo += f" (its first line); without a header, give a number from 1 to {len(names)}: --{role} {len(names)}"
    return UserError(f"there is no column {column!r} for the {role}", where, todo)


def _one_column(text: str, where: str) -> UserError:
    is_csv = kind_of(where.rpartition(":")[0]) == "csv"
    name, mark = ("comma", ",") if is_csv else ("tab", "<TAB>")
    todo = (
        f"put a {name} between source and target, give two parallel files as a:b, or choose with --source and --target"
    )
    found = " and ".join(repr(other) for other in ";,|" if other in text and other != mark)
    if found:
        todo = f"the line contains {found}: if that separates the columns, make it a {name}; else {todo}"
    return UserError(f"only one column, expected source{mark}target", where, todo)
