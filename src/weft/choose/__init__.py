"""The autopilot: statistics of the data, the time and the machine → settings, each with its reason.

Every value follows from a statistic of the data or from the budget, by rules whose numbers stand in one table
(numbers.py). Settings that the user gave are left alone, and the rest is chosen to go with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from weft.choose.answers import choose_answers
from weft.choose.choices import Choices
from weft.choose.labels import choose_labels
from weft.choose.language import choose_language_model
from weft.choose.notes import choose_notes
from weft.choose.numbers import NUMBERS
from weft.choose.pictures import choose_pictures
from weft.choose.pretraining import choose_denoising, choose_masked, propose_pretraining
from weft.choose.retrieval import choose_retrieval
from weft.choose.series import choose_series
from weft.choose.sound import choose_sound
from weft.choose.text import choose_text
from weft.choose.throughput import Throughput
from weft.choose.timing import TimeBudget
from weft.core.errors import UserError
from weft.core.machine import Speed
from weft.data.sides.table import READ_ONLY
from weft.data.survey import Survey
from weft.settings import Layer, flatten, merge

__all__ = ["DEFAULT_BUDGET_SECONDS", "Choices", "choose"]

DEFAULT_BUDGET_SECONDS = NUMBERS.default_budget


class Chooser(Protocol):
    def __call__(
        self, choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None = None, /
    ) -> None:
        """Choose every setting that matters; without `time` none depends on the machine."""
        ...


BY_TASK: dict[str, Chooser] = {
    "language-model": choose_language_model,
    "masked-lm": choose_masked,
    "denoise": choose_denoising,
}  # for tasks that are not learned like others of their target
BY_SOURCE: dict[str, Chooser] = {  # for sources that decide more than their targets
    "audio": choose_sound,
    "image": choose_pictures,
}
BY_TARGET: dict[str, Chooser] = {
    "text": choose_text,
    "numbers": choose_series,
    "notes": choose_notes,
    "label": choose_labels,
    "labels": choose_labels,
    "span": choose_answers,
    "document": choose_retrieval,
}


def choose(
    survey: Survey,
    given: Mapping[str, Any],
    speed: Speed | None = None,
    throughput: Throughput | None = None,
    pretrained: bool = False,
) -> Choices:
    """Choose every setting that matters, to go with those `given`; without `speed` none depends on the machine.

    `throughput` says how fast a model trains; without it, that is estimated from the speed. `pretrained`: the run
    starts from the weights of another.
    """
    _check_written(survey)
    choices, given = Choices(), _without_nulls(given)
    seconds = _budget(choices, given)
    time = None if speed is None else TimeBudget(seconds, speed, throughput, given)
    by_source = BY_SOURCE.get(survey.kind("source"))
    chooser = BY_TASK.get(str(given.get("task"))) or by_source or BY_TARGET[survey.kind("target")]
    chooser(choices, survey, given, time)
    if not pretrained:
        propose_pretraining(choices, survey, given, time)
    _drop_given_reasons(choices, given)
    return choices


def _check_written(survey: Survey) -> None:
    """Refuse a target that can be read, but not predicted."""
    kind = survey.kind("target")
    if kind in READ_ONLY:
        what = f"the target column names {READ_ONLY[kind]}, which Weft reads but does not predict"
        todo = "if the columns are the other way round, choose them with --source and --target"
        raise UserError(what, "the target column", todo)


def _without_nulls(given: Mapping[str, Any]) -> Layer:
    """Return the given settings without those that are null, which leave the choice open."""
    return merge({key: value for key, value in flatten(given) if value is not None})


def _budget(choices: Choices, given: Mapping[str, Any]) -> float:
    """Return the budget in seconds, which is a default where none is given."""
    train = given.get("train", {})
    if not {"budget_seconds", "steps", "epochs"} & set(train):
        choices.set("train.budget_seconds", DEFAULT_BUDGET_SECONDS, "no --budget, --steps or --epochs was given")
    return float(train.get("budget_seconds", DEFAULT_BUDGET_SECONDS))


def _drop_given_reasons(choices: Choices, given: Mapping[str, Any]) -> None:
    """Drop the reasons of settings that the user gave."""
    keys = {key for key, _ in flatten(given)}
    choices.reasons = [reason for reason in choices.reasons if reason[0] not in keys]
