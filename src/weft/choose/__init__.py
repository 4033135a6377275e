"""The autopilot: what the data look like and the time there is → settings, each with its reason.

Whatever decides a value is a statistic of the data or the budget. What the user set already is left alone, and the rest
is chosen to go with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from weft.choose import cutting, rows, size
from weft.choose.choices import Choices, by_ctc
from weft.choose.pace import Pace, Typical, remembered
from weft.core.errors import UserError
from weft.core.machine import Speed
from weft.data.survey import SideSurvey, Survey
from weft.data.text.tokens import SUBWORDS
from weft.settings import Layer, compose, flatten, implied_kind, merge
from weft.spec import SPELLED

__all__ = ["Choices", "choose"]

DEFAULT_BUDGET_SECONDS = 600.0
LEARNING = 0.85  # the share of a budget that is left for steps
RATE = 0.005  # of a Transformer of width 128 (docs/LOG.md, "The embeddings' rate")
EMBED_RATE = 8.0  # in multiples of that
LONG = 8  # symbols of a target, from which on attention that moves along copies better
LONG_TARGET = 25  # characters: longer ones are seldom right as a whole
BLEU_WORDS = 5  # of a target, on average: fewer have hardly four in a row to be right
SPELLED_PASSES = 5  # over the data, after which letters have learned more than pieces, where few of them change
FEW_PASSES = 5  # over the data, that leave nothing to learn by heart
SHORTEST_TURNED = 3  # symbols of a target, END counted, that are another sequence from the end
COPY_WORDS = 0.4  # of a target's words, from its source: from this share on the decoder also copies
COPY_SECONDS = 300.0  # of a budget: in less time copying is not learned
UPDATES = 250  # of a recurrent model in a pass over the data, at least: what a small corpus gets


def choose(survey: Survey, given: Mapping[str, Any], speed: Speed | None = None, pace: Pace | None = None) -> Choices:
    """Settings for everything that matters, to go with what is `given`; without `speed` none hangs on the machine.

    `pace` tells how fast a model learns; without it, that is estimated from the speed.
    """
    choices, given = Choices(), _said(given)
    seconds = _budget(choices, given)
    both = {"source": survey.source, "target": survey.target}
    sides = [cutting.side(choices, name, found, survey.pairs, given) for name, found in both.items()]
    sides = cutting.running(choices, survey, sides, given)
    time = None if speed is None else _Time(seconds, speed, pace, given)
    if cutting.hardly_changes(survey, sides) and not _decided(given):
        sides = _letter_by_letter(choices, survey, sides, given, time)
    cutting.pieces(choices, survey, sides, given)
    _copying(choices, survey, sides, given, seconds)
    family = _family(given, sides)
    invented = rows.invent(choices, survey, sides, given) if family == "recurrent" else 0
    typical = rows.typical(choices, survey, sides, given)
    rows.even(choices, survey, given)
    rows.validation(choices, typical, seconds)
    counts = [(survey.pairs + invented) * length for length in typical.lengths]
    clock = None if time is None else time.clock(typical, counts[1])
    few = 1536.0 if family == "transformer" else min(512.0, max(256.0, max(counts) // UPDATES))
    rows.batch(choices, survey, sides, typical, few)
    if family == "transformer":
        passes = _transformer(choices, given, speed, clock, counts[1])
    else:
        if not by_ctc(given):
            _handing_over(choices, given, survey, typical)
        passes = _recurrent(choices, given, clock, counts[1])
    if passes is not None and clock is not None and not {"steps", "epochs"} & set(given.get("train", {})):
        size.say_if_short(choices, passes)
        each = partial(clock.each, choices.layer, given)
        if not by_ctc(given) and "members" not in given.get("train", {}) and seconds >= size.SHORTEST_OF_SEVERAL:
            size.members(choices, _known(family), clock.cores if clock.apart else 1, each)
        size.enough(choices, given, seconds, each)
    if family == "recurrent" and not by_ctc(given) and typical.lengths[1] >= SHORTEST_TURNED:
        _both_ways(choices, given)
    _selection(choices, survey.target, sides[1])
    rows.unseen(choices, survey, sides, given)
    rows.limits(choices, survey, sides)
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

    def each(self, layer: Layer, given: Mapping[str, Any], models: int) -> float | None:
        """How many times each of so many models sees the data; None where settings clash."""
        try:
            spec = compose(("autopilot", layer), ("flag", dict(given))).spec
        except UserError:
            return None  # which is told when the run's own settings are put together
        at_once = min(models, self.cores) if self.apart else 1
        rounds = -(-models // at_once)
        return LEARNING * self.pace(spec, self.typical, self.cores // at_once) * self.seconds / self.symbols / rounds


class _Time:
    """A budget on this machine, whatever the data are cut into."""

    def __init__(self, seconds: float, speed: Speed, pace: Pace | None, given: Mapping[str, Any]) -> None:
        from weft.choose.trial import estimated  # torch, which those who only look at data need not wait for
        from weft.learn.world import pick_device

        self._seconds, self._cores = seconds, speed.cores
        self._apart = pick_device(given.get("train", {}).get("device", "auto")).type == "cpu"
        self._pace = remembered(pace or estimated(speed))

    def clock(self, typical: Typical, symbols: float) -> Clock:
        return Clock(self._seconds, self._cores, self._apart, self._pace, typical, symbols)


def _budget(choices: Choices, given: Mapping[str, Any]) -> float:
    """The seconds there are, if it is seconds."""
    train = given.get("train", {})
    if not {"budget_seconds", "steps", "epochs"} & set(train):
        choices.set("train.budget_seconds", DEFAULT_BUDGET_SECONDS, "no --budget, --steps or --epochs was given")
    return float(train.get("budget_seconds", DEFAULT_BUDGET_SECONDS))


def _said(given: Mapping[str, Any]) -> Layer:
    """What is given without what is null, which leaves it open: other runs' settings have such."""
    return merge({key: value for key, value in flatten(given) if value is not None})


