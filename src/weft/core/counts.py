"""Counts in messages: `1 pair`, `2 pairs`."""

from __future__ import annotations


def counted(count: int, what: str, many: str = "") -> str:
    """`1 pair`, `2 pairs`; `many` is the plural, where it is not formed with an s"""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {many or what + 's'}"
