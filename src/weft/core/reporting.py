"""What training says while it goes on: the protocols of a reporter and a log, and the examples that they show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Example:
    """One validation pair with what the model predicts for it."""

    source: str
    wanted: str
    output: str
    exact: bool = True  # whether an output can equal its target: numbers only come near

    @property
    def correct(self) -> bool:
        return self.wanted == self.output

    @property
    def mark(self) -> str:
        if not self.exact:
            return "≈"
        return "✓" if self.correct else "✗"


class Reporter(Protocol):
    """Tells the user how training goes."""

    def note(self, text: str) -> None:
        """Tell the user something worth knowing."""
        ...

    def stage(self, doing: str, rows: int, share: float) -> None:
        """Tell how far reading and encoding have come."""
        ...

    def report(self, line: dict[str, Any]) -> None: ...

    def evaluation(self, line: dict[str, Any], examples: list[Example]) -> None: ...

    def close(self) -> None: ...


class Log(Protocol):
    """A record with one line per report and evaluation, which can be cut back to where a checkpoint was taken."""

    @property
    def bytes(self) -> int: ...

    def checksum(self) -> str:
        """Return the checksum of all that is written."""
        ...

    def write(self, line: dict[str, Any]) -> None: ...

    def cut(self, length: int) -> None: ...
