"""What there is time for on this machine: how wide a model, in which number format, and how many."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weft.choose.choices import Choices
from weft.core.machine import Speed

LAYERS = 3
EVEN = 8  # widths that directions and heads can share, whatever turns positions
MOST_MEMBERS = 8
MOST_PASSES = 300.0  # over the data, of a model: beyond it there is nothing to learn, and much to learn by heart
SHORTEST_OF_SEVERAL = 60.0  # seconds of a budget, in which the start of another process does not count
WORTH_A_SECOND = 1.4  # how many times as much two models must learn in all as one
PASSES_OF_TWO = 6  # over the data, of each
WORTH_HALVING = 1.5  # how many times as fast products in bfloat16 must be


def precision(choices: Choices, given: Mapping[str, Any], speed: Speed | None) -> None:
    """The number format of a Transformer's products."""
    asked = given.get("train", {}).get("precision")
    if asked is None and speed is not None and speed.halved >= WORTH_HALVING:
        choices.set("train.precision", "bfloat16", f"products are {speed.halved:.1f} times as fast on this machine")


@dataclass(frozen=True)
class Family:
    """What is known of a kind of model: see docs/LOG.md, "The Transformer's rate" and "Small models, and many".

    What a recurrent model of width 256 should see are 25 passes over the fewest symbols that allow it: not measured.
    """

    widths: tuple[int, ...]
    usual: int  # of them, where nothing is known of the time
    wide: float  # the widest that pays, in multiples of the root of the number of target symbols
    enough: float  # passes after which a second model beside it brings more
    passes: float = math.inf  # over the data, that a wider one should have time for,
    seen: float = math.inf  # or target symbols in all: of much data fewer passes are enough


TRANSFORMER = Family((128, 192, 256, 384, 512), 192, wide=0.3, enough=30, passes=10)
RECURRENT = Family((128, 256), 256, wide=0.5, enough=25, seen=6.5e6)


def as_asked(family: Family, given: Mapping[str, Any]) -> Family:
    """With the one width that the user gave an encoder or a decoder: the rest goes with it, as near as all can be."""
    sides = (given.get(side, {}) for side in ("encoder", "decoder"))
    asked = {int(side["width"]) for side in sides if "width" in side}
    near = max(EVEN, round(sum(asked) / EVEN) * EVEN)
    return replace(family, widths=(near,), usual=near) if len(asked) == 1 else family


def width(family: Family, symbols: float, passes: Callable[[int], float | None]) -> tuple[int, float | None]:
    """The widest model that sees every pair often enough in the budget, and is not too wide for the data.

    With it comes how many times that is: `passes` says it of a width, None where it is not known.
    """
    narrowest = family.widths[0]
    found: tuple[int, float | None] = narrowest, None
    for candidate in (w for w in family.widths if w <= max(narrowest, family.wide * symbols**0.5)):
        count = passes(candidate)
        if count is None:
            continue
        if found[1] is not None and count < family.passes and count * symbols < family.seen:
            break
        found = candidate, count
    return found


def members(choices: Choices, family: Family, cores: int, each: Callable[[int], float | None]) -> None:
    """Several models where one would have more time than it can use, or cannot use all cores.

    Together they are right more often. `each` says how many passes over the data each of so many models gets.
    """
    alone = each(1)
    count, why = 1, ""
    for more in (m for m in range(2, MOST_MEMBERS + 1) if m <= cores or m % cores == 0):  # no core is left idle
        passes = each(more)
        if alone is None or passes is None or passes < family.enough:
            break
        count, why = more, f"each has time for about {passes:.0f} passes over the data, and needs {family.enough:.0f}"
    if count == 1 and cores > 1 and alone is not None and (half := each(2) or 0.0) >= PASSES_OF_TWO:
        gain = 2 * half / alone
        if gain >= WORTH_A_SECOND:
            count, why = 2, f"side by side two learn {gain:.1f} times as much in all as one does with every core"
    if count > 1:
        choices.set("train.members", count, why)


def enough(choices: Choices, given: Mapping[str, Any], seconds: float, each: Callable[[int], float | None]) -> None:
    """No model goes over the data more often than it can gain from, however much time there is."""
    if "max_epochs" in given.get("train", {}):
        return
    choices.set("train.max_epochs", MOST_PASSES)
    members = {**choices.layer.get("train", {}), **given.get("train", {})}.get("members", 1)
    passes = each(int(members))
    if passes is not None and passes > 1.1 * MOST_PASSES:
        choices.notes.append(
            f"{MOST_PASSES:.0f} passes over the data are all that a model can use: this may end after about "
            f"{_clock(seconds * MOST_PASSES / passes)} of {_clock(seconds)} (train.max_epochs=0: after all)"
        )


def _clock(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"


def told(passes: float) -> str:
    """A number of passes in words."""
    return f"about {passes:.0f} passes" if passes >= 1.5 else f"about {passes:.0%} of one pass"


def say_if_short(choices: Choices, passes: float) -> None:
    if passes < 1:
        choices.notes.append(
            f"the time is enough for about {passes:.1%} of the data once: what it learns will be rough; "
            "ten passes and more are what it takes (--budget)"
        )
