"""Synthetic pairs, made from real ones, for corpora too small to show that a word's middle does not matter.

Where a target repeats long stretches of its source (inflected forms, spellings), the inside of each stretch is replaced
by other letters, more or fewer, on both sides (after Anastasopoulos & Neubig 2019). Which letters cause the change is
not known: of the letters at the end of a stretch up to three stay, by chance, so that what was seen with some letters
is learned for others, too, but less strongly. Half of the time letters follow each other as they do in real sources.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import chain
from typing import NamedTuple

from weft.core.pair import Pair

SHORTEST = 3  # letters of a stretch that is changed
KEPT_BEFORE, KEPT_AFTER = 1, 3  # letters of it that may stay, where something else goes before or follows
LONGER = 2  # letters by which what is put in its place may be longer or shorter
REAL_SHARE = 4  # one pair in so many is a real one, at least: they are repeated
START = ""
SELDOM = 0.2  # times as often in targets as sources would have it: a letter that is there less is not drawn
VERSION = 3  # another number whenever the same pairs and seed make others: it is part of the cache's key


class Stretch(NamedTuple):
    """Letters that both sides have: where they begin in each, how many, and whether both sides begin or end so."""

    source: int
    target: int
    length: int
    first: bool
    last: bool

    def inside(self, draw: random.Random) -> Stretch:
        """Return a part of it: all but some letters at its ends."""
        before = 0 if self.first else draw.randint(0, KEPT_BEFORE)
        after = 0 if self.last else min(draw.randint(0, KEPT_AFTER), self.length - before - 1)
        return self._replace(
            source=self.source + before, target=self.target + before, length=self.length - before - after
        )


def stretches(source: str, target: str) -> list[Stretch]:
    """Return what both sides share, without matches of a letter or two, which may be chance."""
    return [
        Stretch(a, b, size, a == b == 0, a + size == len(source) and b + size == len(target))
        for a, b, size in SequenceMatcher(None, source, target, autojunk=False).get_matching_blocks()
        if size >= SHORTEST
    ]


class Letters:
    """Draws letters: after a real one that followed, or any; but none that targets do not keep, such as an old ſ."""

    def __init__(self, pairs: Sequence[Pair], draw: random.Random) -> None:
        self._draw, kept = draw, kept_letters(pairs)
        self._all = [letter for pair in pairs for letter in pair.source if letter in kept]
        self._after: dict[str, list[str]] = defaultdict(list)
        for text in (pair.source for pair in pairs):
            for before, letter in zip((START, *text), text):
                if letter in kept:
                    self._after[before].append(letter)

    def word(self, before: str, length: int) -> str:
        word = ""
        for _ in range(length):
            followers = self._after.get(word[-1:] or before)
            word += self._draw.choice(followers if followers and self._draw.random() < 0.5 else self._all)
        return word


def kept_letters(pairs: Sequence[Pair]) -> set[str]:
    """Return the letters of sources that targets have about as often; all letters where there are none such."""
    read = Counter(chain.from_iterable(pair.source for pair in pairs))
    written = Counter(chain.from_iterable(pair.target for pair in pairs))
    share = min(1.0, written.total() / max(1, read.total()))
    return {letter for letter, count in read.items() if written[letter] >= SELDOM * share * count} or set(read)


def augmented(pairs: Sequence[Pair], count: int, seed: int) -> Iterator[Pair]:
    """Yield so many pairs, each made from a real one; none where no target repeats its source."""
    draw = random.Random(seed)
    usable = [(pair, shared) for pair in pairs if (shared := stretches(pair.source, pair.target))]
    letters = Letters(pairs, draw)
    for _ in range(count if usable else 0):
        pair, shared = draw.choice(usable)
        source, target = list(pair.source), list(pair.target)
        for s, t, length, *_ in (stretch.inside(draw) for stretch in reversed(shared)):  # so that positions stay right
            other = max(1, length + draw.randint(-LONGER, LONGER))
            word = letters.word(pair.source[s - 1] if s else START, other)
            source[s : s + length], target[t : t + length] = word, word
        yield replace(pair, source="".join(source), target="".join(target), references=())


def with_augmented(pairs: Sequence[Pair], count: int, seed: int = 1) -> Iterator[Pair]:
    """Yield the real pairs, repeated until they are a fair share of all, and then synthetic ones made from them."""
    for _ in range(max(1, count // (REAL_SHARE * max(1, len(pairs))))):
        yield from pairs
    yield from augmented(pairs, count, seed)
