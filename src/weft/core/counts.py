"""Counts in messages: `1 pair`, `2 pairs`; and what is counted."""

from __future__ import annotations


def counted(count: int, what: str, many: str = "") -> str:
    """`1 pair`, `2 pairs`; `many` is the plural, where it is not formed with an s"""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {many or what + 's'}"


def row_unit(alone: bool) -> str:
    """Return what one row of the data is called: a pair, or a piece (of text or music) where there is one column."""
    return "piece" if alone else "pair"
