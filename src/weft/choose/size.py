"""What there is time for on this machine: how wide a model, in which number format, and how many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft.choose.choices import Choices
from weft.core.machine import Speed

LAYERS = 3
WIDTHS = (128, 192, 256, 384, 512)
PASSES = 10  # over the data, that a Transformer should have time for
ENOUGH = {"recurrent": 25, "transformer": 30}  # passes after which a second model beside it brings more
MOST_MEMBERS = 6
WORTH_HALVING = 1.5  # how many times as fast products in bfloat16 must be


def precision(choices: Choices, given: Mapping[str, Any], speed: Speed | None) -> None:
    """The number format of a Transformer's products."""
    asked = given.get("train", {}).get("precision")
    if asked is None and speed is not None and speed.halved >= WORTH_HALVING:
        choices.set("train.precision", "bfloat16", f"products are {speed.halved:.1f} times as fast on this machine")


def width(symbols: float, passes: Callable[[int], float | None]) -> tuple[int, float | None]:
    """The widest Transformer that sees every pair PASSES times in the budget, and not too wide for the data.

    With it comes how many times that is: `passes` says it of a width, None where it is not known.
    """
    wide = max(WIDTHS[0], 0.3 * symbols**0.5)
    found: tuple[int, float | None] = WIDTHS[0], None
    for candidate in (w for w in WIDTHS if w <= wide):
        count = passes(candidate)
        if count is None:
            continue
        if found[1] is not None and count < PASSES:
            break
        found = candidate, count
    return found


def members(choices: Choices, family: str, passes: float, cores: int) -> None:
    """Several models where one would have more time than it can use: together they are right more often."""
    enough = ENOUGH[family]
    count = int(min(MOST_MEMBERS, passes / enough))
    count -= count % cores if count > cores else 0  # no core is left idle
    if count > 1:
        why = f"there is time for about {passes:.0f} passes over the data, and one model needs {enough}"
        choices.set("train.members", count, why)


def say_if_short(choices: Choices, passes: float) -> None:
    if passes < 1:
        choices.notes.append(
            f"the time is enough for about {passes:.1%} of the data once: what it learns will be rough; "
            "ten passes and more are what it takes (--budget)"
        )
