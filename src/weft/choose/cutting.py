"""How each side is cut into symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.choose.choices import Choices, by_ctc
from weft.data.survey import SideSurvey, Survey
from weft.data.text.tokens import SUBWORDS, composed, taken_apart
from weft.spec import SPELLED

CUT: dict[str, Callable[[str], bytes | str]] = {"bytes": str.encode, "parts": taken_apart}
SHORT, FEW_WORDS = 25, 4  # characters and words of a line, on average: up to these it is spelled
COPIED = 0.6  # of a target or a source: above this the middle of a word does not matter
NAMED = 0.5  # of a short target, from a longer source: above this it is a word of that source, changed
LONGEST_NAMING = 150  # characters of such a source, on average
ALMOST = 0.8  # of a target's letters, from its source: above this few of them change
LONGEST_SPELLED = 200  # characters of a line, on average, that can be learned one by one
LETTER = 1.2  # characters of a word, on average: up to this many, words are letters set apart
MOST_LETTERS = 12  # of a line, on average, where there are many different ones: more are a text
ONCE = 0.02  # words of a line that no other line has, on average: above this others will come
COMPOSED = 1.5  # parts of a letter, on average: from this many on, the parts are what is learned
TEXT_WORDS, TEXT_DISTINCT = 3.5, 2000  # words of a line on average, and different ones: from these on it is a text
TEXT_SIGNS = 8, 500  # the same of characters, where there are no spaces
LONGEST_SPACED = 12  # characters of a word, on average: more are no words
MANY_TEXTS = 20_000  # pairs, from which on pieces and a Transformer are learned well


def side(choices: Choices, name: str, found: SideSurvey, pairs: int, given: Mapping[str, Any]) -> str:
    """How one side is cut."""
    asked = given.get(name, {}).get("tokens")
    if asked:
        return str(asked)
    written, by_place = name == "target", by_ctc(given)
    if are_letters(found) and are_composed(found, written, by_place):
        kind, why = "parts", f"set apart by spaces; {_made_of_parts(found)}"
    elif is_symbol_list(found, pairs):
        kind, why = "words", f"{found.distinct_words} distinct words, {found.mean_words:.1f} a line: a list of symbols"
    elif written and is_label(found, pairs):
        kind, why = "words", f"one of {found.distinct_words} words"
    elif found.mean <= SHORT or found.mean_words <= FEW_WORDS:
        kind, why = _spelled(found, written, by_place)
    else:
        kind, why = "bpe", f"running text: {found.mean_words:.0f} words a line, {found.distinct_words:,} distinct"
    choices.set(f"{name}.tokens", kind, why)
    return kind


def is_symbol_list(found: SideSurvey, pairs: int) -> bool:
    """Few distinct words, used over and over or very short: phones, letters set apart, commands.

    Letters set apart may be many: without the spaces there is half as much to write. Names and numbers among commands
    are no list: there will be others.
    """
    if are_letters(found):
        return True
    uses = pairs * found.mean_words / max(1, found.distinct_words)
    closed = uses >= 20 and found.once * found.mean_words <= ONCE
    return _are_several(found) and found.distinct_words <= 500 and (closed or found.mean_word <= 2.5)


def _are_several(found: SideSurvey) -> bool:
    """Whether lines have spaces."""
    return found.spaced >= 0.5 and found.mean_words >= 2


def are_letters(found: SideSurvey) -> bool:
    """Whether a line is a word with its letters set apart by spaces."""
    return _are_several(found) and found.mean_word <= LETTER and found.mean_words <= MOST_LETTERS


def parts_of(found: SideSurvey) -> set[str]:
    return set(taken_apart("".join(found.characters)))


def are_composed(found: SideSurvey, written: bool, by_place: bool) -> bool:
    """Whether most characters have several parts, of which there are fewer: Korean syllables, not accents.

    But not what is `written`, if it would be composed otherwise than it was, or has a place for each character.
    """
    letters = {character: uses for character, uses in found.characters.items() if not character.isspace()}
    parts = sum(len(taken_apart(character)) * uses for character, uses in letters.items())
    several = parts >= COMPOSED * max(1, sum(letters.values())) and len(parts_of(found)) < len(found.characters)
    return several and not (written and (by_place or not _comes_back(found)))


def _made_of_parts(found: SideSurvey) -> str:
    return f"{len(found.characters):,} characters are made of {len(parts_of(found))} parts"


def _spelled(found: SideSurvey, written: bool, by_place: bool) -> tuple[str, str]:
    """In characters, or in their parts."""
    if are_composed(found, written, by_place):
        return "parts", _made_of_parts(found)
    short = found.mean <= SHORT
    why = f"short: {found.mean:.0f} characters a line" if short else f"few spaces: {found.mean_words:.1f} words a line"
    return "characters", why


def _comes_back(found: SideSurvey) -> bool:
    """Whether texts of these characters are the same when they were taken apart and put together."""
    later = {part for character in found.characters for part in taken_apart(character)[1:]}
    return not later & set(found.characters) and all(composed(taken_apart(c)) == c for c in found.characters)


def is_text(found: SideSurvey) -> bool:
    """Lines of several words, or without spaces of several signs, of which there are many: sentences, if short ones."""
    signs, different = TEXT_SIGNS
    unspaced = found.spaced < 0.5 and found.mean >= signs and len(found.characters) > different
    return unspaced or (found.mean_words >= TEXT_WORDS and found.distinct_words > TEXT_DISTINCT)


def is_label(found: SideSurvey, pairs: int) -> bool:
    """One word of a few, each of which many rows have: a class, yes or no, a number of stars."""
    return found.spaced == 0 and found.distinct_words <= 500 and pairs >= 20 * found.distinct_words


def running(choices: Choices, survey: Survey, sides: list[str], given: Mapping[str, Any]) -> list[str]:
    """The sides, cut otherwise where one tells something of the other, unless the user says how."""
    kinds, why = _together(survey, sides)
    changes = {name: new for name, old, new in zip(("source", "target"), sides, kinds) if new != old}
    if any("tokens" in given.get(name, {}) for name in changes):
        return sides
    for name, kind in changes.items():
        recut(choices, name, kind, why)
    return kinds


def recut(choices: Choices, name: str, kind: str, why: str = "") -> None:
    """A side is cut otherwise than was chosen before, and that reason is forgotten."""
    choices.drop(f"{name}.tokens")
    choices.set(f"{name}.tokens", kind, why)


def _together(survey: Survey, sides: list[str]) -> tuple[list[str], str]:
    """How both sides are cut, and why otherwise than each by itself.

    Both are pieces where one is running text and the other may be (it has no spaces, or is shorter), and where both are
    short sentences. A word that is to be found in its source, and changed, is spelled on both sides.
    """
    spelled, many = [kind in SPELLED for kind in sides], survey.pairs >= MANY_TEXTS
    if all(spelled):
        if many and is_text(survey.source) and is_text(survey.target) and survey.relation.copied < COPIED:
            return ["bpe", "bpe"], f"short sentences, and {survey.pairs:,} pairs of them"
    elif any(spelled) and "bpe" in sides:
        if spelled[1] and _names_a_word(survey):
            why = f"a target is a word, and {survey.relation.copied:.0%} of it stands in its source, beyond chance"
            return [_spelled(survey.source, written=False, by_place=False)[0], sides[1]], why
        if many:
            return ["bpe", "bpe"], f"the other side is running text, and there are {survey.pairs:,} pairs"
    return sides, ""


def hardly_changes(survey: Survey, sides: Sequence[str]) -> bool:
    """Whether a line is nearly its source (case, accents, spelling), and could be learned letter by letter."""
    short = max(survey.source.mean, survey.target.mean) <= LONGEST_SPELLED
    return are_pieces(sides) and survey.relation.copied >= ALMOST and short


def _names_a_word(survey: Survey) -> bool:
    short = survey.target.mean_words < 2 and survey.source.mean <= LONGEST_NAMING
    return short and survey.relation.copied >= NAMED


def are_pieces(sides: Sequence[str]) -> bool:
    """Whether both sides are running text, in pieces of words."""
    return all(kind in SUBWORDS for kind in sides)


def pieces(choices: Choices, survey: Survey, sides: Sequence[str], given: Mapping[str, Any]) -> None:
    """How many pieces of words there are, as many on one side as the user says of the other; and are they shared?

    A side that is alone in being cut so has pieces by its own words.
    """
    if not are_pieces(sides):
        for name, found, kind in zip(("source", "target"), (survey.source, survey.target), sides):
            if kind in SUBWORDS:
                choices.set(f"{name}.size", _pieces(words := _words(survey, found)), f"{words:,.0f} words")
        return
    words = _words(survey, survey.target)
    asked = [given.get(name, {}).get("size") for name in ("source", "target")]
    said = next((size for size in asked if size is not None), None)
    size = int(said or _pieces(words))
    for name in ("source", "target"):
        choices.set(f"{name}.size", size, f"{words:,.0f} target words" if name == "target" and said is None else "")
    alike = sides[0] == sides[1] and len({size if one is None else one for one in asked}) == 1
    why = f"{survey.shared_characters:.0%} of the target's letters are the source's too"
    choices.set("embed.shared", alike and survey.shared_characters >= 0.8, why if alike else "")


def _words(survey: Survey, found: SideSurvey) -> float:
    return survey.pairs * (found.mean / 2 if is_unspaced(found) else found.mean_words)


def _pieces(words: float) -> int:
    return min(16_000, max(1000, round(words / 80 / 500) * 500))


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
    if kind in CUT:
        uses = found.characters
        return sum(len(CUT[kind](c)) * n for c, n in uses.items()) / max(1, sum(uses.values()))
    return 1 / 4 if kind in SUBWORDS and not is_unspaced(found) else 1.0
