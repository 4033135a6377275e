"""What the autopilot is asked for, and what it has chosen so far, with its reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.settings import Layer, implied_kind, put


@dataclass
class Choices:
    """A layer of settings, and (setting, value, reason) for each that is worth telling."""

    layer: Layer = field(default_factory=dict)
    reasons: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what the user should know besides

    def set(self, key: str, value: Any, reason: str = "") -> None:
        put(self.layer, key, value)
        if reason:
            self.reasons.append([key, str(value), reason])

    def drop(self, key: str) -> None:
        """Leave a setting as it is by default."""
        *path, name = key.split(".")
        part = self.layer
        for step in path:
            part = part.get(step, {})
        part.pop(name, None)
        self.reasons = [reason for reason in self.reasons if reason[0] != key]


def by_ctc(given: Mapping[str, Any]) -> bool:
    """Whether an encoder alone is asked for."""
    return bool(given.get("head", {}).get("kind") == "ctc" or implied_kind("decoder", given) == "none")
