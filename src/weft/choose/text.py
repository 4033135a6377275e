"""Settings for text that is written token by token."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from weft.choose import size
from weft.choose.choices import Choices, uses_ctc
from weft.choose.decoding import choose_bridge_and_attention, choose_head, limit_outputs, reverse_members
from weft.choose.examples import augment, back_translate, even_out_tags, flatten_repeats, handle_unseen_characters
from weft.choose.families import (
    FAMILIES,
    choose_family,
    choose_recurrent,
    choose_transformer,
    expected_members,
    given_families,
    recurrent_widths,
)
from weft.choose.numbers import NUMBERS
from weft.choose.timing import EpochEstimator, TimeBudget
from weft.choose.tokenisation import nearly_equal, size_vocabularies, tokenise_each, tokenise_together
from weft.choose.training import batch_shape, limit_validation, select_by, size_batches
from weft.data.survey import Survey
from weft.settings import merge


def choose_text(choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None = None) -> None:
    """Choose tokens, model, size and how long it is trained."""
    speed = None if time is None else time.speed
    kinds = tokenise_together(choices, survey, tokenise_each(choices, survey, given), given)
    if nearly_equal(survey, kinds) and not _decided(given):
        kinds = _spell_if_there_is_time(choices, survey, kinds, given, time)
    size_vocabularies(choices, survey, kinds, given)
    choose_head(choices, survey, kinds, given)
    family = choose_family(given, kinds)
    augmented = augment(choices, survey, kinds, given) if family == "recurrent" else 0
    shape = batch_shape(choices, survey, kinds, given)
    flatten_repeats(choices, survey, given)
    even_out_tags(choices, survey, given)
    back_translate(choices, survey, given)
    limit_validation(choices, shape, float(given.get("train", {}).get("budget_seconds", NUMBERS.default_budget)))
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


def _decided(given: Mapping[str, Any]) -> bool:
    """Return whether the user has chosen how text is tokenised, or a kind of model."""
    tokenised = any("tokens" in given.get(side, {}) for side in ("source", "target"))
    return tokenised or uses_ctc(given) or bool(given_families(given))


def _spell_if_there_is_time(
    choices: Choices, survey: Survey, kinds: list[str], given: Mapping[str, Any], time: TimeBudget | None
) -> list[str]:
    """Tokenise lines that nearly equal their source into characters, if there is time for so many tokens."""
    why = f"{survey.relation.copied:.0%} of a target is in its source (corrected for chance), so few characters change"
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
