"""Seeing inside, and changing what is inside, without touching signatures: `note` does nothing outside of `trace`.

with trace() as seen:
    model(batch)
seen["decode.cross"]  # the list of every tensor noted under that name

with trace(edits={"decode.cross": lambda weights: weights.roll(1, -1)}):
    model(batch)  # as if the attention had looked one position further

A name that begins with a dot is relative: `note(".f", gate)` within `scope("encode.0.forward")` is noted as
"encode.0.forward.f". An edit sees the tensor with its gradient; what is recorded has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from torch import Tensor

Edit = Callable[[Tensor], Tensor]
Keep = Callable[[str], bool]


@dataclass
class _Listener:
    """What is recorded, and what is changed on the way."""

    edits: Mapping[str, Edit]
    keep: Keep | None
    seen: dict[str, list[Tensor]] = field(default_factory=lambda: defaultdict(list))

    def hear(self, name: str, value: Tensor) -> Tensor:
        edit = self.edits.get(name)
        value = value if edit is None else edit(value)
        if self.keep is None or self.keep(name):
            self.seen[name].append(value.detach())
        return value


_listener: ContextVar[_Listener | None] = ContextVar("weft_trace", default=None)
_scope: ContextVar[str] = ContextVar("weft_scope", default="")


@contextmanager
def trace(edits: Mapping[str, Edit] | None = None, keep: Keep | None = None) -> Iterator[dict[str, list[Tensor]]]:
    """Collect what is noted inside the block, by name, in order; `keep` says which names, by default all.

    `edits` replace what is noted under a name: the model goes on with what they return.
    """
    listener = _Listener(edits or {}, keep)
    token = _listener.set(listener)
    try:
        yield listener.seen
    finally:
        _listener.reset(token)


def note(name: str, value: Tensor) -> Tensor:
    """Record `value` under `name` if somebody is tracing, and return it, or what an edit makes of it."""
    listener = _listener.get()
    if listener is None:
        return value
    return listener.hear(_scope.get() + name if name.startswith(".") else name, value)


@contextmanager
def scope(name: str) -> Iterator[None]:
    """Note relative names under `name` inside the block; a scope within a scope continues its name after a dot."""
    if _listener.get() is None:
        yield
        return
    outer = _scope.get()
    token = _scope.set(f"{outer}.{name}" if outer else name)
    try:
        yield
    finally:
        _scope.reset(token)


def tracing() -> bool:
    """Whether anybody listens: for parts whose fast path does not show what `note` would record."""
    return _listener.get() is not None
