"""The settings that the autopilot has chosen so far, with their reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.settings import Layer, implied_kind, put

ENOUGH_EPOCHS = "more passes over the data seldom help"


@dataclass
class Choices:
    """A layer of settings, and (setting, value, reason) for those whose reason is shown."""

    layer: Layer = field(default_factory=dict)
    reasons: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what else the user should know

    def set(self, key: str, value: Any, reason: str = "") -> None:
        """Choose a value for a dotted key; the reason is shown if there is one."""
        put(self.layer, key, value)
        if reason:
            self.reasons.append([key, str(value), reason])

    def replace(self, key: str, value: Any, reason: str = "") -> None:
        """Choose another value for a key, and forget the reason of the first."""
        self.reasons = [row for row in self.reasons if row[0] != key]
        self.set(key, value, reason)

    def drop(self, key: str) -> None:
        """Leave a setting at its default."""
        *path, name = key.split(".")
        part = self.layer
        for step in path:
            part = part.get(step, {})
        part.pop(name, None)
        self.reasons = [row for row in self.reasons if row[0] != key]

    def merged(self, part: str, given: Mapping[str, Any]) -> Layer:
        """Return the settings of one part (`train`, `source`, …): the chosen ones under those that the user gave."""
        return {**self.layer.get(part, {}), **given.get(part, {})}


def writes_by_decoder(given: Mapping[str, Any]) -> bool:
    """Return whether the user asks for a head, a decoder, or CTC beside one."""
    beside = bool(given.get("objective", {}).get("ctc_share"))
    return beside or "kind" in given.get("head", {}) or implied_kind("decoder", given) is not None


def uses_ctc(given: Mapping[str, Any]) -> bool:
    """Return whether the user asks for CTC, which has no decoder."""
    return bool(given.get("head", {}).get("kind") == "ctc" or implied_kind("decoder", given) == "none")
