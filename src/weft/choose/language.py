"""Settings for language models, which have one column and learn to continue it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from weft.choose import size
from weft.choose.choices import ENOUGH_EPOCHS, Choices
from weft.choose.numbers import NUMBERS
from weft.choose.sides import long_line_tokens, mean_tokens
from weft.choose.throughput import BatchShape
from weft.choose.timing import EpochEstimator, TimeBudget
from weft.choose.training import vocabulary_size
from weft.core.pair import SPECIALS
from weft.core.shapes import Notes, Vectors
from weft.data.sides.notes import learned as learned_notes
from weft.data.survey import Survey
from weft.settings import Layer, flatten, implied_kind, merge
from weft.spec import Train

WIDTHS = {"recurrent": NUMBERS.language_widths, "transformer": NUMBERS.transformer_widths}
USUAL = {"recurrent": NUMBERS.recurrent_width, "transformer": NUMBERS.transformer_width}
FEW_SYMBOLS = ("characters", "parts", "bytes")  # tokens that a narrow embedding tells apart


def choose_language_model(
    choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None = None
) -> None:
    """Choose what is continued, by which model, and how it is trained."""
    family = implied_kind("decoder", given) or "recurrent"
    if survey.running and family == "recurrent":
        choices.set("train.window", NUMBERS.language_window)
    shape, longest = BY_TARGET[survey.kind("target")](choices, survey, given)
    why = "" if implied_kind("decoder", given) else "an LSTM learns most from little text in little time"
    choices.set("decoder.kind", family, why)
    choices.set("objective.smoothing", 0.0)
    choices.set("train.batch_tokens", int(max(NUMBERS.language_batch, longest + 1)))
    if family == "recurrent":
        choices.set("decoder.attention.score", "none")
    else:
        choices.set("embed.positions", "rotary")
    if survey.kind("target") == "text":
        size.choose_precision(choices, given, time.speed if time else None)
    _choose_width(choices, survey, given, time, shape, family)
    choices.set("search.kind", "sample", "the most probable continuation soon repeats itself")


def _choose_width(
    choices: Choices,
    survey: Survey,
    given: Mapping[str, Any],
    time: TimeBudget | None,
    shape: BatchShape,
    family: str,
) -> None:
    """Choose the widest model that sees enough tokens for its weights in the time, and suits the data's size."""
    tokens = _tokens(choices, survey, given, shape)
    narrow = _embedding(choices, survey, given, family)
    sizes = size.with_given_width(_family(family), given)
    width, epochs = min(sizes.usual, _widest(sizes, tokens)), None
    if time is not None:
        estimator = time.estimator(shape, tokens)

        def counted(width: int) -> tuple[float, float] | None:
            layer = merge(choices.layer, _widths(family, width, narrow))
            epochs = estimator.epochs(layer, given, 1)
            return None if epochs is None else (epochs, estimator.weights(layer, given))

        width, epochs = _fit_width(sizes, tokens, counted)
    for key, value in flatten(_widths(family, width, narrow)):
        choices.set(key, value)
    choices.set("train.rate", _rate(family, width))
    if epochs is not None:
        choices.reasons.append(["decoder.width", str(width), f"at this width, there is time for {size.about(epochs)}"])
        size.note_short_budget(choices, epochs)
    choices.set("train.dropout", _dropout(epochs))
    choices.set("train.max_epochs", NUMBERS.language_epochs, ENOUGH_EPOCHS)
    if time is not None and not {"steps", "epochs", "members", "max_epochs"} & set(given.get("train", {})):
        _share_time(choices, given, time.estimator(shape, tokens))


def _share_time(choices: Choices, given: Mapping[str, Any], estimator: EpochEstimator) -> None:
    """Train several models where one would overfit before the time is over."""
    if estimator.seconds < NUMBERS.shortest_ensemble:
        return
    cores = estimator.cores if estimator.parallel else 1
    each = partial(estimator.epochs, choices.layer, given)
    members, why = size.members_with_time(NUMBERS.language_epochs, cores, each)
    if members > 1:
        choices.set("train.members", members, why)


def _family(name: str) -> size.Family:
    return size.Family(WIDTHS[name], USUAL[name], NUMBERS.language_width_per_root, math.inf, math.inf, math.inf)


def _widest(sizes: size.Family, tokens: float) -> int:
    """Return the widest model that data of so many tokens can use."""
    return max(sizes.widths[0], *(w for w in sizes.widths if w <= sizes.width_per_root * math.sqrt(tokens)), 0)


