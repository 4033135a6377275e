"""Tables without field names: rows of a TSV or CSV → the cells of each role; and whether line 1 is a header.

With a column chosen by name, line 1 is a header; without, it is one where it looks like one (`headers`). Names find the
source and target that nobody chose (`columns`); without names they are columns 1 and 2, or 2 and 3 where column 1 only
numbers the rows.
"""

from __future__ import annotations

import operator
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from weft.core.errors import UserError
from weft.data import headers
from weft.data.columns import (
    AUTOMATIC,
    MOST_NAMES,
    ONLY_TARGETS,
    ROLES,
    SIDES,
    Columns,
    beyond,
    check_apart,
    names_of_roles,
    unclear,
    unknown,
)
from weft.data.files import File
from weft.data.formats import BadRowPolicy, Cells, Fault, Layout, Rows, kind_of
from weft.data.names import numbers_rows


def picked(rows: Rows, columns: Columns, roles: Sequence[str], name: str, policy: BadRowPolicy) -> Rows:
    """Yield the cells of the given roles, in their order, of each row that is as wide as the first; no header."""
    first_rows, problem = _first_rows(rows)
    width = 0
    pick: Callable[[Sequence[str]], Cells] = tuple
    for line, cells in chain(first_rows, () if problem else rows):
        if len(cells) != width:  # a blank line, the first row or an uneven one: all that is rare, in one test
            if not cells:
                yield line, ()
                continue
            if width:
                policy.bad(f"{name}:{line}", _uneven(len(cells), width))
                continue
            width = len(cells)
            table = _Table([row for _, row in first_rows if len(row) == width], name, line, policy)
            positions, is_header = table.layout(columns, columns.present(roles))
            pick = picker(positions)
            if is_header:
                continue
        yield line, pick(cells)
    if problem:
        raise problem


def _first_rows(rows: Rows) -> tuple[list[tuple[int, Sequence[str]]], UserError | None]:
    """Return the rows that a header is compared with, and what stopped the reading, to be raised after them."""
    first: list[tuple[int, Sequence[str]]] = []
    try:
        for row in rows:
            first.append(row)
            if len(first) > headers.SAMPLE_ROWS:
                break
    except UserError as error:
        return first, error
    return first, None


def picker(positions: Sequence[int]) -> Callable[[Sequence[str]], Cells]:
    """Return a function from a row to its cells at these positions."""
    if len(positions) == 1:  # itemgetter would give the cell itself
        return lambda cells: (cells[positions[0]],)
    return operator.itemgetter(*positions)


def parallel_positions(columns: Columns, files: Sequence[File], path: str, policy: BadRowPolicy) -> list[int]:
    """Return which of two parallel files each side is: a table of two columns without names."""
    for role in ROLES:
        column = columns.of(role)
        if column is not None and (not isinstance(column, int) or column > 2 or role not in SIDES):
            raise UserError(
                f"--{role} is {column!r}, but parallel files have only two columns, without names: 1 (source) and 2 "
                "(target)",
                path,
                f"leave --{role} out, or put all columns into one TSV file",
            )
    source, target = columns.source, columns.target
    positions = [int(source or 3 - int(target or 2)) - 1, int(target or 3 - int(source or 1)) - 1]
    policy.report.layout = Layout(path, {side: files[at].name for side, at in zip(SIDES, positions)})
    return positions


def _uneven(cells: int, width: int) -> Fault:
    return Fault(f"this row has {_columns(cells)}, but the first row has {width}", "check the separators in this row")


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


