"""Pairs that are made up from real ones, for corpora too small to show that a word's middle does not matter.

Where a target repeats long stretches of its source (inflected forms, spellings), the inside of each stretch is replaced
by other letters on both sides, and what the change hangs on stays: the letters where the stretch ends (after
Anastasopoulos & Neubig 2019). Letters follow each other as they do in real sources, half of the time.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import NamedTuple

from weft.core.kinds import Pair

SHORTEST = 3  # letters of a stretch that is changed
REAL_SHARE = 4  # one pair in so many is a real one, at least: they are repeated
START = ""


class Stretch(NamedTuple):
    """Letters that both sides have: where they begin in each, and how many are replaced."""

    source: int
    target: int
    length: int


def stretches(source: str, target: str) -> list[Stretch]:
    """What can be replaced: each common stretch but its last letters, and its first one unless both sides begin so."""
    found = []
    for block in SequenceMatcher(None, source, target, autojunk=False).get_matching_blocks():
        before = 0 if block.a == block.b == 0 else 1
        after = 2 if block.size > SHORTEST + 1 else 1
        if block.size >= SHORTEST and block.size > before + after:
            found.append(Stretch(block.a + before, block.b + before, block.size - before - after))
    return found


class Letters:
    """Draws letters: after a real one that followed, or any."""

    def __init__(self, sources: Sequence[str], draw: random.Random) -> None:
        self._draw = draw
        self._all = [letter for text in sources for letter in text]
        self._after: dict[str, list[str]] = defaultdict(list)
        for text in sources:
            for before, letter in zip((START, *text), text):
                self._after[before].append(letter)

    def word(self, before: str, length: int) -> str:
        made = ""
        for _ in range(length):
            followers = self._after.get(made[-1:] or before)
            made += self._draw.choice(followers if followers and self._draw.random() < 0.5 else self._all)
        return made


def invented(pairs: Sequence[Pair], count: int, seed: int) -> Iterator[Pair]:
    """So many pairs, each made from a real one; none where no target repeats its source."""
    draw = random.Random(seed)
    usable = [(pair, found) for pair in pairs if (found := stretches(pair.source, pair.target))]
    letters = Letters([pair.source for pair in pairs], draw)
    for _ in range(count if usable else 0):
        pair, found = draw.choice(usable)
        source, target = list(pair.source), list(pair.target)
        for s, t, length in found:
            word = letters.word(pair.source[s - 1] if s else START, length)
            source[s : s + length], target[t : t + length] = word, word
        yield replace(pair, source="".join(source), target="".join(target))


def with_invented(pairs: Sequence[Pair], count: int, seed: int = 1) -> Iterator[Pair]:
    """The real pairs, repeated until they are a fair share of all, and then those made up from them."""
    for _ in range(max(1, count // (REAL_SHARE * max(1, len(pairs))))):
        yield from pairs
    yield from invented(pairs, count, seed)
