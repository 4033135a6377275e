"""YAML of bounded size: settings files and spec.yaml may come from anyone.

A few lines of YAML can stand for billions of values, by aliases of aliases, or for a tree that no code can walk. What a
settings file needs is far below these bounds.
"""

from __future__ import annotations

from typing import Any

import yaml

MOST_CHARACTERS = 1 << 20
MOST_LEVELS, MOST_ALIASES = 20, 32  # so many aliases of aliases make 3¹¹ values at most


class _Bounded(yaml.SafeLoader):
    """Composes a tree of bounded depth, with few aliases, none of them to a branch that it stands in."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._level = self._aliases = 0
        self._open: list[str] = []  # the anchors of the branches that are being composed

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            self._aliases += 1
            if self._aliases > MOST_ALIASES or event.anchor in self._open:
                raise yaml.YAMLError(f"more than {MOST_ALIASES} aliases, or one that contains itself")
        anchor: str = event.anchor or ""
        self._level += 1
        if self._level > MOST_LEVELS:
            raise yaml.YAMLError(f"nested deeper than {MOST_LEVELS} levels")
        self._open.append(anchor)
        try:
            return super().compose_node(parent, index)
        finally:
            self._open.pop()
            self._level -= 1


def parse_yaml(text: str) -> Any:
    """Return what a YAML document says; YAMLError if it is not YAML, or beyond the bounds."""
    if len(text) > MOST_CHARACTERS:
        raise yaml.YAMLError(f"longer than {MOST_CHARACTERS:,} characters")
    try:
        loader = _Bounded(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except (
        ValueError,
        OverflowError,
        RecursionError,
        AttributeError,
        TypeError,
    ) as error:  # of numbers, dates and keys
        reason = str(error).partition("; use sys.")[0]  # what a user of the command line cannot use
        raise yaml.YAMLError(reason) from None
