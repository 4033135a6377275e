"""Batches, validation, and the metric that selects the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.choose.choices import Choices
from weft.choose.numbers import NUMBERS
from weft.choose.sides import is_unspaced, long_line_tokens, mean_tokens, parts_of
from weft.choose.throughput import BatchShape
from weft.core.pair import SPECIALS
from weft.data.sides.text import SideSurvey
from weft.data.survey import Survey
from weft.data.text.tokens import MOST_LISTED, SUBWORDS
from weft.spec import SPELLED, Side


def batch_shape(choices: Choices, survey: Survey, kinds: Sequence[str], given: Mapping[str, Any]) -> BatchShape:
    """Return the vocabulary sizes and mean lengths of both sides."""
    both = {"source": survey.source, "target": survey.target}
    sizes = [
        len(SPECIALS) + len(survey.marks) + vocabulary_size(side, kind, choices.merged(name, given))
        for (name, side), kind in zip(both.items(), kinds)
    ]
    if choices.merged("embed", given).get("shared"):
        sizes = [max(sizes)] * 2
    source, target = (1 + round(mean_tokens(side, kind)) for side, kind in zip(both.values(), kinds))
    return BatchShape((sizes[0], sizes[1]), (source, target))


def vocabulary_size(side: SideSurvey, kind: str, settings: Mapping[str, Any]) -> int:
    """Return the size of a vocabulary that is not learned yet."""
    known = {"characters": len(side.characters), "bytes": NUMBERS.byte_values, "words": side.distinct_words}
    known |= {"parts": len(parts_of(side))}
    return min(MOST_LISTED, int(known.get(kind, settings.get("size", Side().size))))


def size_batches(
    choices: Choices, survey: Survey, kinds: Sequence[str], shape: BatchShape, family: str, tokens: float
) -> None:
    """Choose the tokens of a batch: by the family and the tokens of an epoch, or more where lines are long."""
    usual: float = NUMBERS.transformer_batch
    if family != "transformer":
        usual = min(NUMBERS.largest_recurrent_batch, max(NUMBERS.recurrent_batch, tokens // NUMBERS.updates_per_epoch))
    lines = NUMBERS.fewest_lines * max(shape.lengths)
    longest = max(long_line_tokens(side, kind) for side, kind in zip((survey.source, survey.target), kinds))
    marks = min(NUMBERS.most_marks, len(survey.marks))
    fitting = max(lines, NUMBERS.long_line_margin * longest + 2 + marks)
    least = int(min(NUMBERS.largest_batch, fitting))
    why = f"lines are long, and a batch holds at least {NUMBERS.fewest_lines} of them" if least > usual else ""
    choices.set("train.batch_tokens", max(int(usual), least), why)


def limit_validation(choices: Choices, shape: BatchShape, seconds: float) -> None:
    """Validate on so many pairs that decoding them takes a small share of the time, also where targets are long."""
    pairs = NUMBERS.valid_pairs_per_second * seconds * min(1.0, NUMBERS.short_target / shape.lengths[1])
    choices.set("train.valid_pairs", int(min(NUMBERS.most_valid_pairs, max(NUMBERS.fewest_valid_pairs, pairs))))


def select_by(choices: Choices, target: SideSurvey, kind: str) -> None:
    """Choose the metric that selects the checkpoint: one that tells outputs apart."""
    subwords = kind in SUBWORDS
    long_spelled = kind in SPELLED and target.mean > NUMBERS.long_target
    if is_unspaced(target) and (subwords or long_spelled):
        choices.set(
            "train.select", "chrf", "lines are long and without spaces, and chrF counts the characters that are right"
        )
    elif subwords and target.mean_words >= NUMBERS.bleu_words:
        choices.set(
            "train.select", "bleu", "a text has many right outputs, and BLEU counts overlap instead of equality"
        )
    elif subwords or long_spelled:
        choices.set(
            "train.select", "chrf", "outputs are seldom right as a whole, and chrF counts the characters that are right"
        )
    else:
        choices.set(
            "train.select", "exact", "an output is right or wrong as a whole; the loss decides between equal scores"
        )
