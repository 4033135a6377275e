"""Which kind each column is, and which cells of it cannot be used."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, Literal

import numpy as np

from weft.core.counts import counted
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data.files import Stamps, stamp
from weft.data.formats import Cells, Fault, Rows
from weft.data.named_files import path_of
from weft.data.pictures.files import LARGEST
from weft.data.sides.audio import LONGEST, AudioKind
from weft.data.sides.image import ImageKind
from weft.data.sides.notes import NotesKind, may_be_notes
from weft.data.sides.number_cells import parse
from weft.data.sides.numbers import NumbersKind
from weft.data.sides.side import NamesFiles, ReadsFiles, steps_of
from weft.data.sides.table import ENOUGH, KINDS, recognised


@dataclass(frozen=True)
class Kinds:
    """The kind of each column as the settings give it; None: recognised by its first cells."""

    source: str | None = None
    target: str | None = None
    context: str | None = None
    missing: tuple[str, ...] = ()  # the roles whose numbers may be missing
    in_step: bool = False  # whether a context has to be as long as its target
    widths: tuple[tuple[str, int], ...] = ()  # roles, and how many numbers a step has that a run was trained with
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # by role: the notes that a run knows
    seconds: float = LONGEST  # that a recording may have
    megapixels: float = LARGEST  # that a picture may have
    running: Literal["", "pieces", "passages", "lines"] = ""  # whether plain files are running text, and how it is cut

    def of(self, role: str) -> str | None:
        return {"source": self.source, "target": self.target, "context": self.context}[role]


TEXT = Kinds("text", "text")


class CellChecks:
    """Checks the cells of rows; the kinds that nobody gave are recognised by the first rows of the first file."""

    def __init__(
        self, kinds: Kinds, longest: int, recognised_before: dict[str, str], stamps: Stamps | None = None
    ) -> None:
        """`recognised_before` holds kinds by role, and gets those that are recognised now.

        `stamps` gets what tells whether the files that cells name have changed.
        """
        self._kinds, self._longest, self.names, self._stamps = kinds, longest, recognised_before, stamps
        self._naming: dict[str, NamesFiles] = {}  # by role
        self.alone, self.running = kinds.source == "none", kinds.running  # whether the target is the only column
        if self.alone:
            self.names["source"] = "none"
        self._rules = {name: make() for name, make in KINDS.items()}
        numbers, notes = self._rules["numbers"], self._rules["notes"]
        assert isinstance(numbers, NumbersKind)
        assert isinstance(notes, NotesKind)
        numbers.may_be_missing, numbers.trained = kinds.missing, dict(kinds.widths)
        notes.ranges = kinds.ranges
        audio = self._rules["audio"]
        assert isinstance(audio, AudioKind)
        audio.longest, audio.surveyed = kinds.seconds, stamps is not None
        image = self._rules["image"]
        assert isinstance(image, ImageKind)
        image.largest = kinds.megapixels

    def begin(self, rows: Rows, positions: dict[str, int], folder: str = "") -> Iterator[tuple[int, Cells]]:
        """Return the rows of a file, whose cells of each role are at `positions`, once the kinds are known.

        Names of files are relative to `folder`.
        """
        self._positions: dict[str, int] = positions
        self._folder = folder
        first: list[tuple[int, Cells]] = []
        unknown = [role for role in positions if role not in self.names]
        if any(self._kinds.of(role) is None for role in unknown):
            first = list(islice(rows, ENOUGH))
        samples = {role: [cells[positions[role]] for _, cells in first if cells] for role in unknown}
        for role, sample in samples.items():
            self.names[role] = self._kinds.of(role) or self._recognised(sample)
        self._recognise_melodies({role: sample for role, sample in samples.items() if self._kinds.of(role) is None})
        rules = {role: self._rules[self.names[role]] for role in positions}
        self._naming = {role: rule for role, rule in rules.items() if isinstance(rule, NamesFiles)}
        return chain(first, rows)

    def _recognised(self, sample: Sequence[str]) -> str:
        """Return the kind of a column; a sound that is continued is the numbers of its waveform."""
        kind = recognised(sample)
        return "numbers" if self.alone and kind == "audio" else kind

    def resolved(self, cells: Cells) -> Cells:
        """Return the cells with a path in the place of each name of a file."""
        if not self._naming:
            return cells
        changed = list(cells)
        for role, rule in self._naming.items():
            changed[self._positions[role]] = rule.resolve(cells[self._positions[role]], self._folder)
        return changed

    def loaded(self, cells: Cells) -> Cells:
        """Return the cells, all of which can be used, with the content of each file that is read with the table."""
        reading = {role: rule for role, rule in self._naming.items() if isinstance(rule, ReadsFiles)}
        if not reading:
            return cells
        changed = list(cells)
        for role, rule in reading.items():
            changed[self._positions[role]] = rule.contents(cells[self._positions[role]])
        return changed

    def _recognise_melodies(self, samples: Mapping[str, Sequence[str]]) -> None:
        """Take steps of one note each for notes, which alone would be numbers, where another column has notes."""
        if "notes" not in self.names.values():
            return
        for role, sample in samples.items():
            if self.names[role] == "numbers" and all(may_be_notes(cell) for cell in sample):
                self.names[role] = "notes"

    @property
    def all_text(self) -> bool:
        """Whether every column is text, which is checked faster elsewhere."""
        return all(name == "text" for name in self.names.values())

    @property
    def names_files(self) -> bool:
        """Whether cells of some column name files."""
        return bool(self._naming)

    def fault(self, cells: Cells, references: Sequence[str]) -> tuple[str, Fault] | None:
        """Return the role of the first cell that cannot be used, and why; None if all can."""
        for role, position in self._positions.items():
            further = references if role == "target" else ()
            for cell in (cells[position], *further):
                fault = self._rules[self.names[role]].fault(role, cell, self._longest)
                if fault is not None:
                    return role, fault
        return self._length_fault(cells) or self._stamp_fault(cells)

    def _stamp_fault(self, cells: Cells) -> tuple[str, Fault] | None:
        """Stamp the files that the cells name; return which cannot be read, if one cannot."""
        if self._stamps is None:
            return None
        for role in self._naming:
            path = path_of(cells[self._positions[role]])
            try:
                if os.path.isabs(path) and path not in self._stamps:  # every name of a file is absolute by now
                    self._stamps[path] = stamp(path)
            except UserError as error:
                return role, Fault(error.what, error.todo)
        return None

    def _steps(self, role: str, cell: str) -> int:
        return len(parse(cell)) if self.names[role] == "numbers" else steps_of(cell)

    def _length_fault(self, cells: Cells) -> tuple[str, Fault] | None:
        positions = self._positions
        if self.names.get("target") == "labels":
            words, labels = (len(cells[positions[role]].split(" ")) for role in ("source", "target"))
            if words != labels:
                what = f"the source has {counted(words, 'word')}, but the target has {counted(labels, 'label')}"
                return "target", Fault(what, "give one label per word, separated by single spaces")
        if self._kinds.in_step and "context" in positions and "target" in positions:
            target, context = (self._steps(role, cells[positions[role]]) for role in ("target", "context"))
            if context < target:
                what = f"the context has {context} step{'s' * (context != 1)}, but the target has {target}"
                return "context", Fault(what, "give the context as many steps as the target, or set context.use=attend")
        return None


class InputChecks:
    """Checks inputs that are given in Python as those of a file are; text needs no check."""

    def __init__(self, kinds: Kinds, longest: int) -> None:
        given = "target" if kinds.source == "none" else "source"  # what an input holds: a prompt begins a target
        roles = [role for role in (given, "context") if kinds.of(role) not in (None, "text")]
        self._positions = {role: number for number, role in enumerate(roles)}
        self._checks = CellChecks(kinds, longest, {})
        self._checks.begin(iter(()), self._positions, os.getcwd())

    def __call__(self, pair: Pair, where: str) -> Pair:
        """Return the pair with its files read; an empty source stays, and has an empty output."""
        fault = self.fault(pair)
        if fault is not None:
            raise UserError(fault[1].what, where, fault[1].todo)
        return self.read(pair)

    def fault(self, pair: Pair) -> tuple[str, Fault] | None:
        """Return the role of the first cell that cannot be used, and why; None if all can."""
        return self._checks.fault(self._cells(pair), ()) if self._positions and pair.source.strip() else None

    def read(self, pair: Pair) -> Pair:
        """Return a pair without faults with its files read."""
        if not self._positions or not pair.source.strip():
            return pair
        read = dict(zip(self._positions, self._checks.loaded(self._cells(pair))))
        source = read.get("source", read.get("target", pair.source))
        return replace(pair, source=source, context=read.get("context", pair.context))

    def _cells(self, pair: Pair) -> Cells:
        return self._checks.resolved([pair.context if role == "context" else pair.source for role in self._positions])


CELLS = (str, list, tuple, np.ndarray)  # what a program may give for a cell of a table


def cell_of(value: Any, where: str) -> str:
    """Return a cell as a table holds it: a list of numbers or notes as JSON; UserError where it is none."""
    if isinstance(value, str):
        return value
    with suppress(TypeError, ValueError):
        if isinstance(value, CELLS):
            return json.dumps(value.tolist() if isinstance(value, np.ndarray) else value)
    todo = "give a text, a list of numbers or a numpy array"
    raise UserError(f"{value!r} is neither a text nor a list of numbers", where, todo)


def with_cells(pair: Pair, where: str) -> Pair:
    """Return a pair whose lists of numbers or notes are cells of a table."""
    if all(isinstance(cell, str) for cell in (pair.source, pair.target, pair.context)):
        return pair
    source, target, context = (cell_of(cell, where) for cell in (pair.source, pair.target, pair.context))
    return replace(pair, source=source, target=target, context=context)
