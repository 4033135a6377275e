"""Errors that a person can act on: what is wrong, where, and what to do.

`UserError` is the user's mistake (exit code 2); `WeftError` is anything else that Weft can name (exit code 1).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WeftError(Exception):
    """Something that stopped Weft, told in three parts."""

    exit_code = 1

    def __init__(self, what: str, where: str = "", todo: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.todo = what, where, todo

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.todo:
            lines.append(f"  to do: {self.todo}")
        return "\n".join(lines)


class UserError(WeftError):
    """A mistake in usage, data or settings."""

    exit_code = 2


class Interrupted(WeftError):
    """Training was asked to stop (SIGINT or SIGTERM) and has saved itself: not an error."""

    exit_code = 130


class Diverged(WeftError):
    """The loss or its gradient is not finite any more; the last good weights are saved."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean 'lstm'? Choose from: elman, lstm, gru`: the end of a message about an unknown name."""
    names = [str(k) for k in known]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.55)
    hint = f"did you mean {near[0]!r}? Choose" if near else "choose"
    return f"{hint} from: {', '.join(names)}"
