"""A line of data before it is a tensor, and the symbols that every vocabulary begins with. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

PAD, UNKNOWN, START, END = 0, 1, 2, 3
Ids = Sequence[int] | npt.NDArray[np.int64]
OFFSET = "\x1f"  # in a cell, between the text of a span and the character of its source that it begins at
SPECIALS = ("<pad>", "<unknown>", "<start>", "<end>")
MASK, HIDDEN = "<mask>", len(SPECIALS)  # what stands for a hidden symbol, and its id where there is one


@dataclass(frozen=True, slots=True)
class Pair:
    """One line of data: a source, its target (empty when only the source is known), a tag, features and a context.

    `references` are further targets that are as right as the first. Whatever kind of column a cell is in, here it is
    text: a list of numbers as JSON, a label as its name. The sides (data/sides) turn cells into arrays and back.
    """

    source: str
    target: str = ""
    tag: str = ""
    features: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    context: str = ""

    @property
    def targets(self) -> list[str]:
        """Return the target and all further references as text, without where spans begin."""
        return [cell.partition(OFFSET)[0] for cell in (self.target, *self.references)]

    def single(self) -> list[Pair]:
        """Return a pair for each of the targets."""
        if not self.references:
            return [self]
        return [replace(self, target=cell, references=()) for cell in (self.target, *self.references)]
