"""The autopilot: what the data look like and the time there is → settings, each with its reason.

Whatever decides a value is a statistic of the data or the budget. What the user set already is left alone, and the rest
is chosen to go with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.core.machine import Speed
from weft.data.survey import SideSurvey, Survey
from weft.settings import Layer, flatten, implied_kind, put

DEFAULT_BUDGET_SECONDS = 600.0
LAYERS = 3
WIDTHS = (128, 192, 256, 384, 512)
UPDATES = 100  # in a pass over the data, at least: what a small corpus gets
PASSES = 10  # over the data, that a Transformer should have time for
ENOUGH = 25  # passes after which a small recurrent model gains less than a second one beside it brings
MOST_MEMBERS = 6
COPIED = 0.6  # of a target, from its source: above this the middle of a word does not matter
FEW = 5000  # pairs that show it; fewer are filled up with pairs that are made up
USE = 0.6  # the share of the machine's matrix speed that training reaches
WORTH_HALVING = 1.5  # how many times as fast products in bfloat16 must be
HALVES = 0.7  # the share of that speed which is left where the rest is not in bfloat16


@dataclass
class Choices:
    """A layer of settings, and (setting, value, reason) for each that is worth telling."""

    layer: Layer = field(default_factory=dict)
    reasons: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what the user should know besides

    def set(self, key: str, value: Any, reason: str = "") -> None:
        put(self.layer, key, value)
        if reason:
            self.reasons.append([key, str(value), reason])

    def drop(self, key: str) -> None:
        """Leave a setting as it is by default."""
        part, _, name = key.rpartition(".")
        self.layer.get(part, {}).pop(name, None)
        self.reasons = [reason for reason in self.reasons if reason[0] != key]


def choose(survey: Survey, given: Mapping[str, Any], speed: Speed | None = None) -> Choices:
    """Settings for everything that matters, to go with what is `given`; without `speed` none hangs on the machine."""
    choices = Choices()
    seconds = _budget(choices, given)
    both = ("source", survey.source), ("target", survey.target)
    sides = [_side(choices, name, side, survey.pairs, given) for name, side in both]
    both_subwords = sides == ["bpe", "bpe"]
    _share(choices, survey, both_subwords)
    if _family(given, both_subwords) == "transformer":
        _transformer(choices, given, _width(choices, survey, seconds, _precision(choices, given, speed)))
    else:
        invented = _invent(choices, survey, sides, given)
        symbols = {
            name: (survey.pairs + invented) * (_length(side, kind) + 1) for (name, side), kind in zip(both, sides)
        }
        _recurrent(choices, given, max(symbols.values()))
        _members(choices, given, seconds, speed, symbols["target"])
    _selection(choices, running=sides[1] in ("bpe", "unigram"))
    _limits(choices, survey, sides)
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


def _side(choices: Choices, name: str, side: SideSurvey, pairs: int, given: Mapping[str, Any]) -> str:
    """How one side is cut."""
    asked = given.get(name, {}).get("tokens")
    if asked:
        return str(asked)
    if is_symbol_list(side, pairs):
        kind, why = "words", f"{side.distinct_words} distinct words, {side.mean_words:.1f} a line: a list of symbols"
    elif side.mean_words <= 4 or side.mean <= 25:
        kind, why = "characters", f"short: {side.mean:.0f} characters a line"
    else:
        kind, why = "bpe", f"running text: {side.mean_words:.0f} words a line, {side.distinct_words:,} distinct"
    choices.set(f"{name}.tokens", kind, why)
    return kind


def is_symbol_list(side: SideSurvey, pairs: int) -> bool:
    """Few distinct words, used over and over or very short: phones, letters set apart, commands."""
    few = side.spaced >= 0.5 and side.mean_words >= 2 and side.distinct_words <= 500
    uses = pairs * side.mean_words / max(1, side.distinct_words)
    return few and (uses >= 20 or side.mean_word <= 2.5)


def _share(choices: Choices, survey: Survey, both_subwords: bool) -> None:
    if not both_subwords:
        return
    words = survey.pairs * survey.target.mean_words
    size = int(min(16_000, max(1000, round(words / 80 / 500) * 500)))
    for name in ("source", "target"):
        choices.set(f"{name}.size", size, f"{words:,.0f} target words" if name == "target" else "")
    shared = survey.shared_characters >= 0.8
    why = f"{survey.shared_characters:.0%} of the target's letters are the source's too"
    choices.set("embed.shared", shared, why)


def _family(given: Mapping[str, Any], both_subwords: bool) -> str:
    """What the user's settings imply, or a Transformer for running text and a recurrent model for anything else."""
    implied = [kind for side in ("decoder", "encoder") if (kind := implied_kind(side, given)) not in (None, "none")]
    return implied[0] or "" if implied else "transformer" if both_subwords else "recurrent"


def by_ctc(given: Mapping[str, Any]) -> bool:
    """Whether an encoder alone is asked for."""
    return bool(given.get("head", {}).get("kind") == "ctc" or implied_kind("decoder", given) == "none")


def _precision(choices: Choices, given: Mapping[str, Any], speed: Speed | None) -> float | None:
    """The number format of a Transformer's products, and the speed that it gives."""
    if speed is None:
        return None
    asked = given.get("train", {}).get("precision")
    if asked is None and speed.halved >= WORTH_HALVING:
        choices.set("train.precision", "bfloat16", f"products are {speed.halved:.1f} times as fast on this machine")
    halves = asked == "bfloat16" or (asked is None and speed.halved >= WORTH_HALVING)
    return max(speed.float32, HALVES * speed.bfloat16) if halves else speed.float32


