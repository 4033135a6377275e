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
class Hidden(Symbols):
    """Symbols that are hidden in the source: each row has the position and the id of some."""

    ended: bool = False


@dataclass(frozen=True)
class Vectors:
    """`width` numbers at each position."""

    width: int


@dataclass(frozen=True)
class Notes:
    """`width` notes at each position, each of which sounds (1) or does not (0)."""

    width: int


@dataclass(frozen=True)
class Frames(Vectors):
    """Vectors at a steady, high rate, which a reader may lower."""


@dataclass(frozen=True)
class Picture:
    """Columns of pixels from 0 to 255, each from the top to the bottom, with the channels of a pixel together."""

    channels: int
    height: int
    width: int = 0  # 0: pictures have different widths

    @property
    def column(self) -> int:
        """How many numbers a column has."""
        return self.channels * self.height


@dataclass(frozen=True)
class Places:
    """Spans of the source: the first and the last token of each that is right."""

    longest: int  # tokens of a predicted span
    none: bool = False  # whether a source may have no span: then END stands for it
    window: int = 10_000  # tokens of a source that are read together; longer ones are read in windows
    stride: int = 5_000  # tokens between the starts of two windows
    sentences: bool = False  # whether a span stands for the sentence that it begins in


@dataclass(frozen=True)
class Nothing:
    """No column of this role."""


Shape = Symbols | Vectors | Notes | Picture | Places | Nothing


@dataclass(frozen=True)
class Shapes:
    """Those of all columns of a run."""

    source: Shape
    target: Shape
    context: Shape | None = None

    @property
    def by_role(self) -> dict[str, Shape]:
        """Those of the columns that there are."""
        shapes = {"source": self.source, "target": self.target, "context": self.context}
        return {role: shape for role, shape in shapes.items() if shape is not None and not isinstance(shape, Nothing)}
