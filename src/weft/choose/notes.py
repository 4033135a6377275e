"""Settings for notes: tunes that are predicted step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.choose.choices import ENOUGH_EPOCHS, Choices
from weft.choose.numbers import NUMBERS
from weft.choose.series import choose_context, choose_length, share_time
from weft.choose.timing import TimeBudget
from weft.data.survey import Survey


def choose_notes(choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None = None) -> None:
    """Choose by which model tunes are predicted, and how it is trained."""
    target = survey.columns["target"]
    choices.set("target.kind", "notes", "the target column holds lists of notes")
    if survey.kind("source") in ("numbers", "notes"):
        kind = survey.kind("source")
        choices.set("source.kind", kind, f"the source column holds lists of {kind}")
    choose_context(choices, survey)
    choose_length(choices, survey, given)
    choices.set("encoder.kind", "recurrent")
    choices.set("decoder.kind", "recurrent")
    for part in ("encoder", "decoder", "embed"):
        choices.set(f"{part}.width", NUMBERS.note_width)
    choices.set("train.rate", NUMBERS.recurrent_rate)
    choices.set("train.dropout", NUMBERS.note_dropout)
    choices.set("train.batch_tokens", max(NUMBERS.note_batch, 2 * target["longest"]))
    choices.set("train.max_epochs", NUMBERS.note_epochs, ENOUGH_EPOCHS)
    choices.set("train.select", "nll", "unlike note_f1, it can distinguish models that write the same notes")
    share_time(choices, given, time)