def _width(choices: Choices, survey: Survey, seconds: float, speed: float | None) -> int:
    """The widest Transformer that sees every pair PASSES times in the budget, and not too wide for the data."""
    size = choices.layer["target"]["size"] if "size" in choices.layer.get("target", {}) else 4000
    if speed is None:
        return WIDTHS[1]
    tokens = survey.pairs * max(1.0, survey.target.mean / 4)  # a piece of a word is about four characters
    passes = {w: USE * speed * seconds / (_work(w, size) * tokens) for w in WIDTHS if w <= max(128, tokens**0.5 / 2)}
    width = max((w for w in passes if passes[w] >= PASSES), default=WIDTHS[0])
    choices.reasons.append(["encoder.width", str(width), f"about {passes[width]:.0f} passes over the data in the time"])
    _say_if_short(choices, passes[width])
    return width


def _say_if_short(choices: Choices, passes: float) -> None:
    if passes < 1:
        choices.notes.append(
            f"the time is enough for about {passes:.1%} of the data once: what it learns will be rough; "
            "ten passes and more are what it takes (--budget)"
        )


def _work(width: int, symbols: int) -> float:
    """Multiplications and additions to learn from one target symbol: six for each weight it meets."""
    blocks = LAYERS * ((4 + 4) * width**2 + (8 + 4) * width**2)  # encoder and decoder, feed-forward of twice the width
    return 6 * (blocks + width * symbols)


def _transformer(choices: Choices, given: Mapping[str, Any], width: int) -> None:
    why = "running text is learned best by a Transformer"
    for side in ("encoder",) if by_ctc(given) else ("encoder", "decoder"):
        if (implied_kind(side, given) or "transformer") == "transformer":
            choices.set(f"{side}.kind", "transformer", why if side == "encoder" else "")
            choices.set(f"{side}.width", width)
            choices.set(f"{side}.layers", LAYERS)
            choices.set(f"{side}.heads", 4)
            choices.set(f"{side}.inner", 2 * width)
    choices.set("embed.positions", "rotary" if implied_kind("encoder", given) != "recurrent" else "sinusoid")
    choices.set("embed.width", width)
    choices.set("train.batch_tokens", 1536, "small batches: many updates in the time")
    choices.set("train.rate", 0.0015)
    choices.set("train.dropout", 0.2)


def _length(side: SideSurvey, kind: str) -> float:
    """The mean number of symbols in a line, cut that way; a piece of a word is about four characters."""
    return {"characters": side.mean, "bytes": side.mean, "words": side.mean_words}.get(kind, side.mean / 4)


def _recurrent(choices: Choices, given: Mapping[str, Any], symbols: float) -> None:
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
    choices.set("train.batch_tokens", int(min(1024, max(256, symbols // UPDATES))))
    choices.set("train.rate", 0.002)
    choices.set("train.dropout", 0.3)


def _invent(choices: Choices, survey: Survey, sides: list[str], given: Mapping[str, Any]) -> int:
    """Pairs that are made up where there are too few to learn copying from; how many."""
    asked = given.get("data", {}).get("invented")
    if asked is not None:
        return int(asked)
    copied = survey.relation.copied
    if sides != ["characters", "characters"] or copied < COPIED or survey.pairs >= FEW or survey.pairs < 50:
        return 0
    count = FEW - survey.pairs
    why = f"{survey.pairs:,} pairs, and {copied:.0%} of a target is copied from its source"
    choices.set("data.invented", count, why)
    return count


def _members(choices: Choices, given: Mapping[str, Any], seconds: float, speed: Speed | None, symbols: float) -> None:
    """Several models where one would have more time than it can use: together they are right more often."""
    by_clock = not {"steps", "epochs"} & set(given.get("train", {}))
    if speed is None or not by_clock or by_ctc(given):
        return
    passes = USE * speed.apart * seconds / (_recurrent_work(choices.layer, given) * symbols)
    _say_if_short(choices, passes)
    members = int(min(MOST_MEMBERS, passes / ENOUGH))
    members -= members % speed.cores if members > speed.cores else 0
    if members > 1:
        why = f"there is time for about {passes:.0f} passes over the data, and one model needs {ENOUGH}"
        choices.set("train.members", members, why)


def _recurrent_work(layer: Mapping[str, Any], given: Mapping[str, Any]) -> float:
    """Operations to learn from one target symbol and its source, as `_work` counts them; of an LSTM, roughly."""
    said = {**dict(flatten(layer)), **dict(flatten(given))}
    reads, writes, vector = (int(said.get(f"{part}.width", 256)) for part in ("encoder", "decoder", "embed"))
    encoder = 2 * reads * (vector + reads / 2) * int(said.get("encoder.layers", 1))
    decoder = 4 * writes * (vector + reads + writes) * int(said.get("decoder.layers", 1))
    return 6 * (encoder + decoder + 3 * reads * writes)


def _selection(choices: Choices, running: bool) -> None:
    if running:
        choices.set("train.select", "bleu", "many right answers: overlap is counted rather than equality")
    else:
        choices.set("train.select", "exact", "short outputs are right or wrong")


def _limits(choices: Choices, survey: Survey, sides: list[str]) -> None:
    """How long an output may be: half as much again as the longest training target for its source."""
    source, target = (_length(side, kind) for side, kind in zip((survey.source, survey.target), sides))
    mean_ratio = target / max(1.0, source)
    spread = survey.longest_ratio / max(1e-6, survey.target.mean / max(1.0, survey.source.mean))
    choices.set("search.longest_ratio", round(max(1.0, 1.5 * mean_ratio * min(spread, 4.0)), 2))
    choices.set("search.longest_extra", 20)


def _drop_given(choices: Choices, given: Mapping[str, Any]) -> None:
    """What the user said needs no reason from here."""
    said = {key for key, _ in flatten(given)}
    choices.reasons = [reason for reason in choices.reasons if reason[0] not in said]