@dataclass
class _Table:
    """The first rows of a TSV or CSV, all as wide as the first."""

    rows: list[Sequence[str]]
    name: str
    line: int  # of the first row
    policy: BadRowPolicy

    @property
    def where(self) -> str:
        return f"{self.name}:{self.line}"

    def layout(self, columns: Columns, roles: Sequence[str]) -> tuple[list[int], bool]:
        """Return the positions of the roles, and whether the first row is a header."""
        cells = [cell.strip() for cell in self.rows[0]]
        if "source" not in roles:
            return self._only_target(columns, roles, cells)
        if len(cells) == 1 and len(roles) == 1:  # a table of inputs alone: that column is the source
            return [0], cells[0] in (columns.source, columns.in_training("source"))
        if len(cells) == 1 and self.policy.training and (columns.source is None or columns.source != columns.target):
            raise self._one_column()
        header = columns.named or _has_trained_name(columns, roles, cells)
        names = cells if header or self._looks_like_header(cells) else []
        positions = self._positions(columns, roles, names)
        locations = {role: f"column {at + 1}" for role, at in zip(roles, positions)}
        check_apart(columns, locations, self.where, self.policy)
        self.policy.report.layout = self._layout(columns, roles, positions, names)
        return positions, bool(names)

    def _only_target(self, columns: Columns, roles: Sequence[str], cells: list[str]) -> tuple[list[int], bool]:
        """Return the same for a task that has one column: the only one, or one that is chosen or has a usual name."""
        header = columns.named or any(name in ONLY_TARGETS for name in cells)
        header = header or _has_trained_name(columns, roles, cells)
        names = cells if header or (len(cells) > 1 and self._looks_like_header(cells)) else []
        known = names_of_roles(names, columns, roles) if names else {}
        if columns.target is None and "target" not in known and len(cells) > 1:
            known_as = names or [f"column {at + 1}" for at in range(len(cells))]
            raise unclear(known_as, ["target"], self.where, self.policy)
        positions = [self._position(role, columns.of(role), known.get(role), names, {"target": 0}) for role in roles]
        self.policy.report.layout = self._layout(columns, roles, positions, names)
        return positions, bool(names)

    def _looks_like_header(self, cells: list[str]) -> bool:
        """Return whether a first row that nobody called a header is read as one; a note says so, or that it may be."""
        evidence = headers.evidence(cells, self.rows[1:])
        shown = ", ".join(cells[:MOST_NAMES]) + (", …" if len(cells) > MOST_NAMES else "")
        if evidence >= headers.CERTAIN:
            self._note(f"the first line ({shown}) is taken as the header; if it is data, add a header line above it")
        elif evidence >= headers.DOUBTFUL:
            flags = f"--source {shlex.quote(cells[0])} --target {shlex.quote(cells[1])}"
            self._note(
                f"the first line ({shown}) is taken as data, but looks like a header; if it is one, choose columns by "
                f"name: {flags}"
            )
        return evidence >= headers.CERTAIN

    def _note(self, text: str) -> None:
        self.policy.report.note(f"{self.where}: {text}")

    def _positions(self, columns: Columns, roles: Sequence[str], names: list[str]) -> list[int]:
        known = names_of_roles(names, columns, roles) if names else {}
        defaults = self._default_positions(columns, names)
        return [self._position(role, columns.of(role), known.get(role), names, defaults) for role in roles]

    def _default_positions(self, columns: Columns, names: list[str]) -> dict[str, int]:
        """Return the first two columns, without those that number the rows where there are others."""
        width = len(self.rows[0])
        useful = [at for at in range(width) if not (names and numbers_rows(names[at]))]
        if not names and (columns.source, columns.target) == (None, None) and self._counts_rows():
            self._note("column 1 only numbers the rows, so columns 2 and 3 are read")
            useful = useful[1:]
        return dict(zip(SIDES, useful if len(useful) > 1 else range(width)))

    def _position(
        self, role: str, column: str | int | None, name: str | None, names: list[str], defaults: dict[str, int]
    ) -> int:
        width = len(self.rows[0])
        if isinstance(column, str) and column not in names:
            raise unknown(role, column, names, self.where, self.policy)
        if isinstance(column, int) and column > width:
            raise beyond(role, column, _columns(width), self.where, self.policy)
        if isinstance(column, int):
            return column - 1
        if name is None and role not in defaults:
            raise beyond(role, 2, _columns(width), self.where, self.policy)
        return names.index(name) if name is not None else defaults[role]

    def _counts_rows(self) -> bool:
        """Return whether column 1 of three and more only numbers the rows: 1, 2, 3, …"""
        cells = [row[0].strip() for row in self.rows]
        if len(self.rows[0]) < 3 or len(cells) < 3 or not all(cell.isdecimal() for cell in cells):
            return False
        return all(int(after) == int(before) + 1 for before, after in pairwise(cells))

    def _layout(self, columns: Columns, roles: Sequence[str], positions: list[int], names: list[str]) -> Layout:
        called = [f"column {at + 1}, {names[at]}" if names else f"column {at + 1}" for at in positions]
        width = len(self.rows[0])
        unused = [at + 1 for at in range(width) if at not in positions] if columns == AUTOMATIC else []
        named = {role: names[at] for role, at in zip(roles, positions)} if names else {}
        return Layout(self.name, dict(zip(roles, called)), _unused(unused), named)

    def _one_column(self) -> UserError:
        is_csv = kind_of(self.name) == "csv"
        name, mark = ("comma", ",") if is_csv else ("tab", "<TAB>")
        todo = (
            f"put a {name} between source and target, give two parallel files as a:b, "
            "or choose with --source and --target"
        )
        others = " and ".join(repr(other) for other in ";,|" if other in self.rows[0][0])
        if others and not is_csv:
            todo = f"the line contains {others}: if that separates the columns, name the file .csv; otherwise, {todo}"
        return UserError(
            f"there is only one column, but source{mark}target is expected", self.where, self.policy.hint or todo
        )


def _has_trained_name(columns: Columns, roles: Sequence[str], cells: Sequence[str]) -> bool:
    """Return whether a first row names a column as the training data of a run did."""
    return any(columns.in_training(role) in cells for role in roles)


def _unused(numbers: Sequence[int]) -> str:
    """Return the end of a sentence on the columns that are not read."""
    if not numbers:
        return ""
    which = f"column {numbers[0]} is" if len(numbers) == 1 else f"columns {', '.join(map(str, numbers))} are"
    return (
        f"; {which} not used (if {numbers[0]} holds features or a tag: --features {numbers[0]} or --tag {numbers[0]})"
    )