def _asked(given: Mapping[str, Any]) -> list[str]:
    """The families that the user's settings imply, of the decoder first."""
    kinds = [implied_kind(side, given) for side in ("decoder", "encoder")]
    return [kind for kind in kinds if kind not in (None, "none")]


def _family(given: Mapping[str, Any], sides: list[str]) -> str:
    """What the user's settings imply, or a Transformer for running text and a recurrent model for anything else."""
    by_data = "transformer" if cutting.are_pieces(sides) else "recurrent"
    return next(iter(_asked(given)), by_data)


def _decided(given: Mapping[str, Any]) -> bool:
    """Whether the user's settings say how text is cut, or ask for a kind of model."""
    return bool(_asked(given)) or by_ctc(given) or any("tokens" in given.get(side, {}) for side in ("source", "target"))


def _letter_by_letter(
    choices: Choices, survey: Survey, sides: list[str], given: Mapping[str, Any], time: _Time | None
) -> list[str]:
    """Lines that hardly change are spelled, if there is time for so many symbols (docs/LOG.md, "Letter by letter")."""
    copied = f"{survey.relation.copied:.0%} of a target stands in its source, beyond chance: few letters change"
    if time is None:
        choices.notes.append(f"{copied}; with a --budget for {SPELLED_PASSES} passes they are learned one by one")
        return sides
    spelled = ["characters", "characters"]
    typical = rows.typical(Choices(), survey, spelled, given)
    clock = time.clock(typical, survey.pairs * typical.lengths[1])
    cut = {side: {"tokens": "characters"} for side in ("source", "target")}
    kinds = {side: {"kind": "recurrent"} for side in ("encoder", "decoder")}
    narrow = merge(cut, kinds, _widths(given, size.RECURRENT.widths[0]))
    passes = clock.each(narrow, given, _models(given, clock))
    if passes is None or passes < SPELLED_PASSES:
        return sides
    cutting.recut(choices, "source", "characters")
    cutting.recut(choices, "target", "characters", copied)
    return spelled


def _transformer(
    choices: Choices, given: Mapping[str, Any], speed: Speed | None, clock: Clock | None, count: float
) -> float | None:
    """How many passes over the data it has time for, if that is known."""
    size.precision(choices, given, speed)
    family = size.as_asked(size.TRANSFORMER, given)
    width, passes = family.usual, None
    if clock is not None:
        width, passes = size.width(
            family, count, lambda w: clock.each(merge(choices.layer, _shape(given, w)), given, 1)
        )
    why = "" if _asked(given) else "running text is learned best by a Transformer"
    for key, value in flatten(_shape(given, width)):
        choices.set(key, value, why if key == "encoder.kind" else "")
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


