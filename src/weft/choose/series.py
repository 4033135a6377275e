"""Settings for numbers: series that are predicted step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.choose.choices import Choices
from weft.choose.numbers import NUMBERS
from weft.choose.timing import TimeBudget
from weft.data.survey import Survey


def choose_series(choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None = None) -> None:
    """Choose how series are encoded, by which model they are predicted, and how it is trained."""
    target = survey.columns["target"]
    choices.set("target.kind", "numbers", "the target column holds lists of numbers")
    if survey.kind("source") == "numbers":
        choices.set("source.kind", "numbers", "the source column holds lists of numbers")
    _choose_encoding(choices, survey)
    _choose_context(choices, survey)
    _choose_length(choices, survey, given)
    choices.set("encoder.kind", "recurrent")
    choices.set("decoder.kind", "recurrent")
    for part in ("encoder", "decoder", "embed"):
        choices.set(f"{part}.width", NUMBERS.series_width)
    choices.set("train.rate", NUMBERS.recurrent_rate)
    choices.set("train.dropout", NUMBERS.series_dropout)
    choices.set("train.batch_tokens", max(NUMBERS.series_batch, 2 * target["longest"]))
    choices.set("train.max_epochs", NUMBERS.series_epochs)
    _share_time(choices, given, time)
    choices.set("train.select", "ade" if target["width"] > 1 or target["longest"] > 1 else "mse")


def _share_time(choices: Choices, given: Mapping[str, Any], time: TimeBudget | None) -> None:
    """Train a model on each core: a small one gains nothing from a second."""
    if time is None or {"steps", "epochs", "members"} & set(given.get("train", {})):
        return
    cores = min(NUMBERS.most_members, time.cores) if time.parallel else 1
    if time.seconds >= NUMBERS.shortest_ensemble and cores > 1:
        choices.set("train.members", cores, "each core trains a model, and their mean predicts")


def _choose_encoding(choices: Choices, survey: Survey) -> None:
    target = survey.columns["target"]
    if target["continues"] >= NUMBERS.continuing_targets:
        why = f"{target['continues']:.0%} of the targets go on where their source ends"
        choices.set("numbers.differences", True, f"{why}: the model predicts steps")
        gain = target["position_gain"]
        matters = gain >= NUMBERS.position_gain
        why = f"where a series is explains {gain:.0%} of the error that its steps leave"
        choices.set("numbers.values", matters, why if matters else "")
    missing = sum(column.get("missing", 0) for column in survey.columns.values())
    if missing:
        choices.set("numbers.missing", "mask", f"{missing:,} numbers are missing: they are filled in, and marked")


def _choose_context(choices: Choices, survey: Survey) -> None:
    if survey.kind("context") == "none":
        return
    choices.set("context.kind", survey.kind("context"))
    in_step = survey.columns.get("context", {}).get("in_step", 0.0) == 1
    why = "every context is as long as its target" if in_step else "contexts are not as long as their targets"
    choices.set("context.use", "step" if in_step else "attend", why)


def _choose_length(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    target = survey.columns["target"]
    shortest, longest = target["shortest"], target["longest"]
    if choices.merged("context", given).get("use") == "step":
        choices.set("numbers.stop", "context", "a target is as long as its context")
    elif shortest == longest:
        choices.set("numbers.stop", "fixed", f"every target has {longest} steps")
    else:
        choices.set("numbers.stop", "learned", f"targets have {shortest} to {longest} steps")
