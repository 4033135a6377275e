"""Which kind each column is, and which cells of it cannot be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from weft.data.formats import Cells, Fault, Rows
from weft.data.sides.numbers import NumbersKind, parse
from weft.data.sides.table import ENOUGH, KINDS, recognised


@dataclass(frozen=True)
class Kinds:
    """The kind of each column as the settings give it; None: recognised by its first cells."""

    source: str | None = None
    target: str | None = None
    context: str | None = None
    missing: tuple[str, ...] = ()  # the roles whose numbers may be missing
    in_step: bool = False  # whether a context has to be as long as its target

    def of(self, role: str) -> str | None:
        return {"source": self.source, "target": self.target, "context": self.context}[role]


TEXT = Kinds("text", "text")


class CellChecks:
    """Checks the cells of rows; the kinds that nobody gave are recognised by the first rows of the first file."""

    def __init__(self, kinds: Kinds, longest: int, recognised_before: dict[str, str]) -> None:
        """`recognised_before` holds kinds by role, and gets those that are recognised now."""
        self._kinds, self._longest, self.names = kinds, longest, recognised_before
        self._rules = {name: make() for name, make in KINDS.items()}
        numbers = self._rules["numbers"]
        assert isinstance(numbers, NumbersKind)
        numbers.may_be_missing = kinds.missing

    def begin(self, rows: Rows, positions: dict[str, int]) -> Iterator[tuple[int, Cells]]:
        """Return the rows of a file, whose cells of each role are at `positions`, once the kinds are known."""
        self._positions: dict[str, int] = positions
        first: list[tuple[int, Cells]] = []
        unknown = [role for role in positions if role not in self.names]
        if any(self._kinds.of(role) is None for role in unknown):
            first = list(islice(rows, ENOUGH))
        for role in unknown:
            sample = [cells[positions[role]] for _, cells in first if cells]
            self.names[role] = self._kinds.of(role) or recognised(sample)
        return chain(first, rows)

    @property
    def all_text(self) -> bool:
        """Whether every column is text, which is checked faster elsewhere."""
        return all(name == "text" for name in self.names.values())

    def fault(self, cells: Cells, references: Sequence[str]) -> tuple[str, Fault] | None:
        """Return the role of the first cell that cannot be used, and why; None if all can."""
        for role, position in self._positions.items():
            further = references if role == "target" else ()
            for cell in (cells[position], *further):
                fault = self._rules[self.names[role]].fault(role, cell, self._longest)
                if fault is not None:
                    return role, fault
        return self._length_fault(cells)

    def _length_fault(self, cells: Cells) -> tuple[str, Fault] | None:
        positions = self._positions
        if self.names.get("target") == "labels":
            words, labels = (len(cells[positions[role]].split(" ")) for role in ("source", "target"))
            if words != labels:
                what = f"the source has {words} words and the target {labels} labels"
                return "target", Fault(what, "give each word, at single spaces, one label")
        if self._kinds.in_step and "context" in positions and "target" in positions:
            target, context = (len(parse(cells[positions[role]])) for role in ("target", "context"))
            if context < target:
                what = f"the context has {context} steps and the target {target}"
                return "context", Fault(
                    what, "give the context a step for each of the target, or set context.use=attend"
                )
        return None
