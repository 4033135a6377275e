"""The access log: one line of JSON for each request, on stderr, without texts unless they are asked for."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

log = logging.getLogger("weft.serve")
LONGEST = 2000  # characters of a text
ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def to_stderr(process: int | None = None) -> None:
    """Write the log to stderr; `process` is the number of the worker that writes."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line(process))
    log.handlers[:] = [handler]
    log.propagate = False
    log.setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        other = logging.getLogger(name)
        other.handlers[:] = []
        other.propagate = False
        other.addHandler(logging.NullHandler())


def write(entry: Mapping[str, Any]) -> None:
    """Write the line of a request; where in the code it is written from is not looked up."""
    log.handle(log.makeRecord(log.name, logging.INFO, "", 0, entry, (), None))


class _Line(logging.Formatter):
    """An entry as JSON; messages of other kinds have the key `message`."""

    def __init__(self, process: int | None) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {"time": f"{moment}.{int(record.msecs):03}Z", "level": record.levelname.lower()}
        if self._process is not None:
            entry["worker"] = self._process
        if isinstance(record.msg, Mapping):
            entry |= record.msg
        else:
            entry["message"] = record.getMessage()
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return ENCODER.encode(entry)


def shortened(texts: list[str]) -> list[str]:
    return [text if len(text) <= LONGEST else f"{text[:LONGEST]}…" for text in texts]
