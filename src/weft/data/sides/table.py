"""All kinds of columns by name, how a kind is recognised, and how a side is read from its file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.core.errors import UserError
from weft.core.files import parse_json
from weft.data.formats import Fault
from weft.data.records import NumbersText
from weft.data.sides.label import Label, LabelKind, TokenLabels
from weft.data.sides.numbers import NumbersKind, parse
from weft.data.sides.side import Kind, Side
from weft.data.sides.text import TextKind

KINDS: dict[str, Callable[[], Kind]] = {
    "text": TextKind,
    "numbers": NumbersKind,
    "label": lambda: LabelKind(Label),
    "labels": lambda: LabelKind(TokenLabels),
}
ENOUGH = 50  # cells by which a kind is recognised


def recognised(cells: Sequence[str]) -> str:
    """Return the kind of a column by its first cells: numbers if every one is a list of numbers, else text."""
    return "numbers" if cells and all(_holds_numbers(cell) for cell in cells) else "text"


def _holds_numbers(cell: str) -> bool:
    if isinstance(cell, NumbersText):
        return True
    if not cell.lstrip().startswith("["):
        return False
    try:
        parse(cell)
    except Fault:
        return False
    return True


def side_from_json(text: str | bytes, where: str) -> Side:
    """Return a side as it was saved; `where` is named if it cannot be read."""
    from weft.data.text.tokens import from_json

    try:
        kind = parse_json(text).get("kind")
    except (ValueError, AttributeError):
        kind = None
    if (
        not isinstance(kind, str) or kind not in KINDS or kind == "text"
    ):  # tokenisers have the name of their own kind there
        return from_json(text, where)
    try:
        return KINDS[kind]().load(parse_json(text))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        cause = f"{type(error).__name__}: {error}"
        what = f"this file does not hold a source or target description that Weft wrote ({cause})"
        raise UserError(what, where, "restore the file, or train again") from None
