"""Widths that give a variant as many parameters as the base has (`--match-parameters`).

Encoder and decoder are widened or narrowed together, in their proportion; the embedding stays. A width is a multiple of
what halves and heads need. Where that is too coarse, a Transformer's inner width, which goes with its width, is changed
alone, and then the two sides separately, if the variant allows them to differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from weft.compare.base import SIDES, Layers
from weft.core.errors import UserError
from weft.core.shapes import Shapes
from weft.nn.assemble import assemble
from weft.settings import flatten
from weft.spec import Spec

TOLERANCE = 0.02
MAX_WIDTH = 16_384
INNER_PARTS = 1000  # an inner width is changed in thousandths
ENCODER_STEPS = 4  # steps that the encoder's width is changed alone, either way

Widths = dict[str, int]
Count = Callable[[Mapping[str, Any]], int]


def count_parameters(spec: Spec, shapes: Shapes) -> int:
    """Return how many parameters the model would have; it is built without storage."""
    with torch.device("meta"):
        return assemble(spec, shapes.source, shapes.target, shapes.context).parameter_count


def match_widths(layers: Layers, wanted: int, shapes: Shapes) -> Widths:
    """Return the widths to set for `wanted` parameters within TOLERANCE; none if the variant has as many already."""

    def count(settings: Mapping[str, Any]) -> int:
        return count_parameters(layers.changed(settings).compose(), shapes)

    counts: list[int] = []
    for widths in _candidates(layers, count, wanted):
        counts.append(count(widths))
        if abs(counts[-1] - wanted) <= TOLERANCE * wanted:
            return widths
    closest = min(counts, key=lambda parameters: abs(parameters - wanted))
    raise UserError(
        f"no width gives {wanted:,} parameters: the nearest has {closest:,} ({closest / wanted - 1:+.0%})",
        "--match-parameters",
        "change its other sizes (layers, embed.width), or compare without --match-parameters",
    )


def _candidates(layers: Layers, count: Count, wanted: int) -> Iterator[Widths]:
    """Yield no change; both sides together; then an inner width alone; then the sides separately."""
    yield {}
    spec, step = layers.compose(), _width_step(layers)
    units = nearest(lambda n: count(_scaled_widths(spec, n * step, step)), wanted, MAX_WIDTH // step)
    together = _scaled_widths(spec, units * step, step)
    yield together
    if inner := {key: width for key, width in together.items() if key.endswith(".inner")}:
        parts = nearest(lambda n: count(together | _scaled_inner(inner, n)), wanted, 8 * INNER_PARTS)
        yield together | _scaled_inner(inner, parts)
    if {"encoder.width", "decoder.width"} <= set(together):
        yield from _separate(count, wanted, together, step)


def _separate(count: Count, wanted: int, together: Widths, step: int) -> Iterator[Widths]:
    """Yield encoders a few steps wider or narrower, nearest first, with the decoder's width that goes with each."""
    for change in sorted(range(-ENCODER_STEPS, ENCODER_STEPS + 1), key=abs):
        encoder = {"encoder.width": max(step, together["encoder.width"] + change * step)}

        def widths(units: int, encoder: Widths = encoder) -> Widths:
            return {**together, **encoder, "decoder.width": units * step}

        try:
            yield widths(nearest(lambda n: count(widths(n)), wanted, MAX_WIDTH // step))
        except UserError:  # such as attention scores that need equal widths
            continue


def _width_step(layers: Layers) -> int:
    """Return what every width is a multiple of: halves, heads, and for some positions an even width per head."""
    spec = layers.compose()
    heads = [value for key, value in flatten(spec.model_dump()) if key.endswith("heads") and isinstance(value, int)]
    step = math.lcm(2, *heads)
    try:
        layers.changed(_scaled_widths(spec, 3 * step, step)).compose()
    except UserError:
        return 2 * step
    return step


def _scaled_widths(spec: Spec, encoder_width: int, step: int) -> Widths:
    """Return both sides' widths for this encoder width, in their proportion; none of a side that reads nothing."""
    widths: Widths = {}
    used = ("decoder",) if spec.source.kind == spec.encoder.kind == "none" else SIDES
    sides = {side: part for side, part in spec.model_dump().items() if side in used and "width" in part}
    for side, part in sides.items():
        width = step * max(1, round(encoder_width * part["width"] / (spec.encoder.width * step)))
        widths[f"{side}.width"] = width
        if "inner" in part:
            widths[f"{side}.inner"] = max(1, round(part["inner"] * width / part["width"]))
    return widths


def _scaled_inner(inner: Widths, parts: int) -> Widths:
    return {key: max(1, round(value * parts / INNER_PARTS)) for key, value in inner.items()}


def nearest(count: Callable[[int], int], wanted: int, highest: int) -> int:
    """Return the n from 1 to `highest` whose count is nearest to `wanted`; `count` never falls with n."""
    low, high = 1, 1
    while high < highest and count(high) < wanted:
        low, high = high, min(highest, 2 * high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < wanted else (low, middle)
    return min((low, high), key=lambda n: abs(count(n) - wanted))
