"""How each side is cut into symbols, and which pairs are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.choose.choices import Choices
from weft.choose.pace import Typical
from weft.core.pair import SPECIALS
from weft.data.survey import FEWEST_PAIRS, SideSurvey, Survey
from weft.data.tokens import MOST_LISTED, SUBWORDS
from weft.spec import Side

COPIED = 0.6  # of a target, from its source: above this the middle of a word does not matter
MOST_MARKS = 32  # of a line
FEWEST_LINES = 8  # in a batch, of typical length
LARGEST_BATCH = 8192  # symbols, that long lines ask for
LONGEST_WORD = 60  # characters, on average: made-up pairs are words, and long texts would take long to compare
FEW = 5000  # pairs that show it; fewer are filled up with pairs that are made up
AGAIN = 0.3  # of the rows, repeated: above this frequent sources would take most of the time
LETTER = 1.2  # characters of a word, on average: up to this many, words are letters set apart
LONGEST_SPACED = 12  # characters of a word, on average: more are no words
MANY_TEXTS = 20_000  # pairs, from which on pieces and a Transformer are learned well
SHORT_TARGET = 20  # symbols, that take no time to write
KEPT = 0.35  # of rare characters, in the target: above this it is told where a character never seen goes
MANY = 100_000  # pairs, after which one that was never seen will hardly come
EVEN = 0.5  # the power of their frequency that such sources are learned from by


def side(choices: Choices, name: str, found: SideSurvey, pairs: int, given: Mapping[str, Any]) -> str:
    """How one side is cut."""
    asked = given.get(name, {}).get("tokens")
    if asked:
        return str(asked)
    if is_symbol_list(found, pairs):
        kind, why = "words", f"{found.distinct_words} distinct words, {found.mean_words:.1f} a line: a list of symbols"
    elif name == "target" and is_label(found, pairs):
        kind, why = "words", f"one of {found.distinct_words} words"
    elif found.mean <= 25:
        kind, why = "characters", f"short: {found.mean:.0f} characters a line"
    elif found.mean_words <= 4:
        kind, why = "characters", f"few spaces: {found.mean_words:.1f} words a line"
    else:
        kind, why = "bpe", f"running text: {found.mean_words:.0f} words a line, {found.distinct_words:,} distinct"
    choices.set(f"{name}.tokens", kind, why)
    return kind


def is_symbol_list(found: SideSurvey, pairs: int) -> bool:
    """Few distinct words, used over and over or very short: phones, letters set apart, commands.

    Letters set apart may be many, as Korean syllables are: without the spaces there is half as much to write.
    """
    listed = found.spaced >= 0.5 and found.mean_words >= 2
    if listed and found.mean_word <= LETTER:
        return True
    uses = pairs * found.mean_words / max(1, found.distinct_words)
    return listed and found.distinct_words <= 500 and (uses >= 20 or found.mean_word <= 2.5)


def is_label(found: SideSurvey, pairs: int) -> bool:
    """One word of a few, each of which many rows have: a class, yes or no, a number of stars."""
    return found.spaced == 0 and found.distinct_words <= 500 and pairs >= 20 * found.distinct_words


def running(choices: Choices, survey: Survey, sides: list[str], given: Mapping[str, Any]) -> list[str]:
    """The sides, both as pieces where one is running text and the other may be: it has no spaces, or is shorter."""
    other = "target" if sides[0] in SUBWORDS else "source"
    asked = given.get(other, {}).get("tokens")
    if sorted(sides) != ["bpe", "characters"] or asked or survey.pairs < MANY_TEXTS:
        return sides
    choices.drop(f"{other}.tokens")
    choices.set(f"{other}.tokens", "bpe", f"the other side is running text, and there are {survey.pairs:,} pairs")
    return ["bpe", "bpe"]


def are_pieces(sides: Sequence[str]) -> bool:
    """Whether both sides are running text, in pieces of words."""
    return all(kind in SUBWORDS for kind in sides)


def pieces(choices: Choices, survey: Survey, sides: Sequence[str], given: Mapping[str, Any]) -> None:
    """How many pieces of words there are, as many on one side as the user says of the other; and are they shared?"""
    words = survey.pairs * (survey.target.mean / 2 if is_unspaced(survey.target) else survey.target.mean_words)
    asked = [given.get(name, {}).get("size") for name in ("source", "target")]
    said = next((size for size in asked if size is not None), None)
    size = int(said or min(16_000, max(1000, round(words / 80 / 500) * 500)))
    for name in ("source", "target"):
        choices.set(f"{name}.size", size, f"{words:,.0f} target words" if name == "target" and said is None else "")
    alike = sides[0] == sides[1] and len({size if one is None else one for one in asked}) == 1
    why = f"{survey.shared_characters:.0%} of the target's letters are the source's too"
    choices.set("embed.shared", alike and survey.shared_characters >= 0.8, why if alike else "")


def is_unspaced(found: SideSurvey) -> bool:
    """Whether words are not set apart, as in Chinese: then two characters are about one, and a piece hardly more."""
    return found.mean_word > LONGEST_SPACED


def length(found: SideSurvey, kind: str) -> float:
    """The mean number of symbols in a line, cut that way."""
    return found.mean_words if kind == "words" else found.mean * symbols_per_character(found, kind)


def long(found: SideSurvey, kind: str) -> float:
    """The symbols of a long line: 99 of 100 are not longer."""
    return found.long_words if kind == "words" else found.long * symbols_per_character(found, kind)


def symbols_per_character(found: SideSurvey, kind: str) -> float:
    """A piece of a word is about four characters, or one where words are not set apart."""
    if kind == "bytes":
        return sum(len(c.encode()) * n for c, n in found.characters.items()) / max(1, sum(found.characters.values()))
    return 1 / 4 if kind in SUBWORDS and not is_unspaced(found) else 1.0


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
        counts.append(len(SPECIALS) + len(survey.marks) + min(MOST_LISTED, int(known.get(kind, pieces))))
    if {**choices.layer.get("embed", {}), **given.get("embed", {})}.get("shared"):
        counts = [max(counts)] * 2
    return Typical((counts[0], counts[1]), (1 + round(lengths[0]), 1 + round(lengths[1])))


def invent(choices: Choices, survey: Survey, sides: list[str], given: Mapping[str, Any]) -> int:
    """Pairs that are made up where there are too few to learn copying from; how many."""
    asked = given.get("data", {}).get("invented")
    if asked is not None:
        return int(asked)
    copied = survey.relation.copied
    if sides != ["characters", "characters"] or copied < COPIED or not FEWEST_PAIRS <= survey.pairs < FEW:
        return 0
    if survey.source.mean > LONGEST_WORD:
        return 0
    if survey.relation.again >= AGAIN:  # tokens of a text, which made-up ones do not help (docs/LOG.md, "Types")
        return 0
    count = FEW - survey.pairs
    choices.set(
        "data.invented", count, f"{survey.pairs:,} pairs, and {copied:.0%} of a target is copied from its source"
    )
    return count


def even(choices: Choices, survey: Survey, given: Mapping[str, Any]) -> None:
    """Frequent sources less often where rows are tokens of a text (docs/LOG.md, "Types").

    A pass is shorter then, but a model needs as many updates: how many passes there is time for is told of all rows.
    """
    again = survey.relation.again
    if again >= AGAIN and "frequency" not in given.get("data", {}):
        choices.set("data.frequency", EVEN, f"{again:.0%} of the rows repeat others: rare sources have more to teach")


def unseen(choices: Choices, survey: Survey, sides: list[str], given: Mapping[str, Any]) -> None:
    """What is done about characters that training never had (docs/LOG.md, "Characters never seen")."""
    if sides[0] != "characters" or "unseen" in given.get("data", {}):
        return
    kept = survey.relation.kept
    if sides[1] == "characters" and kept >= KEPT and survey.pairs < MANY:
        why = f"{kept:.0%} of rare characters stand in the target, too: those never seen are carried over"
        choices.set("data.unseen", "carried", why)
    else:
        choices.set("data.unseen", "kin")


def validation(choices: Choices, typical: Typical, seconds: float) -> None:
    """So many pairs that decoding them takes a small part of the time, also where targets are long."""
    pairs = 3 * seconds * min(1.0, SHORT_TARGET / typical.lengths[1])
    choices.set("train.valid_pairs", int(min(1000, max(20, pairs))))


def limits(choices: Choices, survey: Survey, sides: list[str]) -> None:
    """How long an output may be: half as much again as the longest training target for its source."""
    source, target = (length(found, kind) for found, kind in zip((survey.source, survey.target), sides))
    spread = survey.longest_ratio / max(1e-6, survey.target.mean / max(1.0, survey.source.mean))
    choices.set("search.longest_ratio", round(max(1.0, 1.5 * target / max(1.0, source) * min(spread, 4.0)), 2))
    choices.set("search.longest_extra", 20)
