"""Settings for answers that are selected from documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.choose.choices import ENOUGH_EPOCHS, Choices
from weft.choose.numbers import NUMBERS
from weft.choose.sides import mean_sentences, mean_tokens
from weft.choose.timing import TimeBudget
from weft.core.counts import counted
from weft.core.errors import UserError
from weft.data.survey import Survey


def choose_answers(choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None = None) -> None:
    """Choose how document and question are read, by which model, and how long."""
    found = survey.columns["target"]
    sentences = given.get("answer", {}).get("unit") == "sentence"
    if not sentences and _are_summaries(survey):
        why = "hardly a target occurs in its source, so the sentence that shares most words with it is selected"
        choices.set("answer.unit", "sentence", why)
        sentences = "unit" not in given.get("answer", {})
    if not sentences:
        _check_answers(choices, found)
    why = "rare words are read in parts, and punctuation is separate, so that an answer can end before it"
    choices.set("source.tokens", "bpe", why)
    words = survey.pairs * (survey.source.mean_words + survey.context.mean_words)
    choices.set("source.size", int(min(NUMBERS.answer_subwords, max(NUMBERS.fewest_subwords, words))))
    for key in ("encoder.width", "embed.width"):
        choices.set(key, NUMBERS.answer_width)
    choices.set("train.dropout", NUMBERS.answer_dropout)
    choices.set("train.rate", NUMBERS.recurrent_rate)
    choices.set("train.max_epochs", NUMBERS.answer_epochs, ENOUGH_EPOCHS)
    choices.set("train.evaluations", NUMBERS.label_evaluations)
    choices.set("train.select", "f1", "an answer may be partly right, and F1 counts its words")
    asked = survey.kind("context") != "none"
    if asked:
        choices.set("context.use", "flow", "attention both ways between document and question")
    if sentences and not asked:
        _read_sentences(choices)
    else:
        choices.set("encoder.kind", "recurrent")
    if asked and given.get("context", {}).get("use", "flow") == "flow" and given.get("context", {}).get("shared", True):
        choices.set("context.lexical", True, "answers are near words of the question")
    _size(choices, survey, found, sentences)


def _are_summaries(survey: Survey) -> bool:
    """Return whether targets are sentences of their own about sources of several sentences."""
    found = survey.columns["target"]
    absent = found["missing"] >= NUMBERS.absent_answers * max(1, found["rows"])
    several = mean_sentences(survey.source) >= NUMBERS.hop_sentences
    return absent and several and found["mean words"] >= NUMBERS.summary_words


def _read_sentences(choices: Choices) -> None:
    """Choose how sentences are compared with each other: by their words, and by where they stand."""
    choices.set("encoder.kind", "none", "words show which sentence is central; little data cannot teach their order")
    choices.replace("train.dropout", NUMBERS.sentence_dropout)
    choices.replace("train.max_epochs", NUMBERS.sentence_epochs, ENOUGH_EPOCHS)
    choices.replace("train.select", "rouge1", "a summary shares words with its reference")


def _size(choices: Choices, survey: Survey, found: Mapping[str, Any], sentences: bool) -> None:
    """Choose the longest answer and the size of batches, by the lengths of answers and documents."""
    per_word = mean_tokens(survey.source, "bpe") / max(1.0, survey.source.mean_words)
    words = NUMBERS.longest_sentence if sentences else max(1, found["long words"])
    most = f"at most {counted(words, 'word')}"
    why = f"enough for sentences of {most}" if sentences else f"99 of 100 answers have {most}"
    choices.set("answer.longest", int(per_word * words) + 2, why)
    document = int(mean_tokens(survey.source, "bpe")) + 1
    rows = NUMBERS.answer_rows * max(document, 1)
    choices.set("train.batch_tokens", int(min(NUMBERS.largest_batch, max(NUMBERS.transformer_batch, rows))))


def _check_answers(choices: Choices, found: Mapping[str, Any]) -> None:
    """Note answers that do not stand in their documents, which cannot be learned from; refuse data without others."""
    if not found["missing"]:
        return
    shown = "; ".join(found["shown"])
    if found["missing"] + found["none"] >= found["rows"]:
        raise UserError(
            f"no answer occurs in its document: {shown}",
            "--task answer",
            "check --source, --context and --target; to write answers, use --task transduce; to select sentences, "
            "--set answer.unit=sentence",
        )
    choices.notes.append(
        f"answers left out because they do not occur in their document: {found['missing']:,} of {found['rows']:,} "
        f"({shown})"
    )
