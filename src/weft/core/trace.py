"""Seeing inside without touching signatures: `note` records only within `trace`.

with trace() as seen:
    model(batch)
seen["decode.cross"]  # the list of every tensor noted under that name
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

_seen: ContextVar[dict[str, list[Tensor]] | None] = ContextVar("weft_trace", default=None)


@contextmanager
def trace() -> Iterator[dict[str, list[Tensor]]]:
    """Collect what is noted inside the block, by name, in order."""
    seen: dict[str, list[Tensor]] = defaultdict(list)
    token = _seen.set(seen)
    try:
        yield seen
    finally:
        _seen.reset(token)


def note(name: str, value: Tensor) -> None:
    """Record `value` under `name` if somebody is tracing; cost nothing otherwise."""
    seen = _seen.get()
    if seen is not None:
        seen[name].append(value.detach())


def tracing() -> bool:
    """Whether anybody listens: for parts whose fast path does not show what `note` would record."""
    return _seen.get() is not None
