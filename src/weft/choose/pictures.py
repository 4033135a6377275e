"""Settings for pictures: text that stands in them, sentences about them, labels of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from weft.choose.choices import ENOUGH_EPOCHS, Choices, writes_by_decoder
from weft.choose.labels import choose_labels
from weft.choose.numbers import NUMBERS
from weft.choose.sides import has_words, is_unspaced, long_line_tokens
from weft.choose.timing import TimeBudget
from weft.core.errors import UserError
from weft.data.survey import Survey


def choose_pictures(choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None = None) -> None:
    """Choose what is read of pictures, by which model, and how it is trained."""
    pictures, target = survey.columns["source"], survey.kind("target")
    choices.set("source.kind", "image", f"the source column names pictures, {pictures['pictures']:,} of them")
    layout = _choose_layout(choices, survey, given)
    if target == "label":
        choose_labels(choices, survey, given, time)
    elif target == "text":
        _choose_text(choices, survey, given, layout)
    else:
        what = f"pictures have {target} as targets, which cannot be learned from pictures yet"
        raise UserError(what, "--target", "choose a column of text, or of labels with --task classify")
    _choose_model(choices, survey, layout)
    _choose_context(choices, survey, given)
    _choose_batches(choices, survey, given)
    _choose_augmentation(choices, survey)


def _choose_layout(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> str:
    """Choose whether a picture is a line of text, and the size that pictures are brought to."""
    pictures = survey.columns["source"]
    ratio, height = pictures["ratio"], pictures["heights"][1]
    wide = ratio >= NUMBERS.line_ratio and survey.kind("target") == "text"
    dense = survey.target.mean <= NUMBERS.line_characters * pictures["mean_ratio"]
    if wide and dense:
        choices.set(
            "image.layout", "columns", "wide pictures with short texts are lines, which are read from left to right"
        )
    layout = str(choices.merged("image", given).get("layout", "grid"))
    if layout == "columns":
        chosen = max(NUMBERS.smallest_picture, min(height, NUMBERS.line_height))
    else:
        chosen = max(NUMBERS.smallest_picture, min(height, round(math.sqrt(NUMBERS.picture_pixels / ratio))))
    choices.set("image.height", chosen, _resized(pictures, chosen, layout))
    return layout


def _resized(pictures: Mapping[str, Any], height: int, layout: str) -> str:
    """Return what is done to bring pictures to one height, or to one size."""
    median, same = pictures["heights"][1], pictures["heights"][0] == pictures["heights"][2] == height
    scaled = "as they are" if same else f"scaled from {median} pixels (median) to {height}"
    if layout == "columns":
        return f"lines are read {scaled}, in their own widths"
    width = max(1, round(height * pictures["ratio"]))
    rest = "" if pictures["sizes"] == 1 else "; the rest of pictures of another ratio is padded"
    return f"pictures are read as {width} × {height} pixels, {scaled}{rest}"


def _choose_text(choices: Choices, survey: Survey, given: Mapping[str, Any], layout: str) -> None:
    """Choose tokens, the head, and what selects the checkpoint."""
    sentences = has_words(survey.target) and not is_unspaced(survey.target)
    if layout == "columns":
        choices.set("target.tokens", "characters", "letters stand one after the other")
    elif sentences:
        choices.set("target.tokens", "words", "targets are sentences")
    tokens = str(choices.merged("target", given).get("tokens", "characters"))
    if layout == "columns" and not writes_by_decoder(given):
        choices.set("head.kind", "ctc", "the picture and the text have the same order")
    if sentences and layout == "grid":
        choices.set("train.select", "bleu", "a picture has many right descriptions, and BLEU counts overlap")
    elif survey.target.mean > NUMBERS.long_target:
        choices.set("train.select", "cer", "outputs can be partly right")
    else:
        choices.set("train.select", "exact", "an output is right or wrong as a whole")
    longest = long_line_tokens(survey.target, tokens)
    choices.set("search.max_ratio", NUMBERS.picture_ratio)
    choices.set("search.max_extra", round(NUMBERS.output_margin * longest) + NUMBERS.extra_tokens)


def _choose_model(choices: Choices, survey: Survey, layout: str) -> None:
    if layout == "columns":
        choices.set("encoder.kind", "recurrent")
    else:
        choices.set("encoder.kind", "none", "the cells of the grid are attended to as they are")
    for key in ("encoder.width", "embed.width"):
        choices.set(key, NUMBERS.picture_width)
    if survey.kind("target") == "text" and layout == "grid":
        choices.set("decoder.width", NUMBERS.picture_width)
    choices.replace("train.dropout", NUMBERS.picture_dropout)
    choices.set("train.rate", NUMBERS.picture_rate)
    choices.set("train.max_epochs", NUMBERS.max_epochs, ENOUGH_EPOCHS)


def _choose_context(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    """Choose how a sentence beside a picture is read: for labels, cells and words attend to each other."""
    if survey.kind("context") != "text":
        return
    choices.set("context.kind", "text")
    choices.set("context.tokens", "words" if has_words(survey.context) else "characters")
    if survey.kind("target") != "label" or "use" in given.get("context", {}) or "kind" in given.get("encoder", {}):
        return
    choices.set("context.use", "joint", "cells of the picture and words of the sentence attend to each other")
    choices.replace("encoder.kind", "transformer")
    choices.set("encoder.layers", NUMBERS.judged_layers)
    choices.set("encoder.inner", 2 * NUMBERS.picture_width)
    choices.set("embed.positions", "sinusoid")
    choices.replace("train.rate", NUMBERS.judged_rate)
    choices.replace("pool.kind", "query", "a few cells decide, and the model attends to these")


def _choose_batches(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    pictures, image = survey.columns["source"], choices.merged("image", given)
    height = int(image["height"])
    mean, widest = height * pictures["mean_ratio"], height * pictures["widest_ratio"]
    if image.get("layout", "grid") == "grid":
        mean = widest = int(image.get("width", 0)) or height * pictures["ratio"]
    batch = int(max(NUMBERS.pictures_together * mean, NUMBERS.long_line_margin * widest)) + 1
    choices.set("train.batch_tokens", batch, f"about {max(1, round(batch / mean))} pictures in a batch")


def _choose_augmentation(choices: Choices, survey: Survey) -> None:
    count = survey.columns["source"]["pictures"]
    if count > NUMBERS.enough_pictures:
        return
    why = f"there are only {count:,} pictures, so they are varied a little at random in each epoch"
    choices.set("image.shift", NUMBERS.picture_shift, why)
    choices.set("image.scale", NUMBERS.picture_scale)
    choices.set("image.rotate", NUMBERS.picture_rotate)
    choices.set("image.brightness", NUMBERS.picture_brightness)
