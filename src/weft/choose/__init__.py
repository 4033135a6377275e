"""The autopilot: what the data look like and the time there is → settings, each with its reason.

Whatever decides a value is a statistic of the data or the budget. What the user set already is left alone, and the rest
is chosen to go with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.choose import size, symbols
from weft.choose.choices import Choices
from weft.choose.pace import Pace, Typical, estimated
from weft.core.errors import UserError
from weft.core.machine import Speed
from weft.data.survey import Survey
from weft.learn.world import pick_device
from weft.settings import Layer, compose, flatten, implied_kind, merge

__all__ = ["Choices", "choose"]

DEFAULT_BUDGET_SECONDS = 600.0
LEARNING = 0.85  # the share of a budget that is left for steps
RATE = 0.005  # of a Transformer of width 128 (docs/LOG.md, "The embeddings' rate")
EMBED_RATE = 8.0  # in multiples of that
LONG = 8  # symbols of a target, from which on attention that moves along copies better
UPDATES = 250  # of a recurrent model in a pass over the data, at least: what a small corpus gets


def choose(survey: Survey, given: Mapping[str, Any], speed: Speed | None = None, pace: Pace | None = None) -> Choices:
    """Settings for everything that matters, to go with what is `given`; without `speed` none hangs on the machine.

    `pace` tells how fast a model learns; without it, that is estimated from the speed.
    """
    choices = Choices()
    seconds = _budget(choices, given)
    both = {"source": survey.source, "target": survey.target}
    sides = [symbols.side(choices, name, found, survey.pairs, given) for name, found in both.items()]
    if sides == ["bpe", "bpe"]:
        symbols.pieces(choices, survey)
    family = _family(given, sides)
    invented = symbols.invent(choices, survey, sides, given) if family == "recurrent" else 0
    typical = symbols.typical(choices, survey, sides, given)
    counts = [(survey.pairs + invented) * length for length in typical.lengths]
    apart = pick_device(given.get("train", {}).get("device", "auto")).type == "cpu"
    clock = None if speed is None else Clock(seconds, speed.cores, apart, pace or estimated(speed), typical, counts[1])
    if family == "transformer":
        passes = _transformer(choices, given, speed, clock, counts[1])
    else:
        if not by_ctc(given):
            _handing_over(choices, given, survey, typical)
        passes = _recurrent(choices, given, clock, counts)
    if passes is not None and speed is not None and not {"steps", "epochs"} & set(given.get("train", {})):
        size.say_if_short(choices, passes)
        if not by_ctc(given):
            size.members(choices, _known(family), passes, speed.cores)
            if clock is not None and not any("members" in layer.get("train", {}) for layer in (choices.layer, given)):
                size.second(choices, passes, clock.by_two(choices.layer, given))
    _selection(choices, running=sides[1] in ("bpe", "unigram"))
    symbols.limits(choices, survey, sides)
    _drop_given(choices, given)
    return choices


@dataclass(frozen=True)
class Clock:
    """What there is time for."""

    seconds: float
    cores: int
    apart: bool  # whether several models train side by side, one a core
    pace: Pace
    typical: Typical
    symbols: float  # of all targets together

    def passes(self, layer: Layer, given: Mapping[str, Any], several: bool = False) -> float | None:
        """How many times a model sees the data, or `several` do; None where settings clash."""
        try:
            spec = compose(("autopilot", layer), ("flag", dict(given))).spec
        except UserError:
            return None  # which is told when the run's own settings are put together
        alone = several and self.apart
        rate = self.cores * self.pace(spec, self.typical, 1) if alone else self.pace(spec, self.typical, self.cores)
        return LEARNING * rate * self.seconds / self.symbols

    def by_two(self, layer: Layer, given: Mapping[str, Any]) -> float:
        """How many times as much two models side by side learn in all as one alone; 1 where there is no choice."""
        if not self.apart or self.cores < 2:
            return 1.0
        try:
            spec = compose(("autopilot", layer), ("flag", dict(given))).spec
        except UserError:
            return 1.0
        return 2 * self.pace(spec, self.typical, self.cores // 2) / self.pace(spec, self.typical, self.cores)


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
    choices: Choices, given: Mapping[str, Any], speed: Speed | None, clock: Clock | None, count: float
) -> float | None:
    """How many passes over the data it has time for, if that is known."""
    size.precision(choices, given, speed)
    choices.set("train.batch_tokens", 1536, "small batches: many updates in the time")
    if clock is None:
        width, passes = size.TRANSFORMER.widths[1], None
    else:
        width, passes = size.width(
            size.TRANSFORMER, count, lambda w: clock.passes(merge(choices.layer, _shape(given, w)), given)
        )
    for key, value in flatten(_shape(given, width)):
        choices.set(key, value, "running text is learned best by a Transformer" if key == "encoder.kind" else "")
    if passes is not None:
        choices.reasons.append(["encoder.width", str(width), f"{size.told(passes)} over the data in the time"])
    _rates(choices, given, width)
    seen = size.TRANSFORMER.passes if passes is None else passes
    again = "" if passes is None else f"{size.told(passes)} over the data"
    choices.set("train.dropout", 0.3 if seen >= 20 else 0.2 if seen >= 5 else 0.1, again)
    return passes


def _shape(given: Mapping[str, Any], width: int) -> Layer:
    """A Transformer of some width, as far as both sides are to be Transformers."""
    part = {"kind": "transformer", "width": width, "layers": size.LAYERS, "heads": 4, "inner": 2 * width}
    sides = ("encoder",) if by_ctc(given) else ("encoder", "decoder")
    parts = {side: dict(part) for side in sides if implied_kind(side, given) in (None, "transformer")}
    positions = "rotary" if implied_kind("encoder", given) != "recurrent" else "sinusoid"
    return {**parts, "embed": {"positions": positions, "width": width}}


def _rates(choices: Choices, given: Mapping[str, Any], width: int) -> None:
    """Of a Transformer: matrices want less the wider and deeper it is, embeddings about the same."""
    parts = [given.get(side, {}) for side in ("encoder", "decoder")]
    wide = max(int(part.get("width", width)) for part in parts) / 128
    deep = max(int(part.get("layers", size.LAYERS)) for part in parts) / size.LAYERS
    choices.set("train.rate", round(RATE / (wide * deep), 5))
    choices.set("train.embed_rate", round(EMBED_RATE * wide**0.5, 1), "rare pieces are learned from few examples")


def _recurrent(
    choices: Choices, given: Mapping[str, Any], clock: Clock | None, counts: Sequence[float]
) -> float | None:
    """How many passes over the data there is time for, if that is known, when every core trains one model."""
    if implied_kind("encoder", given) == "transformer":
        choices.set("embed.positions", "sinusoid")
    else:
        choices.set("encoder.kind", "recurrent", "short sequences: an LSTM with attention learns them from few pairs")
    if not by_ctc(given):
        choices.set("decoder.kind", "recurrent")
    choices.set("train.batch_tokens", int(min(512, max(256, max(counts) // UPDATES))))
    choices.set("train.rate", 0.002)
    choices.set("train.dropout", 0.3)
    width, passes = size.RECURRENT.widths[-1], None
    if clock is not None:
        width, passes = size.width(
            size.RECURRENT,
            counts[1],
            lambda w: clock.passes(merge(choices.layer, _widths(given, w)), given, several=True),
        )
    for key, value in flatten(_widths(given, width)):
        choices.set(key, value)
    if passes is not None:
        choices.reasons.append(["decoder.width", str(width), f"{size.told(passes)} over the data in the time"])
    return passes


def _handing_over(choices: Choices, given: Mapping[str, Any], survey: Survey, typical: Typical) -> None:
    """What the decoder sees of the source at each step (docs/LOG.md, "Features at every step")."""
    if survey.marks and "bridge" not in given:
        choices.set("bridge.give", "every", "tags and features decide about every symbol")
    copied = survey.relation.copied
    if copied >= symbols.COPIED and typical.lengths[1] >= LONG and "attention" not in given.get("decoder", {}):
        why = f"{copied:.0%} of a target is copied: attention learns to move along the source"
        choices.set("decoder.attention.moves", True, why)


def _widths(given: Mapping[str, Any], width: int) -> Layer:
    """Of a recurrent model; an encoder alone has no decoder's."""
    parts = ("encoder", "embed") if by_ctc(given) else ("encoder", "decoder", "embed")
    return {part: {"width": width} for part in parts}


def _known(family: str) -> size.Family:
    return size.TRANSFORMER if family == "transformer" else size.RECURRENT


def _selection(choices: Choices, running: bool) -> None:
    if running:
        choices.set("train.select", "bleu", "many right answers: overlap is counted rather than equality")
    else:
        choices.set("train.select", "exact", "short outputs are right or wrong")


def _drop_given(choices: Choices, given: Mapping[str, Any]) -> None:
    """What the user said needs no reason from here."""
    said = {key for key, _ in flatten(given)}
    choices.reasons = [reason for reason in choices.reasons if reason[0] not in said]
