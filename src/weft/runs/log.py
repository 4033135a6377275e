"""log.jsonl: the record of a run that machines read."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from weft.core.files import parse_json, read_regular
from weft.core.manifest import entry_of_file
from weft.score.metrics import with_current_names

MOST_BYTES = 1 << 28


class LogFile:
    """One line per report or evaluation, cut back to a known length when a run resumes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, line: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(finite(line), ensure_ascii=False) + "\n")

    @property
    def bytes(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def checksum(self) -> str:
        """Return the checksum of all that is written; "" where nothing is."""
        if not self.path.exists():
            return ""
        return entry_of_file(self.path.parent, self.path.name).sha256

    def cut(self, length: int) -> None:
        """Cut the log back to a length; if that is in the middle of a line somebody else wrote, end the line there."""
        if self.bytes > length:
            os.truncate(self.path, length)
        if self.bytes and not self._ends_a_line():
            with self.path.open("ab") as file:
                file.write(b"\n")

    def _ends_a_line(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read() == b"\n"

    def last(self) -> dict[str, Any]:
        """Return the last line, or an empty one where it is cut off."""
        texts = self._texts()
        return (_parsed(texts[-1]) if texts else None) or {}

    def final(self) -> dict[str, Any]:
        """Return the line that a finished run ends with, or an empty one where the run is not finished."""
        line = self.last()
        return line if line.get("kind") == "final" else {}

    def lines(self) -> list[dict[str, Any]]:
        """Return every whole line, without one that a killed process left half written."""
        return [line for text in self._texts() if (line := _parsed(text)) is not None]

    def evaluations(self) -> list[dict[str, Any]]:
        """Return the lines that tell of evaluations."""
        return [line for line in self.lines() if line.get("kind") == "evaluation"]

    def _texts(self) -> list[str]:
        """Split at line feeds alone: texts may hold other characters that end a line elsewhere."""
        content = read_regular(self.path.parent, self.path.name, MOST_BYTES) if self.path.exists() else b""
        text = content.decode("utf-8", errors="replace")
        return [line for line in text.split("\n") if line]


def finite(value: Any) -> Any:
    """Return the value with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        line = parse_json(text)
    except ValueError:
        return None
    return with_current_names(line) if isinstance(line, dict) else None
