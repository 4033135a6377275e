"""Notes: for each row a tune, which is a list of steps, each a list of the MIDI numbers that sound there, as JSON.

A step is encoded as a 0 or 1 for each note: for the 88 of a piano, which is what the literature counts, or for all 128
where training has others. An empty step is a rest. A note that is named twice in a step sounds once.
"""

# T steps · K notes

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.core import shapes
from weft.core.pair import Pair
from weft.data.blocks import Block
from weft.data.formats import Fault
from weft.data.sides.side import Row, Rows, block_cells, cells, steps_of

FORMAT = 1
SHOWN = 30  # characters of a cell in a message
ALL = 0, 127  # the MIDI numbers there are
PIANO = 21, 108
NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
TODO = "write MIDI numbers, from 0 to 127; middle C is 60"
Tune = list[list[int]]


def parse(cell: str) -> Tune:
    """Return the notes of each step; raise a Fault where the cell holds something else."""
    try:
        tune = json.loads(cell)
    except (ValueError, RecursionError):
        tune = None
    if not isinstance(tune, list):
        shown = cell if len(cell) <= SHOWN else f"{cell[:SHOWN]}…"
        todo = "write the notes of each step, such as [[60, 64, 67], [], [62]]"
        raise Fault(f"{shown!r} is not a list of lists of notes", todo)
    if not tune:
        raise Fault("the tune is empty", "give at least one step; a step without notes is []")
    for number, step in enumerate(tune, 1):
        if not isinstance(step, list):
            raise Fault(f"step {number} is {step!r}, not a list", f"write its notes as a list: [{json.dumps(step)}]")
        for note in step:
            if type(note) is not int:
                raise Fault(f"step {number} holds {note!r}, which is not a note", TODO)
            if not ALL[0] <= note <= ALL[1]:
                raise Fault(f"step {number} holds {note}, and there is no such note", TODO)
    return tune


def may_be_notes(cell: str) -> bool:
    """Return whether a cell holds steps of notes, which may be numbers as well where all steps have as many."""
    try:
        parse(cell)
    except Fault:
        return False
    return True


def are_notes(cell_sample: Sequence[str]) -> bool:
    """Return whether cells hold notes and no numbers: some steps have other counts of notes than the rest."""
    counts: set[int] = set()
    for cell in cell_sample:
        if not may_be_notes(cell):
            return False
        counts.update(map(len, parse(cell)))
    return len(counts) > 1


def note_name(note: int) -> str:
    """Return the name of a note; that of 60, middle C, is C4."""
    return f"{NAMES[note % 12]}{note // 12 - 1}"


@dataclass(frozen=True)
class Notes:
    """What is known of a column of notes, and how it is encoded."""

    lowest: int
    highest: int
    shortest: int = 1  # steps in training
    longest: int = 1
    length: str = "fixed"  # how many steps an output has: "fixed" (as training), "source", "context", or "learned"

    kind = "notes"

    @property
    def shape(self) -> shapes.Notes:
        return shapes.Notes(self.highest - self.lowest + 1)

    def rows(self, pairs: Sequence[Pair], role: str) -> Rows:
        return [self.encode(parse(cell) if cell else []) for cell in cells(pairs, role)]

    def encode(self, tune: Tune) -> npt.NDArray[np.uint8]:
        """Return 1 where a note sounds and 0 elsewhere (T, K)."""
        encoded = np.zeros((len(tune), self.shape.width), dtype=np.uint8)
        steps = np.repeat(np.arange(len(tune)), [len(step) for step in tune])
        encoded[steps, np.array([note - self.lowest for step in tune for note in step], dtype=np.int64)] = 1
        return encoded

    def decoded(self, row: Row) -> Tune:
        """Return the notes of each step of an encoded tune."""
        encoded = np.asarray(row).reshape(-1, self.shape.width)
        return [(np.flatnonzero(step > 0.5) + self.lowest).tolist() for step in encoded]

    def text(self, row: Row, pair: Pair) -> str:
        return json.dumps(self.decoded(row))

    def cost(self, cell: str) -> int:
        return steps_of(cell)

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, "kind": self.kind, **asdict(self)}, indent=1) + "\n"


