"""Symbols of a line: what they are called, and lines that are too long, which are refused or cut."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.errors import UserError
from weft.look.inspect.limits import MOST_SYMBOLS


def in_pieces(text: str, most: int = MOST_SYMBOLS) -> list[str]:
    """Cut a text into pieces of at most so many characters, after white space where the last half of one has any."""
    pieces = []
    while len(text) > most:
        space = max((i for i in range(most // 2, most) if text[i].isspace()), default=most - 1)
        pieces.append(text[: space + 1])
        text = text[space + 1 :]
    return [*pieces, text] if text else pieces


def check_length(name: str, symbols: int, where: str = "") -> None:
    """Refuse a line that is too long to be looked at in bounded time and memory."""
    if symbols > MOST_SYMBOLS:
        what = f"this {name} has {symbols:,} symbols; weft inspect takes at most {MOST_SYMBOLS:,}"
        raise UserError(what, where or f"the {name}", "give a part of it")


def named(tokens: Sequence[str], count: int, what: str = "frame") -> list[str]:
    """Return names for `count` positions: the tokens, or numbers where a reader makes fewer vectors than positions."""
    return list(tokens) if len(tokens) == count else [f"{what} {number}" for number in range(1, count + 1)]
