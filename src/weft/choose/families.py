"""Transformer or recurrent model, and the settings that go with each: widths, learning rates, dropout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from weft.choose import size
from weft.choose.choices import Choices, uses_ctc
from weft.choose.numbers import NUMBERS
from weft.choose.timing import EpochEstimator
from weft.choose.tokenisation import are_subwords
from weft.core.machine import Speed
from weft.data.text.tokens import SUBWORDS
from weft.settings import Layer, flatten, implied_kind, merge

FAMILIES = {"transformer": size.TRANSFORMER, "recurrent": size.RECURRENT}


def given_families(given: Mapping[str, Any]) -> list[str]:
    """Return the families that the user's settings imply, that of the decoder first."""
    kinds = [implied_kind(side, given) for side in ("decoder", "encoder")]
    return [kind for kind in kinds if kind not in (None, "none")]


def choose_family(given: Mapping[str, Any], kinds: list[str]) -> str:
    """Return what the user's settings imply, else a Transformer for subwords and a recurrent model otherwise."""
    by_data = "transformer" if are_subwords(kinds) else "recurrent"
    return next(iter(given_families(given)), by_data)


def choose_transformer(
    choices: Choices,
    given: Mapping[str, Any],
    speed: Speed | None,
    estimator: EpochEstimator | None,
    target_tokens: float,
) -> float | None:
    """Choose the settings of a Transformer; return the epochs that there is time for, if that is known."""
    size.choose_precision(choices, given, speed)
    family = size.with_given_width(size.TRANSFORMER, given)
    width, epochs = family.usual, None
    if estimator is not None:
        width, epochs = size.fit_width(
            family,
            target_tokens,
            lambda w: estimator.epochs(merge(choices.layer, _transformer_parts(given, w)), given, 1),
        )
    why = "" if given_families(given) else "a Transformer learns running text best"
    for key, value in flatten(_transformer_parts(given, width)):
        choices.set(key, value, why if key == "encoder.kind" else "")
    if epochs is not None:
        choices.reasons.append(["encoder.width", str(width), f"at this width, there is time for {size.about(epochs)}"])
    _transformer_rates(choices, given, width)
    seen = size.TRANSFORMER.epochs if epochs is None else epochs
    often, seldom = seen >= NUMBERS.many_epochs, seen < NUMBERS.few_epochs
    dropout = NUMBERS.high_dropout if often else NUMBERS.low_dropout if seldom else NUMBERS.dropout
    why = "" if epochs is None else f"the more epochs, the more dropout; there is time for {size.about(epochs)}"
    choices.set("train.dropout", dropout, why)
    return epochs


def _transformer_parts(given: Mapping[str, Any], width: int) -> Layer:
    """Return the settings of a Transformer of that width, for the sides that are to be Transformers."""
    part = {
        "kind": "transformer",
        "width": width,
        "layers": NUMBERS.layers,
        "heads": NUMBERS.heads,
        "inner": NUMBERS.inner_widths * width,
    }
    sides = ("encoder",) if uses_ctc(given) else ("encoder", "decoder")
    parts = {side: dict(part) for side in sides if implied_kind(side, given) in (None, "transformer")}
    positions = "rotary" if implied_kind("encoder", given) != "recurrent" else "sinusoid"
    return {**parts, "embed": {"positions": positions, "width": width}}


def _transformer_rates(choices: Choices, given: Mapping[str, Any], width: int) -> None:
    """Choose learning rates: lower for the matrices of wider and deeper models, about the same for embeddings."""
    parts = [given.get(side, {}) for side in ("encoder", "decoder")]
    wide = max(int(part.get("width", width)) for part in parts) / NUMBERS.rate_width
    deep = max(int(part.get("layers", NUMBERS.layers)) for part in parts) / NUMBERS.layers
    choices.set("train.rate", round(NUMBERS.transformer_rate / (wide * deep), 5))
    embed_rate = round(NUMBERS.embed_rate * math.sqrt(wide), 1)
    choices.set(
        "train.embed_rate",
        embed_rate,
        "rare subwords have few examples, so their embeddings need a higher learning rate",
    )


def choose_recurrent(
    choices: Choices, given: Mapping[str, Any], estimator: EpochEstimator | None, target_tokens: float
) -> float | None:
    """Choose the settings of a recurrent model; return the epochs that each model has time for, if that is known."""
    _recurrent_parts(choices, given)
    family = size.with_given_width(size.RECURRENT, given)
    width, epochs, members = family.usual, None, 1
    if estimator is not None:
        members = expected_members(given, estimator)
        width, epochs = size.fit_width(
            family,
            target_tokens,
            lambda w: estimator.epochs(merge(choices.layer, recurrent_widths(given, w)), given, members),
        )
    for key, value in flatten(recurrent_widths(given, width)):
        choices.set(key, value)
    seldom = epochs is not None and epochs < NUMBERS.few_epochs
    choices.set("train.dropout", NUMBERS.low_dropout if seldom else NUMBERS.dropout)
    if epochs is not None:
        each = f" for each of the {members} models of the run" if members > 1 else ""
        why = f"at this width, there is time for {size.about(epochs)}{each}"
        choices.reasons.append(["decoder.width", str(width), why])
    return epochs


def _recurrent_parts(choices: Choices, given: Mapping[str, Any]) -> None:
    """Choose the kinds of encoder and decoder, and the learning rate."""
    text = choices.merged("target", given).get("tokens") in SUBWORDS
    what = "the source is not running text" if text else "the lines are not running text"
    why = "" if given_families(given) else f"{what}, and an LSTM with attention learns well from few pairs"
    if implied_kind("encoder", given) == "transformer":
        choices.set("embed.positions", "sinusoid")
    else:
        choices.set("encoder.kind", "recurrent", why)
    if not uses_ctc(given):
        choices.set("decoder.kind", "recurrent")
    choices.set("train.rate", NUMBERS.recurrent_rate)


def recurrent_widths(given: Mapping[str, Any], width: int) -> Layer:
    """Return the widths of a recurrent model; CTC has no decoder."""
    parts = ("encoder", "embed") if uses_ctc(given) else ("encoder", "decoder", "embed")
    return {part: {"width": width} for part in parts}


def expected_members(given: Mapping[str, Any], estimator: EpochEstimator) -> int:
    """Return how many recurrent models there will be at least: one per core, unless the user or the time says less."""
    if uses_ctc(given) or not estimator.parallel:
        return 1
    several = estimator.seconds >= NUMBERS.shortest_ensemble
    members = min(estimator.cores, NUMBERS.most_members) if several else 1
    return int(given.get("train", {}).get("members") or members)