def _recurrent(choices: Choices, given: Mapping[str, Any], clock: Clock | None, count: float) -> float | None:
    """How many passes over the data there is time for, if that is known, when cores train models side by side."""
    text = {**choices.layer.get("target", {}), **given.get("target", {})}.get("tokens") in SUBWORDS
    what = "the source is no running text" if text else "no running text"
    why = "" if _asked(given) else f"{what}: an LSTM with attention learns from few pairs"
    if implied_kind("encoder", given) == "transformer":
        choices.set("embed.positions", "sinusoid")
    else:
        choices.set("encoder.kind", "recurrent", why)
    if not by_ctc(given):
        choices.set("decoder.kind", "recurrent")
    choices.set("train.rate", 0.002)
    family = size.as_asked(size.RECURRENT, given)
    width, passes = family.usual, None
    if clock is not None:
        models = _models(given, clock)
        width, passes = size.width(
            family, count, lambda w: clock.each(merge(choices.layer, _widths(given, w)), given, models)
        )
    for key, value in flatten(_widths(given, width)):
        choices.set(key, value)
    short = passes is not None and passes < FEW_PASSES
    choices.set("train.dropout", 0.1 if short else 0.2)  # docs/LOG.md, "Dropout of small models"
    if passes is not None:
        told = f"{size.told(passes)} over the data in the time{', if every core trains a model' if models > 1 else ''}"
        choices.reasons.append(["decoder.width", str(width), told])
    return passes


def _models(given: Mapping[str, Any], clock: Clock) -> int:
    """How many recurrent models there will be at least: one a core, unless the user says otherwise or time is short."""
    if by_ctc(given) or not clock.apart:
        return 1
    several = min(clock.cores, size.MOST_MEMBERS) if clock.seconds >= size.SHORTEST_OF_SEVERAL else 1
    return int(given.get("train", {}).get("members") or several)


def _handing_over(choices: Choices, given: Mapping[str, Any], survey: Survey, typical: Typical) -> None:
    """What the decoder sees of the source at each step (docs/LOG.md, "Features at every step")."""
    if survey.marks and "bridge" not in given:
        choices.set("bridge.give", "every", "tags and features decide about every symbol")
    copied = rows.most_copied(survey)
    if copied >= cutting.COPIED and typical.lengths[1] >= LONG and "attention" not in given.get("decoder", {}):
        why = f"{copied:.0%} of a source or a target is copied, beyond chance: attention learns to move on"
        choices.set("decoder.attention.location_aware", True, why)


def _copying(choices: Choices, survey: Survey, sides: list[str], given: Mapping[str, Any], seconds: float) -> None:
    """Choose a head that copies source tokens where targets take many of their words from the source."""
    share, by_steps = survey.relation.copied_words, {"steps", "epochs"} & set(given.get("train", {}))
    if sides != ["bpe", "bpe"] or by_steps or by_ctc(given) or seconds < COPY_SECONDS:
        return
    if share >= COPY_WORDS and "kind" not in given.get("head", {}):
        choices.set("head.kind", "copy", f"{share:.0%} of the words of a target are also in its source")


def _both_ways(choices: Choices, given: Mapping[str, Any]) -> None:
    """Of several models every second writes from the end (docs/LOG.md, "Both ways"): a beam can ask both ways."""
    train = {**choices.layer.get("train", {}), **given.get("train", {})}
    decided = "reversed_members" in train or "reverse" in given.get("decoder", {})
    by_beam = given.get("search", {}).get("kind", "beam") == "beam"
    if train.get("members", 1) > 1 and by_beam and not decided:
        why = "models that write from the start and from the end go wrong at different places"
        choices.set("train.reversed_members", True, why)


def _widths(given: Mapping[str, Any], width: int) -> Layer:
    """Of a recurrent model; an encoder alone has no decoder's."""
    parts = ("encoder", "embed") if by_ctc(given) else ("encoder", "decoder", "embed")
    return {part: {"width": width} for part in parts}


def _known(family: str) -> size.Family:
    return size.TRANSFORMER if family == "transformer" else size.RECURRENT


def _selection(choices: Choices, target: SideSurvey, kind: str) -> None:
    pieces = kind in SUBWORDS
    spelled = kind in SPELLED and target.mean > LONG_TARGET
    if cutting.is_unspaced(target) and (pieces or spelled):
        choices.set("train.select", "chrf", "long lines without spaces: letters that are right are counted")
    elif pieces and target.mean_words >= BLEU_WORDS:
        choices.set("train.select", "bleu", "many right answers: overlap is counted rather than equality")
    elif pieces or spelled:
        choices.set("train.select", "chrf", "seldom right as a whole: letters that are right are counted")
    else:
        choices.set("train.select", "exact", "an output is right or wrong as a whole; among equals the loss decides")


def _drop_given(choices: Choices, given: Mapping[str, Any]) -> None:
    """What the user said needs no reason from here."""
    said = {key for key, _ in flatten(given)}
    choices.reasons = [reason for reason in choices.reasons if reason[0] not in said]
