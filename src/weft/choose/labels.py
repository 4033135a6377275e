"""Settings for labels: one for a sequence, or one for each of its words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from weft.choose import size
from weft.choose.choices import ENOUGH_EPOCHS, Choices
from weft.choose.numbers import NUMBERS
from weft.choose.sides import has_words, mean_sentences, mean_tokens
from weft.choose.size import Family
from weft.choose.throughput import BatchShape
from weft.choose.timing import EpochEstimator, TimeBudget
from weft.choose.training import batch_shape, size_batches
from weft.core.errors import UserError
from weft.core.pair import SPECIALS
from weft.data.survey import Survey

LABELS = Family(
    widths=(NUMBERS.label_width,),
    usual=NUMBERS.label_width,
    width_per_root=math.inf,
    enough=NUMBERS.label_epochs,
    epochs=math.inf,
    tokens=math.inf,
)


def choose_labels(choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None = None) -> None:
    """Choose what is read, by which model, and how long."""
    _check_labels(survey, str(given.get("task", "classify")))
    _note_rare_labels(choices, survey.columns["target"]["labels"])
    labels, per_word = survey.columns["target"]["labels"], survey.kind("target") == "labels"
    if (kind := survey.kind("source")) in ("numbers", "notes"):
        choices.set("source.kind", kind, f"the source column holds lists of {kind}")
    choices.set("encoder.kind", "recurrent")
    for key in ("encoder.width", "embed.width"):
        choices.set(key, NUMBERS.label_width)
    choices.set(
        "train.dropout",
        NUMBERS.label_dropout,
        "labels carry little information, and without much dropout, a model overfits",
    )
    choices.set("train.batch_tokens", NUMBERS.recurrent_batch)
    choices.set("train.rate", NUMBERS.recurrent_rate)
    choices.set("train.evaluations", NUMBERS.label_evaluations)
    most = NUMBERS.tag_epochs if per_word else NUMBERS.label_epochs
    choices.set("train.max_epochs", most, ENOUGH_EPOCHS)
    choices.set("train.select", "accuracy")
    if not per_word:
        choices.set("pool.kind", "mean", "every part of the source counts, so the mean of all states is used")
        _weigh_labels(choices, labels)
    if survey.kind("source") == "text":
        _read_text(choices, survey, given, time)
    if survey.kind("context") == survey.kind("source") == "text" and not per_word:
        _read_question(choices, survey, given)


def _read_question(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    """Choose how a text and a question about it are read: the label depends on where they meet."""
    choices.replace(
        "source.tokens", "bpe", "words and punctuation are kept apart, so that source and context can be compared"
    )
    choices.set("source.size", NUMBERS.answer_subwords)
    choices.set("context.kind", "text")
    choices.set("context.shared", True)
    choices.replace("train.dropout", NUMBERS.question_dropout, "the label depends on details of source and context")
    choices.replace("train.max_epochs", NUMBERS.question_epochs, ENOUGH_EPOCHS)
    number = mean_sentences(survey.source)
    if given.get("context", {}).get("use", "hops" if number >= NUMBERS.hop_sentences else "") == "hops":
        _read_sentences(choices, survey, number)
        return
    choices.set("context.use", "joint", "read from its end, the source is read by a model that knows the context")
    choices.replace("pool.kind", "query", "a few states have the answer, and the model attends to these")
    batch = int(choices.layer["train"]["batch_tokens"])
    choices.replace("train.batch_tokens", max(batch, NUMBERS.transformer_batch))


def _read_sentences(choices: Choices, survey: Survey, number: float) -> None:
    """Let the question ask the sentences of the source one after the other: they need no recurrence."""
    why = f"sources have {number:.0f} sentences, and the context attends to them {NUMBERS.hops} times"
    choices.set("context.use", "hops", why)
    choices.set("context.hops", NUMBERS.hops)
    choices.replace("encoder.kind", "none", "sentences are sums of their words, each by its place")
    choices.drop("train.members")
    rows = NUMBERS.hop_rows * (1 + mean_tokens(survey.source, "bpe"))
    choices.replace("train.batch_tokens", int(min(NUMBERS.largest_batch, max(NUMBERS.recurrent_batch, rows))))


def _weigh_labels(choices: Choices, labels: Mapping[str, int]) -> None:
    """Let rare labels count more where nearly all rows have the same one."""
    most, rows = max(labels.values()), sum(labels.values())
    if most >= NUMBERS.skewed_labels * rows:
        why = f"{most / rows:.0%} of the rows have the same label, so the rare labels count more"
        choices.set("objective.class_power", NUMBERS.class_power, why)
        choices.set("train.select", "macro_f1", "one label for all rows would have a high accuracy")


def _read_text(choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None) -> None:
    """Choose tokens, the size of batches, how many epochs there are, and how many models share the time."""
    per_word = survey.kind("target") == "labels"
    words = per_word or has_words(survey.source)
    why = "a label for each word" if per_word else "the source has words"
    choices.set("source.tokens", "words" if words else "characters", why if words else "")
    kind = str(given.get("source", {}).get("tokens") or choices.layer["source"]["tokens"])
    shape = _shape(choices, survey, kind, given)
    size_batches(choices, survey, [kind, "words"], shape, "recurrent", 0)
    tokens = survey.pairs * shape.lengths[0]
    if not per_word:
        batch = int(choices.merged("train", given)["batch_tokens"])
        epochs = min(NUMBERS.max_epochs, max(NUMBERS.label_epochs, round(NUMBERS.label_updates * batch / tokens)))
        choices.replace(
            "train.max_epochs", float(epochs), f"about {NUMBERS.label_updates:,} updates are enough for labels"
        )
    if time is not None and not {"steps", "epochs", "members"} & set(given.get("train", {})):
        _share_time(choices, given, time.estimator(shape, survey.pairs * shape.lengths[1]))


def _shape(choices: Choices, survey: Survey, kind: str, given: Mapping[str, Any]) -> BatchShape:
    """Return the vocabulary of the source and the labels, and their mean lengths."""
    per_word = survey.kind("target") == "labels"
    texts = batch_shape(choices, survey, [kind, "words"], given)
    labels = len(SPECIALS) + len(survey.columns["target"]["labels"])
    lengths = texts.lengths[0], texts.lengths[0] - 1 if per_word else 1
    return BatchShape((texts.vocabulary[0], labels), lengths, ended=False, in_step=per_word)


def _share_time(choices: Choices, given: Mapping[str, Any], estimator: EpochEstimator) -> None:
    """Train several models where there is time for all epochs of each."""
    epochs = float(choices.merged("train", given)["max_epochs"])
    each = partial(estimator.epochs, choices.layer, given)
    alone = each(1)
    if alone is not None:
        size.note_short_budget(choices, alone)
    if estimator.seconds >= NUMBERS.shortest_ensemble and epochs > 0:
        cores = estimator.cores if estimator.parallel else 1
        size.choose_members(choices, replace(LABELS, enough=epochs), cores, each)


def _check_labels(survey: Survey, task: str) -> None:
    """Refuse targets that are no labels: nearly as many different ones as rows."""
    labels = survey.columns["target"]["labels"]
    if len(labels) > NUMBERS.fewest_labels_checked and len(labels) > NUMBERS.labels_per_row * survey.pairs:
        first = next(iter(labels))
        raise UserError(
            f"the target column has {len(labels):,} different values in {survey.pairs:,} rows, such as {first!r}: "
            "that is running text rather than labels",
            f"--task {task}",
            "use --task transduce to learn text, or choose the column of labels with --target",
        )
    if len(labels) < 2:
        only = next(iter(labels))
        raise UserError(
            f"every row has the label {only!r}",
            f"--task {task}",
            "give rows with at least two different labels between them",
        )


def _note_rare_labels(choices: Choices, labels: Mapping[str, int]) -> None:
    """Note labels that occur only once: they can hardly be learned."""
    once = [label for label, count in labels.items() if count == 1]
    if once:
        shown = ", ".join(once[: NUMBERS.shown_labels]) + (" …" if len(once) > NUMBERS.shown_labels else "")
        choices.notes.append(f"labels that occur only once, and can hardly be learned: {len(once):,} ({shown})")
