"""Settings for tasks that restore a text from its corruption: masked-lm and denoise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.choose.choices import Choices
from weft.choose.families import choose_recurrent, choose_transformer
from weft.choose.numbers import NUMBERS
from weft.choose.sides import has_words, long_line_tokens, mean_tokens
from weft.choose.text import choose_text
from weft.choose.throughput import BatchShape
from weft.choose.timing import TimeBudget
from weft.choose.tokenisation import size_vocabularies, tokenise_each
from weft.choose.training import vocabulary_size
from weft.core.pair import SPECIALS
from weft.data.survey import Survey
from weft.settings import implied_kind, merge
from weft.spec import Corrupt

ONE_MODEL = {"embed.shared": False, "train.members": 1, "data.augmented": 0, "data.unseen": "unknown"}
NOT_CHOSEN = (
    "source.tokens",
    "source.size",
    "embed.shared",
    "data.unseen",
    "data.augmented",
    "train.members",
    "train.reversed_members",
)


def choose_masked(choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None = None) -> None:
    """Choose how text is cut, which encoder reads it, and how long."""
    both = _mirrored(survey)
    kinds = _tokenise(choices, survey, given)
    size_vocabularies(choices, both, kinds, _on_both_sides(given))
    shape = _masked_shape(choices, survey, kinds[1], given)
    longest = NUMBERS.long_line_margin * long_line_tokens(survey.target, kinds[1]) + 2
    choices.set("train.batch_tokens", int(max(NUMBERS.masked_batch, longest)))
    choices.set("objective.smoothing", 0.0)
    choices.set("train.evaluations", NUMBERS.label_evaluations)
    choices.set("train.select", "loss", "unlike accuracy, it also rewards progress on rare tokens")
    for key in NOT_CHOSEN:
        choices.drop(key)
    tokens = survey.pairs * shape.lengths[1]
    estimator = None if time is None else time.estimator(shape, tokens)
    if implied_kind("encoder", given) == "transformer":
        choose_transformer(choices, given, None if time is None else time.speed, estimator, tokens)
    else:
        choose_recurrent(choices, given, estimator, tokens)
    if choices.layer.get("target", {}).get("tokens") == "words":
        _start_latent(choices)


def _tokenise(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> list[str]:
    """Choose how text is cut: into words, as models that predict labels do it, unless there are too many of them."""
    side, own = survey.target, "tokens" not in given.get("target", {})
    if own and has_words(side) and not survey.running and side.distinct_words <= NUMBERS.masked_words:
        few = f"the texts have only {side.distinct_words:,} different words, so whole words are predicted"
        choices.set("target.tokens", "words", few)
        return ["words", "words"]
    return tokenise_each(choices, _mirrored(survey), _on_both_sides(given))


def _start_latent(choices: Choices) -> None:
    """Start from what occurs together in the texts, and keep it: it is what labels gain most from."""
    choices.set("embed.latent", True, "words that occur together in the texts start with similar embeddings")
    choices.replace("embed.width", NUMBERS.latent_width)
    choices.set(
        "train.freeze", ["embed"], "the embeddings account for most of the gain in classification, so they are frozen"
    )
    choices.set("head.tied", False)


def _masked_shape(choices: Choices, survey: Survey, kind: str, given: Mapping[str, Any]) -> BatchShape:
    """Return the size of the vocabulary, and how many tokens are read and predicted."""
    symbols = len(SPECIALS) + 1 + vocabulary_size(survey.target, kind, choices.merged("target", given))
    length = 1 + round(mean_tokens(survey.target, kind))
    share = float(given.get("corrupt", {}).get("share", Corrupt().share))
    return BatchShape((symbols, symbols), (length, max(1, round(share * length))), hidden=True)


def choose_denoising(
    choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None = None
) -> None:
    """Choose what would be chosen to write the text from a source of its own kind."""
    if not has_words(survey.target):
        choices.set("corrupt.shuffled", NUMBERS.shuffled_symbols, "lines have no words, and symbols keep near places")
    choose_text(choices, _mirrored(survey), merge(_on_both_sides(given), ONE_MODEL), time)
    for key in NOT_CHOSEN:
        choices.drop(key)


def _mirrored(survey: Survey) -> Survey:
    """Return the survey with the target also as the source."""
    return replace(survey, source=survey.target, kinds={**survey.kinds, "source": "text"})


def _on_both_sides(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given settings, with those of the target for the source."""
    target = {key: value for key, value in given.get("target", {}).items() if key in ("tokens", "size")}
    return {**given, "source": {**given.get("source", {}), **target}}


def propose_pretraining(choices: Choices, survey: Survey, given: Mapping[str, Any], time: TimeBudget | None) -> None:
    """Add a note where labels or pairs are few, and the time allows to learn from text without them first."""
    few = survey.pairs <= NUMBERS.few_rows and survey.kind("source") == "text"
    task = PRETRAINED_BY.get((str(given.get("task", "transduce")), survey.kind("target")))
    if task is None or not few or time is None or time.seconds < NUMBERS.shortest_pretraining:
        return
    what = "pairs" if task == "denoise" else "labels"
    choices.notes.append(
        f"few {what} ({survey.pairs:,}): if you have more text of this kind, pretrain on it first: "
        f"weft train TEXT --task {task} --out PRETRAINED; then add --init PRETRAINED here"
    )


PRETRAINED_BY = {  # by task and kind of target
    ("transduce", "text"): "denoise",
    ("classify", "label"): "masked-lm",
    ("classify-tokens", "labels"): "masked-lm",
}
