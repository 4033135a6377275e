"""What there is time for on this machine: how wide a model, in which number format, and how many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.choose.choices import Choices
from weft.core.machine import Speed

LAYERS = 3
MOST_MEMBERS = 8
WORTH_A_SECOND = 1.4  # how many times as much two models must learn in all as one
PASSES_OF_TWO = 12  # over the data, of both together
WORTH_HALVING = 1.5  # how many times as fast products in bfloat16 must be


def precision(choices: Choices, given: Mapping[str, Any], speed: Speed | None) -> None:
    """The number format of a Transformer's products."""
    asked = given.get("train", {}).get("precision")
    if asked is None and speed is not None and speed.halved >= WORTH_HALVING:
        choices.set("train.precision", "bfloat16", f"products are {speed.halved:.1f} times as fast on this machine")


@dataclass(frozen=True)
class Family:
    """What is known of a kind of model: see docs/LOG.md, "The Transformer's rate" and "Small models, and many"."""

    widths: tuple[int, ...]
    wide: float  # the widest that pays, in multiples of the root of the number of target symbols
    passes: float  # over the data, that a wider one should have time for
    enough: float  # passes after which a second model beside it brings more


TRANSFORMER = Family((128, 192, 256, 384, 512), 0.3, 10, 30)
RECURRENT = Family((128, 256), 0.5, 25, 25)


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
        if found[1] is not None and count < family.passes:
            break
        found = candidate, count
    return found


def members(choices: Choices, family: Family, passes: float, cores: int) -> None:
    """Several models where one would have more time than it can use: together they are right more often."""
    count = int(min(MOST_MEMBERS, passes / family.enough))
    count -= count % cores if count > cores else 0  # no core is left idle
    if count > 1:
        why = f"there is time for about {passes:.0f} passes over the data, and one model needs {family.enough:.0f}"
        choices.set("train.members", count, why)


def second(choices: Choices, passes: float, by_two: float) -> None:
    """Two models where one cannot use all cores: the second costs little then."""
    if by_two >= WORTH_A_SECOND and passes >= PASSES_OF_TWO:
        why = f"side by side two learn {by_two:.1f} times as much in all as one does with every core"
        choices.set("train.members", 2, why)


def told(passes: float) -> str:
    """A number of passes in words."""
    return f"about {passes:.0f} passes" if passes >= 1.5 else f"about {passes:.0%} of one pass"


def say_if_short(choices: Choices, passes: float) -> None:
    if passes < 1:
        choices.notes.append(
            f"the time is enough for about {passes:.1%} of the data once: what it learns will be rough; "
            "ten passes and more are what it takes (--budget)"
        )
