"""Where the data leave open what is best: settings that are worth a try beside the autopilot's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.choose.choices import Choices
from weft.data.survey import Survey
from weft.settings import Layer, flatten

SHORTEST = 300.0  # seconds of a budget that leave time for a race
COPIED = 0.15  # of a target's words, from its source: below this there is little to copy


@dataclass(frozen=True)
class Rival:
    """What would be asked for, and what speaks for it."""

    name: str
    asked: Layer
    why: str


def rivals(survey: Survey, given: Mapping[str, Any], chosen: Choices) -> list[Rival]:
    """None where the user has decided, where the data have, or where the time is short."""
    asked = dict(flatten(given))
    settings = {**dict(flatten(chosen.layer)), **asked}
    if (settings.get("train.budget_seconds") or 0.0) < SHORTEST:
        return []
    found = []
    copied = survey.relation.copied_words
    pieces = settings.get("source.tokens") == settings.get("target.tokens") == "bpe"
    if pieces and copied >= COPIED and "head.kind" not in asked:
        why = f"{copied:.0%} of a target's words stand in its source"
        found.append(Rival("copying", {"head": {"kind": "copy"}}, why))
    return found
