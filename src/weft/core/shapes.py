"""What a column's kind promises to the model, and all that the model knows of it. Nothing here needs torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Symbols:
    """Ids from 0 to `count` − 1, the special ones included."""

    count: int


@dataclass(frozen=True)
class Vectors:
    """`width` numbers at each position."""

    width: int


@dataclass(frozen=True)
class Nothing:
    """No column of this role."""


Shape = Symbols | Vectors | Nothing
