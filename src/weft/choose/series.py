"""Settings for numbers and notes: series that are predicted step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from weft.choose.choices import ENOUGH_EPOCHS, Choices
from weft.choose.numbers import NUMBERS
from weft.choose.timing import TimeBudget
from weft.core.counts import counted
from weft.data.survey import Survey


def choose_series(choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None = None) -> None:
    """Choose how series are encoded, by which model they are predicted, and how it is trained."""
    target = survey.columns["target"]
    choices.set("target.kind", "numbers", "the target column holds numbers, in lists or in files that it names")
    if survey.kind("source") == "numbers":
        choices.set("source.kind", "numbers", "the source column holds numbers, in lists or in files that it names")
    _choose_encoding(choices, survey, given)
    choose_context(choices, survey)
    _choose_learning(choices, survey, given)
    choose_length(choices, survey, given)
    choices.set("encoder.kind", "recurrent")
    choices.set("decoder.kind", "recurrent")
    for part in ("encoder", "decoder", "embed"):
        choices.set(f"{part}.width", NUMBERS.series_width)
    choices.set("train.rate", NUMBERS.recurrent_rate)
    choices.set("train.dropout", NUMBERS.series_dropout)
    choices.set("train.batch_tokens", max(NUMBERS.series_batch, 2 * target["longest"]))
    choices.set("train.max_epochs", NUMBERS.series_epochs, ENOUGH_EPOCHS)
    share_time(choices, given, time)
    choices.set("train.select", "ade" if target["width"] > 1 or target["longest"] > 1 else "mse")


def share_time(choices: Choices, given: Mapping[str, Any], time: TimeBudget | None) -> None:
    """Train a model on each core: a small one gains nothing from a second."""
    if time is None or {"steps", "epochs", "members"} & set(given.get("train", {})):
        return
    cores = min(NUMBERS.most_members, time.cores) if time.parallel else 1
    if time.seconds >= NUMBERS.shortest_ensemble and cores > 1:
        choices.set("train.members", cores, "each core trains a model, and their predictions are averaged")


def _choose_encoding(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    target = survey.columns["target"]
    wanted = given.get("numbers", {}).get("differences", True)
    if wanted and target["continues"] >= NUMBERS.continuing_targets and target["going_on"] > 0:
        why = f"{target['continues']:.0%} of the targets continue from the last value of their source"
        choices.set("numbers.differences", True, f"{why}, so the model predicts differences")
        gain = target["position_gain"]
        matters = gain >= NUMBERS.position_gain
        why = f"the position of a series explains {gain:.0%} of the error that its differences leave"
        if survey.columns.get("source", {}).get("longest") == 1:
            matters, why = True, "a source of one step has no differences"
        choices.set("numbers.values", matters, why if matters else "")
        _choose_momentum(choices, target)
    missing = sum(column.get("missing", 0) for column in survey.columns.values())
    if missing:
        are = "is" if missing == 1 else "are"
        choices.set("numbers.missing", "mask", f"{counted(missing, 'number')} {are} missing: filled in, and marked")


def _choose_momentum(choices: Choices, target: Mapping[str, Any]) -> None:
    """Let the last step of a source go on, where that is nearer than a step of 0."""
    changes, steps = (math.hypot(*target[name]) for name in ("change_scale", "step_scale"))
    if changes < steps:
        why = (
            f"differences deviate from the last difference of their source by only {changes / steps:.0%} of their size"
        )
        choices.set("numbers.momentum", True, why)


def _choose_learning(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    """Choose what a model learns of targets that continue their sources: to be near, all steps from the source."""
    if not choices.layer.get("numbers", {}).get("differences") or "kind" in given.get("objective", {}):
        return
    choices.set("objective.kind", "distance", "the distance between paths is what counts")
    why = "the model predicts all steps from the source alone, so its inputs are the same in training and prediction"
    choices.set("feeding.kind", "none", why)
    _choose_turns(choices, survey)


def _choose_turns(choices: Choices, survey: Survey) -> None:
    """Turn and mirror positions in a plane where neither place nor direction matter."""
    target = survey.columns["target"]
    free = max(target["position_gain"], target["direction_gain"]) < NUMBERS.position_gain
    if target["width"] == 2 and free and survey.kind("context") == "none":
        why = "neither the position of a series nor the direction in which it moves explains the errors"
        choices.set("numbers.rotate", True, why)
        choices.set("numbers.mirror", True, why)


def choose_context(choices: Choices, survey: Survey) -> None:
    """Choose how the context is read, if there is one."""
    if survey.kind("context") == "none":
        return
    choices.set("context.kind", survey.kind("context"))
    share = survey.columns.get("context", {}).get("in_step", 0.0)
    if share == 1:
        choices.set("context.use", "step", "every context is as long as its target")
        return
    others = round((1 - share) * survey.pairs)
    hint = "; to find them, set context.use=step" if others < survey.pairs - others else ""
    why = f"{others:,} of {survey.pairs:,} contexts are not as long as their targets{hint}"
    choices.set("context.use", "attend", why)


def choose_length(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    """Choose how many steps an output has."""
    target = survey.columns["target"]
    shortest, longest = target["shortest"], target["longest"]
    if choices.merged("context", given).get("use") == "step":
        choices.set("numbers.stop", "context", "a target is as long as its context")
    elif target["in_step"] == 1 and shortest < longest:
        choices.set("numbers.stop", "source", "every target is as long as its source")
    elif shortest == longest:
        choices.set("numbers.stop", "fixed", f"every target has {longest} steps")
    else:
        choices.set("numbers.stop", "learned", f"targets have {shortest} to {longest} steps")
