"""Which pairs are added and how often they count, how many symbols go together, and how long an output may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.choose.choices import Choices
from weft.choose.cutting import COPIED, length, long, parts_of
from weft.choose.pace import Typical
from weft.core.pair import SPECIALS
from weft.data.survey import FEWEST_PAIRS, Survey
from weft.data.text.tokens import MOST_LISTED
from weft.spec import SPELLED, Side

MOST_MARKS = 32  # of a line
FEWEST_LINES = 8  # in a batch, of typical length
LARGEST_BATCH = 8192  # symbols, that long lines ask for
LONGEST_WORD = 60  # characters, on average: made-up pairs are words, and long texts would take long to compare
FEW = 5000  # pairs that show it; fewer are filled up with pairs that are made up
AGAIN = 0.3  # of the rows, repeated: above this frequent sources would take most of the time
SHORT_TARGET = 20  # symbols, that take no time to write
KEPT = 0.35  # of rare characters, in the target: above this it is told where a character never seen goes
MANY = 100_000  # pairs, after which one that was never seen will hardly come
EVEN = 0.5  # the power of their frequency that such sources are learned from by


def batch(choices: Choices, survey: Survey, sides: Sequence[str], typical: Typical, symbols: float) -> None:
    """So many symbols, or more where that would be too few lines or leave long ones out."""
    lines = FEWEST_LINES * max(typical.lengths)
    longest = max(long(found, kind) for found, kind in zip((survey.source, survey.target), sides))
    least = int(min(LARGEST_BATCH, max(lines, 1.2 * longest + 2 + min(MOST_MARKS, len(survey.marks)))))
    why = f"lines are long: at least {FEWEST_LINES} of them, and nearly all fit" if least > symbols else ""
    choices.set("train.batch_tokens", max(int(symbols), least), why)


def typical(choices: Choices, survey: Survey, sides: list[str], given: Mapping[str, Any]) -> Typical:
    """How many symbols each side will have, and how many of them a line."""
    both = {"source": survey.source, "target": survey.target}
    lengths = [length(found, kind) for found, kind in zip(both.values(), sides)]
    counts = []
    for (name, found), kind in zip(both.items(), sides):
        pieces = {**choices.layer.get(name, {}), **given.get(name, {})}.get("size", Side().size)
        known = {"characters": len(found.characters), "bytes": 256, "words": found.distinct_words}
        known |= {"parts": len(parts_of(found))}
        counts.append(len(SPECIALS) + len(survey.marks) + min(MOST_LISTED, int(known.get(kind, pieces))))
    if {**choices.layer.get("embed", {}), **given.get("embed", {})}.get("shared"):
        counts = [max(counts)] * 2
    return Typical((counts[0], counts[1]), (1 + round(lengths[0]), 1 + round(lengths[1])))


def invent(choices: Choices, survey: Survey, sides: list[str], given: Mapping[str, Any]) -> int:
    """Pairs that are made up where there are too few to learn copying from; how many."""
    asked = given.get("data", {}).get("augmented")
    if asked is not None:
        return int(asked)
    copied = most_copied(survey)
    if sides != ["characters", "characters"] or copied < COPIED or not FEWEST_PAIRS <= survey.pairs < FEW:
        return 0
    if survey.source.mean > LONGEST_WORD:
        return 0
    if survey.relation.again >= AGAIN:  # tokens of a text, which made-up ones do not help (docs/LOG.md, "Types")
        return 0
    count = FEW - survey.pairs
    why = f"{survey.pairs:,} pairs, and {copied:.0%} of a source or a target is copied, beyond chance"
    choices.set("data.augmented", count, why)
    return count


def most_copied(survey: Survey) -> float:
    """Of a target from its source, or of a source: long endings, as Turkish has, are no less copying."""
    return max(survey.relation.copied, survey.relation.stem)


def even(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    """Frequent sources less often where rows are tokens of a text (docs/LOG.md, "Types").

    A pass is shorter then, but a model needs as many updates: how many passes there is time for is told of all rows.
    """
    again = survey.relation.again
    if again >= AGAIN and "repeat_power" not in given.get("data", {}):
        why = f"{again:.0%} of the rows repeat others: rare sources have more to teach"
        choices.set("data.repeat_power", EVEN, why)


def unseen(choices: Choices, survey: Survey, sides: list[str], given: Mapping[str, Any]) -> None:
    """What is done about characters that training never had (docs/LOG.md, "Characters never seen")."""
    if sides[0] not in SPELLED or "unseen" in given.get("data", {}):
        return
    kept = survey.relation.kept
    if sides[0] == sides[1] == "characters" and kept >= KEPT and survey.pairs < MANY:
        why = f"{kept:.0%} of rare characters stand in the target, beyond chance: those never seen are carried over"
        choices.set("data.unseen", "carried", why)
    else:
        choices.set("data.unseen", "nearest")


def validation(choices: Choices, typical: Typical, seconds: float) -> None:
    """So many pairs that decoding them takes a small part of the time, also where targets are long."""
    pairs = 3 * seconds * min(1.0, SHORT_TARGET / typical.lengths[1])
    choices.set("train.valid_pairs", int(min(1000, max(20, pairs))))


def limits(choices: Choices, survey: Survey, sides: list[str]) -> None:
    """How long an output may be: half as much again as the longest training target for its source."""
    source, target = (length(found, kind) for found, kind in zip((survey.source, survey.target), sides))
    spread = survey.longest_ratio / max(1e-6, survey.target.mean / max(1.0, survey.source.mean))
    choices.set("search.max_ratio", round(max(1.0, 1.5 * target / max(1.0, source) * min(spread, 4.0)), 2))
    choices.set("search.max_extra", 20)
