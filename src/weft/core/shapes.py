"""What a column's kind promises to the model, and all that the model knows of it. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Symbols:
    """Ids from 0 to `count` − 1, the special ones included."""

    count: int
    ended: bool = True  # whether END follows each sequence
    in_step: bool = False  # whether there is one for each symbol of the source


@dataclass(frozen=True)
class Vectors:
    """`width` numbers at each position."""

    width: int


@dataclass(frozen=True)
class Nothing:
    """No column of this role."""


Shape = Symbols | Vectors | Nothing


@dataclass(frozen=True)
class Shapes:
    """Those of all columns of a run."""

    source: Shape
    target: Shape
    context: Shape | None = None

    @property
    def by_role(self) -> dict[str, Shape]:
        """Those of the columns that there are."""
        shapes = {"source": self.source, "target": self.target}
        return shapes if self.context is None else {**shapes, "context": self.context}
