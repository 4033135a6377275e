"""What a view is, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.core.pair import Pair
from weft.look.inspect.limits import MOST_ATTRIBUTED, MOST_SECONDS
from weft.look.inspect.plots import Plots
from weft.look.inspect.subject import Line, Subject


class DoesNotApply(Exception):
    """A view has nothing to show, for a reason that a person can read; `todo` says what would help."""

    def __init__(self, reason: str, todo: str = "") -> None:
        super().__init__(reason)
        self.reason, self.todo = reason, todo


POSITIONS = {"audio": "frames", "image": "positions", "numbers": "steps", "notes": "steps"}  # by kind of column


def check_attributed(subject: Subject, read: int, written: int = 0) -> None:
    """Refuse a line whose input or output has too many positions for gradients and leave-one-out."""
    for name, kind, count in (("input", subject.read_side.kind, read), ("output", subject.sides.target.kind, written)):
        if count > MOST_ATTRIBUTED:
            unit = POSITIONS.get(kind, "symbols")
            reason = f"the {name} has {count:,} {unit}, and this is computed for at most {MOST_ATTRIBUTED}"
            raise DoesNotApply(reason, f"give {'a shorter' if name == 'input' else 'an input with a shorter'} {name}")


@dataclass(frozen=True)
class Options:
    """What the views are asked for beside their lines."""

    edits: Sequence[str] = ()  # of what-if
    labels: Sequence[float] = ()  # that cells are compared with: a number for each symbol of the text
    units: Sequence[str] = ()  # that cells and neighbours are to show
    brief: bool = False  # many lines are shown: the main plot of each is enough
    seconds: float = MOST_SECONDS  # after which lines and summaries that are not begun yet are left out


@dataclass(frozen=True)
class Material:
    """The run, the lines that are shown in full, and all lines that a summary may use."""

    subject: Subject
    lines: Sequence[Line]
    table: Sequence[Pair] = ()  # rows with their right outputs, where a table is given
    outputs: Sequence[str] = ()  # what the model wrote for them
    options: Options = Options()
    more: Sequence[Pair] = ()  # rows of the table beyond those that are predicted, for views that only read
    training: Callable[[], Sequence[Pair]] = lambda: ()  # the lines that the run was trained on, if they are there

    @property
    def pairs(self) -> Sequence[Pair]:
        """The rows of the table, or else the inputs with the outputs that are looked at."""
        return self.table or [line.written for line in self.lines]

    @property
    def rows(self) -> Sequence[Pair]:
        """The same, with all rows of the table that may be read."""
        return [*self.table, *self.more] if self.table else self.pairs


def always(subject: Subject) -> str:
    """Return that a view applies to every model."""
    return ""


@dataclass(frozen=True)
class View:
    """One way to look inside. `why_not` says why it does not apply to a model, or nothing where it does."""

    name: str
    title: str
    about: str  # what it shows and how to read it, for the page and the guide
    why_not: Callable[[Subject], str] = always
    of_line: Callable[[Line, Options], Plots] | None = None
    of_all: Callable[[Material], Plots] | None = None
    unasked: str = ""  # shown without being asked for: "line", "table" or not at all
