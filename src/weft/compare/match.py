"""Widths that give a cell as many parameters as the base has.

Encoder and decoder are widened or narrowed together, in their proportion; the embedding stays. A width is a multiple of
what halves and heads need. Where that is too coarse a Transformer's inner width, which goes with its width, is moved
alone, and then the two sides apart, if the cell allows them to differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from weft.compare.base import SIDES, Layers
from weft.core.errors import UserError
from weft.nn.assemble import assemble
from weft.settings import flatten
from weft.spec import Spec

TOLERANCE = 0.02
WIDEST = 16_384
FINE = 1000  # an inner width is moved in thousandths
APART = 4  # steps that the encoder's width is moved alone

Widths = dict[str, int]
Count = Callable[[Mapping[str, Any]], int]


def count_parameters(spec: Spec, symbols: tuple[int, int]) -> int:
    """How many numbers the model would have: it is built without its storage."""
    with torch.device("meta"):
        return assemble(spec, *symbols).parameter_count


def matched(layers: Layers, wanted: int, symbols: tuple[int, int]) -> Widths:
    """The widths to set so that the cell has `wanted` parameters, or as many within TOLERANCE; none if it has them."""

    def count(settings: Mapping[str, Any]) -> int:
        return count_parameters(layers.changed(settings).compose(), symbols)

    found: list[tuple[int, Widths]] = []
    for widths in _candidates(layers, count, wanted):
        found.append((count(widths), widths))
        if abs(found[-1][0] - wanted) <= TOLERANCE * wanted:
            return widths
    best, _ = min(found, key=lambda one: abs(one[0] - wanted))
    raise UserError(
        f"no width gives {wanted:,} parameters: the nearest has {best:,} ({best / wanted - 1:+.0%})",
        "--match-parameters",
        "change what else it has (layers, embed.width), or compare without --match-parameters",
    )


def _candidates(layers: Layers, count: Count, wanted: int) -> Iterator[Widths]:
    """As it is; both sides together; then an inner width alone; then the sides apart."""
    yield {}
    spec, step = layers.compose(), _step(layers)
    units = nearest(lambda n: count(_widths(spec, n * step, step)), wanted, WIDEST // step)
    together = _widths(spec, units * step, step)
    yield together
    if inner := {key: width for key, width in together.items() if key.endswith(".inner")}:
        yield together | _scaled(inner, nearest(lambda n: count(together | _scaled(inner, n)), wanted, 8 * FINE))
    if "decoder.width" in together:
        yield from _apart(count, wanted, together, step)


def _apart(count: Count, wanted: int, together: Widths, step: int) -> Iterator[Widths]:
    """The encoder some steps wider or narrower, nearest first, and the decoder as it must be then."""
    for move in sorted(range(-APART, APART + 1), key=abs):
        encoder = {"encoder.width": max(step, together["encoder.width"] + move * step)}

        def widths(units: int, encoder: Widths = encoder) -> Widths:
            return {**together, **encoder, "decoder.width": units * step}

        try:
            yield widths(nearest(lambda n: count(widths(n)), wanted, WIDEST // step))
        except UserError:  # such as scores that need equal widths
            continue


def _step(layers: Layers) -> int:
    """What every width is a multiple of: halves, heads, and for some positions an even width for each head."""
    spec = layers.compose()
    heads = [value for key, value in flatten(spec.model_dump()) if key.endswith("heads") and isinstance(value, int)]
    step = math.lcm(2, *heads)
    try:
        layers.changed(_widths(spec, 3 * step, step)).compose()
    except UserError:
        return 2 * step
    return step


def _widths(spec: Spec, encoder_width: int, step: int) -> Widths:
    """Both sides at another width, in their proportion."""
    made: Widths = {}
    sides = {side: part for side, part in spec.model_dump().items() if side in SIDES and "width" in part}
    for side, part in sides.items():
        width = step * max(1, round(encoder_width * part["width"] / (spec.encoder.width * step)))
        made[f"{side}.width"] = width
        if "inner" in part:
            made[f"{side}.inner"] = max(1, round(part["inner"] * width / part["width"]))
    return made


def _scaled(inner: Widths, parts: int) -> Widths:
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
