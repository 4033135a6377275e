"""What kind of text one side holds, by its statistics: words, symbols, labels, sentences; and its length in tokens."""

from __future__ import annotations

from collections.abc import Callable

from weft.choose.numbers import NUMBERS
from weft.data.sides.text import SideSurvey
from weft.data.text.tokens import SUBWORDS, composed, taken_apart

UNITS: dict[str, Callable[[str], bytes | str]] = {"bytes": str.encode, "parts": taken_apart}  # of one character


def has_words(side: SideSurvey) -> bool:
    """Return whether lines have several words."""
    return side.spaced >= NUMBERS.spaced_share and side.mean_words >= 2


def is_unspaced(side: SideSurvey) -> bool:
    """Return whether words are not separated by spaces, as in Chinese."""
    return side.mean_word > NUMBERS.unspaced_word


def is_symbol_list(side: SideSurvey, pairs: int) -> bool:
    """Return whether lines list few distinct symbols, which are frequent or very short: phones, letters, commands.

    Letters separated by spaces may have many distinct values: without the spaces there is half as much to write.
    Commands with names and numbers are no list of symbols: new data will have other names.
    """
    if is_spaced_letters(side):
        return True
    uses = pairs * side.mean_words / max(1, side.distinct_words)
    closed = uses >= NUMBERS.symbol_uses and side.once * side.mean_words <= NUMBERS.unique_words
    few = side.distinct_words <= NUMBERS.most_symbols
    return has_words(side) and few and (closed or side.mean_word <= NUMBERS.short_symbol)


def is_spaced_letters(side: SideSurvey) -> bool:
    """Return whether lines are words whose letters are separated by spaces."""
    return (
        has_words(side) and side.mean_word <= NUMBERS.spaced_letter and side.mean_words <= NUMBERS.most_spaced_letters
    )


def is_label(side: SideSurvey, pairs: int) -> bool:
    """Return whether each line is one of a few words, all of them frequent: classes, yes or no, a number of stars."""
    few = side.distinct_words <= NUMBERS.most_symbols
    return side.spaced == 0 and few and pairs >= NUMBERS.symbol_uses * side.distinct_words


def is_text(side: SideSurvey) -> bool:
    """Return whether lines are sentences, if short ones: several words (or characters, without spaces) of many."""
    signs = side.mean >= NUMBERS.text_characters and len(side.characters) > NUMBERS.text_distinct_characters
    words = side.mean_words >= NUMBERS.text_words and side.distinct_words > NUMBERS.text_distinct_words
    return (side.spaced < NUMBERS.spaced_share and signs) or words


def mean_sentences(side: SideSurvey) -> float:
    """Return about how many sentences a line has, by the marks that end one."""
    marks = sum(side.characters.get(mark, 0) for mark in ".!?。！？\n")
    return side.mean * marks / max(1, sum(side.characters.values()))


def parts_of(side: SideSurvey) -> set[str]:
    """Return the parts that the characters are composed of (NFD)."""
    return set(taken_apart("".join(side.characters)))


def is_composed(side: SideSurvey, written: bool, ctc: bool) -> bool:
    """Return whether most characters are composed of parts, and there are fewer parts: Korean syllables, not accents.

    A side that is `written` must also be the same when it is taken apart and composed again, and must not be written
    by CTC, which needs a source position for each token.
    """
    letters = {character: uses for character, uses in side.characters.items() if not character.isspace()}
    parts = sum(len(taken_apart(character)) * uses for character, uses in letters.items())
    several = parts >= NUMBERS.composed_parts * max(1, sum(letters.values()))
    fewer = len(parts_of(side)) < len(side.characters)
    return several and fewer and not (written and (ctc or not _is_restored(side)))


def _is_restored(side: SideSurvey) -> bool:
    """Return whether texts of these characters are unchanged when they are taken apart and composed again."""
    later = {part for character in side.characters for part in taken_apart(character)[1:]}
    return not later & set(side.characters) and all(composed(taken_apart(c)) == c for c in side.characters)


def mean_tokens(side: SideSurvey, kind: str) -> float:
    """Return the mean number of tokens in a line, tokenised that way."""
    return side.mean_words if kind == "words" else side.mean * tokens_per_character(side, kind)


def long_line_tokens(side: SideSurvey, kind: str) -> float:
    """Return the number of tokens that 99 of 100 lines do not exceed."""
    return side.long_words if kind == "words" else side.long * tokens_per_character(side, kind)


def tokens_per_character(side: SideSurvey, kind: str) -> float:
    """Return the mean number of tokens that one character becomes."""
    if kind in UNITS:
        uses = side.characters
        return sum(len(UNITS[kind](c)) * n for c, n in uses.items()) / max(1, sum(uses.values()))
    return 1 / NUMBERS.subword_characters if kind in SUBWORDS and not is_unspaced(side) else 1.0