def _fit_width(
    sizes: size.Family, tokens: float, counted: Callable[[int], tuple[float, float] | None]
) -> tuple[int, float | None]:
    """Return the widest model that is trained with enough tokens for its weights, and its epochs.

    `counted` returns the epochs and the weights of a width, or None where the settings clash.
    """
    best: tuple[int, float | None] = sizes.widths[0], None
    for width in (w for w in sizes.widths if w <= _widest(sizes, tokens)):
        counts = counted(width)
        if counts is None:
            continue
        epochs, weights = counts
        if best[1] is not None and epochs * tokens < NUMBERS.language_tokens_per_weight * weights:
            break
        best = width, epochs
    return best


def _dropout(epochs: float | None) -> float:
    """Return more dropout, the more often the data are seen."""
    if epochs is None or NUMBERS.few_epochs <= epochs < NUMBERS.many_epochs:
        return NUMBERS.dropout
    return NUMBERS.low_dropout if epochs < NUMBERS.few_epochs else NUMBERS.high_dropout


def _rate(family: str, width: int) -> float:
    """Return the learning rate, which falls with the root of a recurrent model's width."""
    if family == "transformer":
        return NUMBERS.transformer_rate
    return round(NUMBERS.language_rate * math.sqrt(NUMBERS.recurrent_width / width), 4)


def _tokens(choices: Choices, survey: Survey, given: Mapping[str, Any], shape: BatchShape) -> float:
    """Return how many tokens the data have."""
    if not survey.running:
        return survey.pairs * shape.lengths[1]
    return survey.pairs * mean_tokens(survey.target, str(choices.merged("target", given)["tokens"]))


def _embedding(choices: Choices, survey: Survey, given: Mapping[str, Any], family: str) -> bool:
    """Return whether symbols are so few that their embeddings can be narrower than the model."""
    few = survey.kind("target") != "text" or choices.merged("target", given)["tokens"] in FEW_SYMBOLS
    return family == "recurrent" and few


def _widths(family: str, width: int, narrow: bool) -> Layer:
    more = {"layers": NUMBERS.layers, "heads": NUMBERS.heads, "inner": NUMBERS.inner_widths * width}
    return {
        "decoder": {"width": width, **(more if family == "transformer" else {})},
        "embed": {"width": min(width, NUMBERS.language_embedding) if narrow else width},
    }


def _choose_text(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> tuple[BatchShape, float]:
    """Choose tokens; return the shape of batches, and the length of long lines."""
    side = survey.target
    choices.set(
        "target.tokens", "characters", "any text can then be continued, and a small vocabulary is learned quickly"
    )
    choices.set("train.select", "bits_per_character")
    settings = choices.merged("target", given)
    kind = str(settings["tokens"])
    symbols = len(SPECIALS) + vocabulary_size(side, kind, settings)
    if survey.running:
        choices.set("train.valid_pairs", NUMBERS.language_valid_pieces)
        window = int(choices.merged("train", given).get("window", Train().window))
        return BatchShape((0, symbols), (0, window), alone=True), NUMBERS.language_rows * window
    shape = BatchShape((0, symbols), (0, 1 + round(mean_tokens(side, kind))), alone=True)
    return shape, NUMBERS.long_line_margin * long_line_tokens(side, kind)


def _choose_notes(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> tuple[BatchShape, float]:
    column = survey.columns["target"]
    choices.set("target.kind", "notes", "the column holds lists of notes")
    choices.set("train.select", "nll")
    return _series_shape(column, learned_notes(column).shape), column["longest"]


def _choose_numbers(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> tuple[BatchShape, float]:
    column = survey.columns["target"]
    choices.set("target.kind", "numbers", "the column holds numbers, in lists or in files that it names")
    choices.set("objective.kind", "mixture", "what comes next has a probability")
    choices.set("train.select", "nll")
    return _series_shape(column, Vectors(column["width"])), column["longest"]


def _series_shape(column: Mapping[str, Any], steps: Notes | Vectors) -> BatchShape:
    return BatchShape((0, steps.width), (0, max(1, round(column["mean_length"]))), alone=True, series=steps)


BY_TARGET: dict[str, Callable[[Choices, Survey, Mapping[str, Any]], tuple[BatchShape, float]]] = {
    "text": _choose_text,
    "notes": _choose_notes,
    "numbers": _choose_numbers,
}
