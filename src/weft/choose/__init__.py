"""The autopilot: statistics of the data, the time and the machine → settings, each with its reason.

Every value follows from a statistic of the data or from the budget, by rules whose numbers stand in one table
(numbers.py). Settings that the user gave are left alone, and the rest is chosen to go with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from weft.choose import size
from weft.choose.choices import Choices, uses_ctc
from weft.choose.decoding import choose_bridge_and_attention, choose_head, limit_outputs, reverse_members
from weft.choose.examples import augment, flatten_repeats, handle_unseen_characters
from weft.choose.families import (
    FAMILIES,
    choose_family,
    choose_recurrent,
    choose_transformer,
    expected_members,
    given_families,
    recurrent_widths,
)
from weft.choose.labels import choose_labels
from weft.choose.numbers import NUMBERS
from weft.choose.series import choose_series
from weft.choose.throughput import Throughput
from weft.choose.timing import EpochEstimator, TimeBudget
from weft.choose.tokenisation import nearly_equal, size_vocabularies, tokenise_each, tokenise_together
from weft.choose.training import batch_shape, limit_validation, select_by, size_batches
from weft.core.machine import Speed
from weft.data.survey import Survey
from weft.settings import Layer, flatten, merge

__all__ = ["DEFAULT_BUDGET_SECONDS", "Choices", "choose"]

DEFAULT_BUDGET_SECONDS = NUMBERS.default_budget


def choose(
    survey: Survey, given: Mapping[str, Any], speed: Speed | None = None, throughput: Throughput | None = None
) -> Choices:
    """Choose every setting that matters, to go with those `given`; without `speed` none depends on the machine.

    `throughput` says how fast a model trains; without it, that is estimated from the speed.
    """
    choices, given = Choices(), _without_nulls(given)
    seconds = _budget(choices, given)
    time = None if speed is None else TimeBudget(seconds, speed, throughput, given)
    if survey.kind("target") != "text":
        if survey.kind("target") == "numbers":
            choose_series(choices, survey, given, time)
        else:
            choose_labels(choices, survey, given, time)
        _drop_given_reasons(choices, given)
        return choices
    kinds = tokenise_together(choices, survey, tokenise_each(choices, survey, given), given)
    if nearly_equal(survey, kinds) and not _decided(given):
        kinds = _spell_if_there_is_time(choices, survey, kinds, given, time)
    size_vocabularies(choices, survey, kinds, given)
    choose_head(choices, survey, kinds, given)
    family = choose_family(given, kinds)
    augmented = augment(choices, survey, kinds, given) if family == "recurrent" else 0
    shape = batch_shape(choices, survey, kinds, given)
    flatten_repeats(choices, survey, given)
    limit_validation(choices, shape, seconds)
    source_tokens, target_tokens = ((survey.pairs + augmented) * length for length in shape.lengths)
    estimator = None if time is None else time.estimator(shape, target_tokens)
    size_batches(choices, survey, kinds, shape, family, max(source_tokens, target_tokens))
    if family == "transformer":
        epochs = choose_transformer(choices, given, speed, estimator, target_tokens)
    else:
        if not uses_ctc(given):
            choose_bridge_and_attention(choices, given, survey, shape)
        epochs = choose_recurrent(choices, given, estimator, target_tokens)
    if epochs is not None and estimator is not None and not {"steps", "epochs"} & set(given.get("train", {})):
        _use_time(choices, given, family, estimator, epochs)
    if family == "recurrent" and not uses_ctc(given):
        reverse_members(choices, given, shape)
    select_by(choices, survey.target, kinds[1])
    handle_unseen_characters(choices, survey, kinds, given)
    limit_outputs(choices, survey, kinds)
    _drop_given_reasons(choices, given)
    return choices


def _without_nulls(given: Mapping[str, Any]) -> Layer:
    """Return the given settings without those that are null, which leave the choice open."""
    return merge({key: value for key, value in flatten(given) if value is not None})


def _budget(choices: Choices, given: Mapping[str, Any]) -> float:
    """Return the budget in seconds, which is a default where none is given."""
    train = given.get("train", {})
    if not {"budget_seconds", "steps", "epochs"} & set(train):
        choices.set("train.budget_seconds", DEFAULT_BUDGET_SECONDS, "no --budget, --steps or --epochs was given")
    return float(train.get("budget_seconds", DEFAULT_BUDGET_SECONDS))


def _decided(given: Mapping[str, Any]) -> bool:
    """Return whether the user has chosen how text is tokenised, or a kind of model."""
    tokenised = any("tokens" in given.get(side, {}) for side in ("source", "target"))
    return tokenised or uses_ctc(given) or bool(given_families(given))


def _spell_if_there_is_time(
    choices: Choices, survey: Survey, kinds: list[str], given: Mapping[str, Any], time: TimeBudget | None
) -> list[str]:
    """Tokenise lines that nearly equal their source into characters, if there is time for so many tokens."""
    why = f"{survey.relation.copied:.0%} of a target is in its source (corrected for chance): few characters change"
    if time is None:
        choices.notes.append(f"{why}; with a --budget for {NUMBERS.spelled_epochs} epochs, tokens are characters")
        return kinds
    spelled = ["characters", "characters"]
    shape = batch_shape(Choices(), survey, spelled, given)
    estimator = time.estimator(shape, survey.pairs * shape.lengths[1])
    tokens = {side: {"tokens": "characters"} for side in ("source", "target")}
    parts = {side: {"kind": "recurrent"} for side in ("encoder", "decoder")}
    narrow = merge(tokens, parts, recurrent_widths(given, size.RECURRENT.widths[0]))
    epochs = estimator.epochs(narrow, given, expected_members(given, estimator))
    if epochs is None or epochs < NUMBERS.spelled_epochs:
        return kinds
    choices.replace("source.tokens", "characters")
    choices.replace("target.tokens", "characters", why)
    return spelled


def _use_time(
    choices: Choices, given: Mapping[str, Any], family: str, estimator: EpochEstimator, epochs: float
) -> None:
    """Choose how many models share the time, and when they have trained enough."""
    size.note_short_budget(choices, epochs)
    each = partial(estimator.epochs, choices.layer, given)
    several = "members" not in given.get("train", {}) and estimator.seconds >= NUMBERS.shortest_ensemble
    if several and not uses_ctc(given):
        size.choose_members(choices, FAMILIES[family], estimator.cores if estimator.parallel else 1, each)
    size.limit_epochs(choices, given, estimator.seconds, each)


def _drop_given_reasons(choices: Choices, given: Mapping[str, Any]) -> None:
    """Drop the reasons of settings that the user gave."""
    keys = {key for key, _ in flatten(given)}
    choices.reasons = [reason for reason in choices.reasons if reason[0] not in keys]
