"""All kinds of columns by name, how a kind is recognised, and how a side is read from its file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.core.errors import UserError
from weft.core.files import parse_json
from weft.data.named_files import MARK, has_ending, name_of
from weft.data.records import NumbersText
from weft.data.sides.audio import AudioKind
from weft.data.sides.corrupted import load_hidden
from weft.data.sides.document import DocumentKind
from weft.data.sides.image import ImageKind
from weft.data.sides.label import Label, LabelKind, TokenLabels
from weft.data.sides.notes import NotesKind, are_notes, may_be_notes
from weft.data.sides.nothing import NothingKind
from weft.data.sides.numbers import NumbersKind
from weft.data.sides.side import Kind, NamesFiles, Side
from weft.data.sides.span import SpanKind
from weft.data.sides.text import TextKind

KINDS: dict[str, Callable[[], Kind]] = {
    "text": TextKind,
    "numbers": NumbersKind,
    "notes": NotesKind,
    "label": lambda: LabelKind(Label),
    "audio": AudioKind,
    "image": ImageKind,
    "labels": lambda: LabelKind(TokenLabels),
    "none": NothingKind,
    "span": SpanKind,
    "document": DocumentKind,
}
SAVED: dict[str, Callable[[Mapping[str, Any]], Side]] = {"hidden": load_hidden}  # sides of columns that are text
ENOUGH = 50  # cells by which a kind is recognised
READ_ONLY = {"audio": "recordings", "image": "pictures"}  # by kind: what files hold that are read, but not predicted


def recognised(cells: Sequence[str]) -> str:
    """Return the kind of a column by its first cells: text, unless most of them are lists of notes or of numbers.

    The others are then bad rows, rather than all of them text. Lists of lists of integers are notes if some are longer
    than others, else numbers. Names of files are known by their endings, whether or not the files are there: a missing
    one is then told.
    """
    lists = [cell for cell in cells if _holds_numbers(cell)]
    if 2 * len(lists) > len(cells):
        tunes = [cell for cell in lists if may_be_notes(cell)]
        return "notes" if 2 * len(tunes) >= len(lists) and are_notes(tunes) else "numbers"
    named = [name for name, kind in _naming() if cells and all(has_ending(cell, kind.endings) for cell in cells)]
    return named[0] if named else "text"


def _naming() -> list[tuple[str, NamesFiles]]:
    """Return the kinds whose cells name files."""
    return [(name, kind) for name, make in KINDS.items() if isinstance(kind := make(), NamesFiles)]


def endings_of(kind: str | None) -> Sequence[str]:
    """Return the endings of the files that cells of a kind name; none where they are no names."""
    return next((each.endings for name, each in _naming() if name == kind), ())


def kind_of_file(name: str) -> str:
    """Return the kind of content that the ending of a file's name tells; "" for any other name."""
    return next((kind for kind, each in _naming() if has_ending(name, each.endings)), "")


def is_file_name(cell: str) -> bool:
    """Return whether a cell looks like the name of a file of some kind."""
    return any(has_ending(cell, kind.endings) for _, kind in _naming())


def shown(cell: str) -> str:
    """Return a cell as people know it: of a file its name in the table."""
    return name_of(cell) if MARK in cell and os.path.isabs(cell) and is_file_name(cell) else cell


def names_files(kind: str | None) -> bool:
    """Return whether cells of this kind may name files; True where it is not known yet."""
    return kind is None or isinstance(KINDS[kind](), NamesFiles)


def _holds_numbers(cell: str) -> bool:
    """Return whether a cell is a list of numbers, or of lists of them, even one that cannot be used."""
    if isinstance(cell, NumbersText):
        return True
    if not cell.lstrip().startswith("["):
        return False
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        return False
    items = [item for step in value for item in (step if isinstance(step, list) else [step])]
    return all(item is None or type(item) in (int, float) for item in items)


def side_from_json(text: str | bytes, where: str) -> Side:
    """Return a side as it was saved; `where` is named if it cannot be read."""
    from weft.data.text.tokens import from_json

    try:
        kind = parse_json(text).get("kind")
    except (ValueError, AttributeError):
        kind = None
    if (
        not isinstance(kind, str) or kind not in (*KINDS, *SAVED) or kind == "text"
    ):  # tokenisers have the name of their own kind there
        return from_json(text, where)
    try:
        return SAVED[kind](parse_json(text)) if kind in SAVED else KINDS[kind]().load(parse_json(text))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        cause = f"{type(error).__name__}: {error}"
        what = f"this file does not hold a source or target description that Weft wrote ({cause})"
        raise UserError(what, where, "restore the file, or train again") from None
