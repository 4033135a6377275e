"""Stems of words, by which words of one family are recognised."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from weft.data.text.porter import porter

LETTERS = 6  # of a word that count: of 4 to 7, the best for BM25 on Cranfield and SQuAD (docs/LOG.md)
_WORD = re.compile(r"\w+")


def stems(text: str) -> list[str]:
    """Return the first letters of each word, in lower case, which serves many languages (McNamee 2004)."""
    return [word[:LETTERS] for word in words(text)]


def words(text: str) -> Iterable[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())


def english_stems(text: str) -> list[str]:
    """Return the stem of each word by the endings of English."""
    return [porter(word) for word in words(text)]


STEMMERS: dict[str, Callable[[str], list[str]]] = {"prefix": stems, "porter": english_stems}