class NotesCollector:
    """Collects how long tunes are, and which notes they have."""

    def __init__(self) -> None:
        self._lengths: list[int] = []
        self._counts = np.zeros(ALL[1] + 1, dtype=np.int64)  # by note
        self._rests = self._held = self._most = self._in_step = 0

    def add(self, block: Block, role: str) -> None:
        partners = block.sources if role == "target" else block.targets
        for cell, partner in zip(block_cells(block, role), partners):
            tune = [set(step) for step in parse(cell)]
            self._lengths.append(len(tune))
            self._in_step += role != "source" and len(tune) == steps_of(partner)
            self._rests += sum(not step for step in tune)
            self._most = max(self._most, *map(len, tune))
            self._held += sum(len(step & before) for before, step in pairwise(tune))
            np.add.at(self._counts, [note for step in tune for note in step], 1)

    def result(self) -> dict[str, Any]:
        sounding, steps, notes = np.flatnonzero(self._counts), sum(self._lengths), int(self._counts.sum())
        return {
            "lowest": int(sounding.min(initial=ALL[1])) if notes else PIANO[0],
            "highest": int(sounding.max(initial=ALL[0])) if notes else PIANO[0],
            "shortest": min(self._lengths),
            "longest": max(self._lengths),
            "mean_length": steps / len(self._lengths),
            "notes": notes,
            "notes_per_step": notes / steps,
            "most_notes": self._most,
            "rests": self._rests / steps,
            "held": self._held / max(1, notes),
            "in_step": self._in_step / len(self._lengths),  # a target with its source, a context with its target
        }


class NotesKind:
    """Reads and surveys a column of notes."""

    def __init__(self) -> None:
        self.ranges: Mapping[str, tuple[int, int]] = {}  # by role, of the notes that a trained model knows

    def fault(self, role: str, cell: str, longest: int) -> Fault | None:
        try:
            tune = parse(cell)
        except Fault as fault:
            return Fault(f"the {role}: {fault.what}", fault.todo)
        if len(tune) > longest:
            return Fault(f"the {role} has {len(tune):,} steps, but the limit is {longest:,}", "shorten or split it")
        lowest, highest = self.ranges.get(role, ALL)
        for number, step in enumerate(tune, 1):
            unknown = next((note for note in step if not lowest <= note <= highest), None)
            if unknown is not None:
                what = f"the {role}: step {number} holds {unknown}, but the run knows the notes {lowest} to {highest}"
                return Fault(what, "transpose the tune, or train a run on such notes")
        return None

    def collector(self) -> NotesCollector:
        return NotesCollector()

    def describe(self, survey: Mapping[str, Any]) -> dict[str, str]:
        shortest, longest = survey["shortest"], survey["longest"]
        mean = f"{shortest:,} to {longest:,}, mean {survey['mean_length']:.1f}"
        lowest, highest = survey["lowest"], survey["highest"]
        return {
            "steps": f"{shortest:,}" if shortest == longest else mean,
            "range": f"{lowest} to {highest} ({note_name(lowest)} to {note_name(highest)})",
            "notes per step": f"{survey['notes_per_step']:.2f}, at most {survey['most_notes']}",
            "steps without notes": f"{survey['rests']:.1%}",
            "notes held from the step before": f"{survey['held']:.0%}",
        }

    def load(self, content: Mapping[str, Any]) -> Notes:
        if content["format"] != FORMAT:
            raise ValueError(f"the format is {content['format']}, but this version of Weft reads format {FORMAT}")
        fields = {name: value for name, value in content.items() if name not in ("format", "kind")}
        side = Notes(**fields)
        if not ALL[0] <= side.lowest <= side.highest <= ALL[1]:
            raise ValueError(f"the notes {side.lowest} to {side.highest} are not within {ALL[0]} to {ALL[1]}")
        return side


def learned(survey: Mapping[str, Any], length: str = "fixed") -> Notes:
    """Return the side of a column with this survey: the notes of a piano, or all where training has others."""
    piano = PIANO[0] <= survey["lowest"] and survey["highest"] <= PIANO[1]
    return Notes(*(PIANO if piano else ALL), survey["shortest"], survey["longest"], length)
