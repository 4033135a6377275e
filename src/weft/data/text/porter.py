"""The stemmer of Porter (1980): English words of one family end up with the same stem: connected, connection → connect.

A word is [C](VC)ᵐ[V] in runs of consonants C and vowels V; m, its measure, says how much of a word is left before an
ending. The steps are those of the paper, with the three departures of the author's own program.
"""

from __future__ import annotations

import re
from functools import lru_cache

Endings = tuple[tuple[str, str], ...]  # an ending, and what takes its place

_PLURALS: Endings = (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", ""))
_LONG: Endings = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("logi", "log"),
)  # fmt: skip
_SHORT: Endings = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_LAST: Endings = tuple(
    (ending, "")
    for ending in (
        "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ion", "ism", "ate", "iti", "ous", "ive", "ize",
        "al", "er", "ic", "ou",
    )
)  # fmt: skip
_DOUBLE = re.compile(r"([^aeiou])\1$")
_SHORT_SYLLABLE = re.compile(r"[^aeiou][aeiouy][^aeiouwxy]$")
SHORTEST = 3  # letters of a word that is stemmed


@lru_cache(maxsize=1 << 16)
def porter(word: str) -> str:
    """Return the stem of a word in lower case; a word with other letters than a to z is returned as it is."""
    if len(word) < SHORTEST or not (word.isascii() and word.isalpha()):
        return word
    word = _without_past(_replaced(word, _PLURALS, 0, always=True))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    for endings, measure in ((_LONG, 1), (_SHORT, 1), (_LAST, 2)):
        word = _replaced(word, endings, measure)
    return _without_e(word)


def _measure(stem: str) -> int:
    """Return how often a run of consonants follows one of vowels."""
    count, before = 0, False
    for place, letter in enumerate(stem):
        vowel = letter in "aeiou" or (letter == "y" and place > 0 and not before)
        count += before and not vowel
        before = vowel
    return count


def _has_vowel(stem: str) -> bool:
    return any(letter in "aeiou" or (letter == "y" and place > 0) for place, letter in enumerate(stem))


def _replaced(word: str, endings: Endings, measure: int, always: bool = False) -> str:
    """Replace the longest ending that the word has, if what is before it has at least this measure."""
    fitting = [(ending, other) for ending, other in endings if word.endswith(ending)]
    if not fitting:
        return word
    ending, other = max(fitting, key=lambda pair: len(pair[0]))
    stem = word[: len(word) - len(ending)]
    if ending == "ion" and not stem.endswith(("s", "t")):
        return word
    return stem + other if always or _measure(stem) >= measure else word


def _without_past(word: str) -> str:
    """Remove -ed and -ing, and mend what is left: hopping → hop, sized → size."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) >= 1 else word
    ending = next((each for each in ("ed", "ing") if word.endswith(each)), "")
    stem = word[: len(word) - len(ending)]
    if not ending or not _has_vowel(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if _DOUBLE.search(stem) and not stem.endswith(("l", "s", "z")):
        return stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _SHORT_SYLLABLE.search(stem) else stem


def _without_e(word: str) -> str:
    """Remove a last -e, and one of two last l."""
    if word.endswith("e"):
        stem = word[:-1]
        measure = _measure(stem)
        if measure > 1 or (measure == 1 and not _SHORT_SYLLABLE.search(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
