"""Calling `weft` as it is typed; the fixture `weft` in conftest.py does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Weft = Callable[..., Done]


def refused(done: Done, *said: str, after_lines: int = 0, after_notes: int = 0) -> None:
    """The user's mistake, in three parts, with nothing else (but the outputs of the lines before it, and notes)."""
    assert done.code == 2, done
    assert len(done.lines) == after_lines
    *before, what, where, todo = done.err.rstrip("\n").split("\n")
    assert [line[:6] for line in before] == ["note: "] * after_notes
    assert what.startswith("error: ")
    assert where.startswith("  where: ")
    assert todo.startswith("  to do: ")
    assert min(len(where), len(todo)) > len("  where: ")
    for text in said:
        assert text in done.err
