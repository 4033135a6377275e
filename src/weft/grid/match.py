"""Widths that give a cell as many parameters as the base has.

Encoder and decoder are widened or narrowed together, in their proportion; the embedding stays. A width is a multiple of
what halves and heads need. A Transformer's inner width goes with its width, and is then moved alone where the steps of
the width are too coarse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from weft.core.errors import UserError
from weft.grid.base import SIDES, Layers
from weft.nn.assemble import assemble
from weft.settings import flatten
from weft.spec import Spec

TOLERANCE = 0.02
WIDEST = 16_384
FINE = 1000  # an inner width is moved in thousandths


def count_parameters(spec: Spec, symbols: tuple[int, int]) -> int:
    """How many numbers the model would have: it is built without its storage."""
    with torch.device("meta"):
        return assemble(spec, *symbols).parameter_count


def matched(layers: Layers, wanted: int, symbols: tuple[int, int]) -> dict[str, int]:
    """The widths to set so that the cell has `wanted` parameters, or as many within TOLERANCE; none if it has them."""
    spec = layers.compose()

    def count(settings: Mapping[str, Any]) -> int:
        return count_parameters(layers.changed(settings).compose(), symbols)

    best: dict[str, int] = {}
    if _near(count(best), wanted):
        return best
    step = _step(spec)
    units = nearest(lambda n: count(_widths(spec, n * step, step)), wanted, WIDEST // step)
    best = _widths(spec, units * step, step)
    if not _near(count(best), wanted) and (inner := {k: v for k, v in best.items() if k.endswith(".inner")}):
        parts = nearest(lambda n: count(best | _scaled(inner, n)), wanted, 8 * FINE)
        best |= _scaled(inner, parts)
    if not _near(found := count(best), wanted):
        raise UserError(
            f"no width gives {wanted:,} parameters: the nearest has {found:,} ({found / wanted - 1:+.0%})",
            "--match-parameters",
            "change what else it has (layers, embed.width), or compare without --match-parameters",
        )
    return best


def _near(count: int, wanted: int) -> bool:
    return abs(count - wanted) <= TOLERANCE * wanted


def _step(spec: Spec) -> int:
    """What every width is a multiple of: an even number for each head, which also makes halves."""
    heads = [value for key, value in flatten(spec.model_dump()) if key.endswith("heads") and isinstance(value, int)]
    return math.lcm(2, *(2 * count for count in heads))


def _widths(spec: Spec, encoder_width: int, step: int) -> dict[str, int]:
    """Both sides at another width, in their proportion."""
    made: dict[str, int] = {}
    sides = {side: part for side, part in spec.model_dump().items() if side in SIDES and "width" in part}
    for side, part in sides.items():
        width = step * max(1, round(encoder_width * part["width"] / (spec.encoder.width * step)))
        made[f"{side}.width"] = width
        if "inner" in part:
            made[f"{side}.inner"] = max(1, round(part["inner"] * width / part["width"]))
    return made


def _scaled(inner: Mapping[str, int], parts: int) -> dict[str, int]:
    return {key: max(1, round(value * parts / FINE)) for key, value in inner.items()}


def nearest(count: Callable[[int], int], wanted: int, highest: int) -> int:
    """The n from 1 to `highest` whose count is nearest to `wanted`; a count never falls with n."""
    low, high = 1, 1
    while high < highest and count(high) < wanted:
        low, high = high, min(highest, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < wanted else (low, middle)
    return min((low, high), key=lambda n: abs(count(n) - wanted))
