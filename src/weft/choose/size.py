"""How large a model there is time for, in which number format, and how many models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weft.choose.choices import Choices
from weft.choose.numbers import NUMBERS
from weft.core.machine import Speed

Epochs = Callable[[int], float | None]  # of a model of some width, or of each of so many models; None: not known


@dataclass(frozen=True)
class Family:
    """What is known about the size of one kind of model."""

    widths: tuple[int, ...]
    usual: int  # of these widths, where the time is not known
    width_per_root: float  # the widest that helps, in multiples of the square root of the number of target tokens
    enough: float  # epochs after which a second model helps more than a longer training
    epochs: float  # that a wider model should have time for,
    tokens: float  # or target tokens in all: of much data fewer epochs are enough


TRANSFORMER = Family(
    NUMBERS.transformer_widths,
    NUMBERS.transformer_width,
    NUMBERS.transformer_width_per_root,
    NUMBERS.transformer_enough,
    NUMBERS.transformer_epochs,
    tokens=math.inf,
)
RECURRENT = Family(
    NUMBERS.recurrent_widths,
    NUMBERS.recurrent_width,
    NUMBERS.recurrent_width_per_root,
    NUMBERS.recurrent_enough,
    epochs=math.inf,
    tokens=NUMBERS.recurrent_tokens,
)


def choose_precision(choices: Choices, given: Mapping[str, Any], speed: Speed | None) -> None:
    """Choose bfloat16 where the machine multiplies it faster, for a Transformer or a language model of text."""
    if "precision" in given.get("train", {}) or speed is None or speed.halved < NUMBERS.bfloat16_gain:
        return
    choices.set(
        "train.precision",
        "bfloat16",
        f"matrix products are {speed.halved:.1f} times as fast as in float32 on this machine",
    )


def with_given_width(family: Family, given: Mapping[str, Any]) -> Family:
    """Return the family with the only width that the user gave, rounded so that all parts can have it."""
    sides = (given.get(side, {}) for side in ("encoder", "decoder"))
    widths = {int(side["width"]) for side in sides if "width" in side}
    near = max(NUMBERS.width_step, round(sum(widths) / NUMBERS.width_step) * NUMBERS.width_step)
    return replace(family, widths=(near,), usual=near) if len(widths) == 1 else family


def fit_width(family: Family, target_tokens: float, epochs: Epochs) -> tuple[int, float | None]:
    """Return the widest model that sees the data often enough in the time and suits their size, and its epochs."""
    narrowest = family.widths[0]
    best: tuple[int, float | None] = narrowest, None
    for width in (w for w in family.widths if w <= max(narrowest, family.width_per_root * math.sqrt(target_tokens))):
        count = epochs(width)
        if count is None:
            continue
        if best[1] is not None and count < family.epochs and count * target_tokens < family.tokens:
            break
        best = width, count
    return best


def choose_members(choices: Choices, family: Family, cores: int, epochs: Epochs) -> None:
    """Train several models where one would have more time than it can use, or cannot use all cores."""
    alone = epochs(1)
    count, why = members_with_time(family.enough, cores, epochs)
    if count == 1 and cores > 1 and alone is not None and (of_two := epochs(2) or 0.0) >= NUMBERS.epochs_of_two:
        gain = 2 * of_two / alone
        if gain >= NUMBERS.gain_of_two:
            count, why = 2, f"two models in parallel see {gain:.1f} times as much data as one that uses every core"
    if count > 1:
        choices.set("train.members", count, why)


def members_with_time(enough: float, cores: int, epochs: Epochs) -> tuple[int, str]:
    """Return how many models have time for `enough` epochs each, and the reason where there are several."""
    count, why = 1, ""
    numbers = range(2, NUMBERS.most_members + 1)
    for members in (m for m in numbers if m <= cores or m % cores == 0):  # no core is left idle
        each = epochs(members)
        if each is None or each < enough:
            break
        count = members
        why = f"there is time for about {each:.0f} epochs of each model, and {enough:.0f} are enough"
    return count, why


def limit_epochs(choices: Choices, given: Mapping[str, Any], seconds: float, epochs: Epochs) -> None:
    """Stop before a model overfits, however much time there is, and say so where this ends the run early."""
    if "max_epochs" in given.get("train", {}):
        return
    most = NUMBERS.max_epochs
    choices.set("train.max_epochs", most)
    each = epochs(int(choices.merged("train", given).get("members", 1)))
    if each is not None and each > NUMBERS.early_end_margin * most:
        choices.notes.append(
            f"training ends after {most:.0f} epochs, which may take only {_duration(seconds * most / each)} of the "
            f"{_duration(seconds)} (train.max_epochs=0: use all of the time)"
        )


def note_short_budget(choices: Choices, epochs: float) -> None:
    """Add a note where the time is not enough for one epoch."""
    if epochs < 1:
        choices.notes.append(
            f"the budget is enough for {epochs:.1%} of one epoch: expect rough results; a longer --budget helps, ten "
            "epochs or more are usual"
        )


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 2 * 60 else f"{seconds:.0f} seconds"


def about(epochs: float) -> str:
    """Return a number of epochs in words."""
    return f"about {epochs:.0f} epoch{'s' * (round(epochs) > 1)}" if epochs >= 1 else f"about {epochs:.0%} of an epoch"
