"""The autopilot: what the data look like and the time there is → settings, each with its reason.

Whatever decides a value is a statistic of the data or the budget. What the user set already is left alone, and the rest
is chosen to go with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.choose import size, symbols
from weft.choose.choices import Choices
from weft.core.machine import Speed
from weft.data.survey import Survey
from weft.settings import flatten, implied_kind

__all__ = ["Choices", "choose"]

DEFAULT_BUDGET_SECONDS = 600.0
RATE = 0.005  # of a Transformer of width 128 (docs/LOG.md, "The embeddings' rate")
EMBED_RATE = 8.0  # in multiples of that
UPDATES = 100  # of a recurrent model in a pass over the data, at least: what a small corpus gets


def choose(survey: Survey, given: Mapping[str, Any], speed: Speed | None = None) -> Choices:
    """Settings for everything that matters, to go with what is `given`; without `speed` none hangs on the machine."""
    choices = Choices()
    seconds = _budget(choices, given)
    both = {"source": survey.source, "target": survey.target}
    sides = [symbols.side(choices, name, found, survey.pairs, given) for name, found in both.items()]
    if sides == ["bpe", "bpe"]:
        symbols.pieces(choices, survey)
    family = _family(given, sides)
    invented = symbols.invent(choices, survey, sides, given) if family == "recurrent" else 0
    each = [symbols.length(found, kind) for found, kind in zip(both.values(), sides)]
    counts = [(survey.pairs + invented) * (one + 1) for one in each]
    if family == "transformer":
        passes = _transformer(choices, given, seconds, speed, counts[1])
    else:
        _recurrent(choices, given, max(counts))
        passes = size.recurrent_passes(choices, given, seconds, speed, counts[1])
    if passes is not None and not {"steps", "epochs"} & set(given.get("train", {})):
        size.say_if_short(choices, passes)
        if speed is not None and not by_ctc(given):
            size.members(choices, family, passes, speed.cores)
    _selection(choices, running=sides[1] in ("bpe", "unigram"))
    symbols.limits(choices, survey, sides)
    _drop_given(choices, given)
    return choices


def _budget(choices: Choices, given: Mapping[str, Any]) -> float:
    """The seconds there are, if it is seconds."""
    train = given.get("train", {})
    if not {"budget_seconds", "steps", "epochs"} & set(train):
        choices.set("train.budget_seconds", DEFAULT_BUDGET_SECONDS, "no --budget, --steps or --epochs was given")
    seconds = train.get("budget_seconds", DEFAULT_BUDGET_SECONDS)
    choices.set("train.valid_pairs", int(min(1000, max(50, 3 * float(seconds)))))
    return float(seconds)


def _family(given: Mapping[str, Any], sides: list[str]) -> str:
    """What the user's settings imply, or a Transformer for running text and a recurrent model for anything else."""
    implied = [kind for side in ("decoder", "encoder") if (kind := implied_kind(side, given)) not in (None, "none")]
    return implied[0] or "" if implied else "transformer" if sides == ["bpe", "bpe"] else "recurrent"


def by_ctc(given: Mapping[str, Any]) -> bool:
    """Whether an encoder alone is asked for."""
    return bool(given.get("head", {}).get("kind") == "ctc" or implied_kind("decoder", given) == "none")


def _transformer(
    choices: Choices, given: Mapping[str, Any], seconds: float, speed: Speed | None, count: float
) -> float | None:
    """How many passes over the data it has time for, if that is known."""
    pieces = int({**choices.layer.get("target", {}), **given.get("target", {})}.get("size", 4000))
    width, passes = size.width(choices, given, seconds, size.precision(choices, given, speed), count, pieces)
    why = "running text is learned best by a Transformer"
    for side in ("encoder",) if by_ctc(given) else ("encoder", "decoder"):
        if (implied_kind(side, given) or "transformer") == "transformer":
            choices.set(f"{side}.kind", "transformer", why if side == "encoder" else "")
            choices.set(f"{side}.width", width)
            choices.set(f"{side}.layers", size.LAYERS)
            choices.set(f"{side}.heads", 4)
            choices.set(f"{side}.inner", 2 * width)
    choices.set("embed.positions", "rotary" if implied_kind("encoder", given) != "recurrent" else "sinusoid")
    choices.set("embed.width", width)
    choices.set("train.batch_tokens", 1536, "small batches: many updates in the time")
    _rates(choices, given, width)
    again = f"it sees the data about {passes:.0f} times"
    choices.set("train.dropout", 0.3 if passes >= 20 else 0.2 if passes >= 5 else 0.1, again if speed else "")
    return None if speed is None else passes


def _rates(choices: Choices, given: Mapping[str, Any], width: int) -> None:
    """Of a Transformer: matrices want less the wider and deeper it is, embeddings about the same."""
    parts = [given.get(side, {}) for side in ("encoder", "decoder")]
    wide = max(int(part.get("width", width)) for part in parts) / 128
    deep = max(int(part.get("layers", size.LAYERS)) for part in parts) / size.LAYERS
    choices.set("train.rate", round(RATE / (wide * deep), 5))
    choices.set("train.embed_rate", round(EMBED_RATE * wide**0.5, 1), "rare pieces are learned from few examples")


def _recurrent(choices: Choices, given: Mapping[str, Any], count: float) -> None:
    mixed = implied_kind("encoder", given) == "transformer"
    if mixed:
        choices.set("embed.positions", "sinusoid")
    else:
        choices.set("encoder.kind", "recurrent", "short sequences: an LSTM with attention learns them from few pairs")
    if not by_ctc(given):
        choices.set("decoder.kind", "recurrent")
        choices.set("decoder.width", 256)
    for key in ("encoder.width", "embed.width"):
        choices.set(key, 256)
    choices.set("train.batch_tokens", int(min(1024, max(256, count // UPDATES))))
    choices.set("train.rate", 0.002)
    choices.set("train.dropout", 0.3)


def _selection(choices: Choices, running: bool) -> None:
    if running:
        choices.set("train.select", "bleu", "many right answers: overlap is counted rather than equality")
    else:
        choices.set("train.select", "exact", "short outputs are right or wrong")


def _drop_given(choices: Choices, given: Mapping[str, Any]) -> None:
    """What the user said needs no reason from here."""
    said = {key for key, _ in flatten(given)}
    choices.reasons = [reason for reason in choices.reasons if reason[0] not in said]
