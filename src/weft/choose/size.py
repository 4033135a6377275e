"""What there is time for on this machine: how wide a model, in which number format, and how many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.choose.choices import Choices
from weft.core.machine import Speed
from weft.settings import flatten

LAYERS = 3
WIDTHS = (128, 192, 256, 384, 512)
PASSES = 10  # over the data, that a Transformer should have time for
ENOUGH = {"recurrent": 25, "transformer": 30}  # passes after which a second model beside it brings more
MOST_MEMBERS = 6
USE = 0.6  # the share of the machine's matrix speed that training reaches
WORTH_HALVING = 1.5  # how many times as fast products in bfloat16 must be
HALVES = 0.7  # the share of that speed which is left where the rest is not in bfloat16


def precision(choices: Choices, given: Mapping[str, Any], speed: Speed | None) -> float | None:
    """The number format of a Transformer's products, and the speed that it gives."""
    if speed is None:
        return None
    asked = given.get("train", {}).get("precision")
    if asked is None and speed.halved >= WORTH_HALVING:
        choices.set("train.precision", "bfloat16", f"products are {speed.halved:.1f} times as fast on this machine")
    halves = asked == "bfloat16" or (asked is None and speed.halved >= WORTH_HALVING)
    return max(speed.float32, HALVES * speed.bfloat16) if halves else speed.float32


def width(
    choices: Choices, given: Mapping[str, Any], seconds: float, speed: float | None, symbols: float, size: int
) -> tuple[int, float]:
    """The widest Transformer that sees every pair PASSES times in the budget, and not too wide for the data.

    With it comes how many times that is, by the sizes that are `given` where some are.
    """
    if speed is None:
        return WIDTHS[1], float(PASSES)
    wide = max(WIDTHS[0], 0.3 * symbols**0.5)
    passes = {w: USE * speed * seconds / (_work(w, size, given) * symbols) for w in WIDTHS if w <= wide}
    found = max((w for w in passes if passes[w] >= PASSES), default=WIDTHS[0])
    choices.reasons.append(["encoder.width", str(found), f"about {passes[found]:.0f} passes over the data in the time"])
    return found, passes[found]


def _work(width: int, symbols: int, given: Mapping[str, Any]) -> float:
    """Multiplications and additions to learn from one target symbol: six for each weight it meets."""
    blocks, last = 0, width
    for side, products in (("encoder", 4), ("decoder", 8)):
        part = given.get(side, {})
        last = int(part.get("width", width))
        inner = int(part.get("inner", 2 * last))
        blocks += int(part.get("layers", LAYERS)) * (products * last**2 + 2 * last * inner)
    return 6 * (blocks + last * symbols)


def recurrent_passes(
    choices: Choices, given: Mapping[str, Any], seconds: float, speed: Speed | None, symbols: float
) -> float | None:
    """How many times a recurrent model sees the data, when every core trains one of its own."""
    return None if speed is None else USE * speed.apart * seconds / (_recurrent_work(choices.layer, given) * symbols)


def _recurrent_work(layer: Mapping[str, Any], given: Mapping[str, Any]) -> float:
    """Operations to learn from one target symbol and its source, as `_work` counts them; of an LSTM, roughly."""
    said = {**dict(flatten(layer)), **dict(flatten(given))}
    reads, writes, vector = (int(said.get(f"{part}.width", 256)) for part in ("encoder", "decoder", "embed"))
    encoder = 2 * reads * (vector + reads / 2) * int(said.get("encoder.layers", 1))
    decoder = 4 * writes * (vector + reads + writes) * int(said.get("decoder.layers", 1))
    return 6 * (encoder + decoder + 3 * reads * writes)


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
