"""Targets as sources of their own, with words dropped and moved (denoising, Lample 2018).

A model of several languages that never saw German and French together takes every German source for one that is to be
written in English. Once it has also learned to restore German from German, the tag alone decides what is written.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

from weft.core.pair import Pair

DROPPED = 0.1  # share of words
MOVED = 3  # places that a word moves, at most
VERSION = 1  # another number whenever the same pairs give others: it is part of the cache's key


def with_denoised(pairs: Iterable[Pair], group: int = 1, seed: int = 1) -> Iterator[Pair]:
    """Yield the pairs in groups of neighbours, each group followed by the pairs that restore its targets."""
    drawn = random.Random(seed)
    waiting: list[Pair] = []
    for pair in pairs:
        yield pair
        waiting.append(replace(pair, source=noisy(pair.target, drawn), references=()))
        if len(waiting) == group:
            yield from waiting
            waiting = []


def noisy(text: str, drawn: random.Random) -> str:
    """Return a text without some of its words, and with the others moved by some places."""
    words = text.split(" ")
    kept = [word for word in words if drawn.random() >= DROPPED] or words
    places = [number + (1 + MOVED) * drawn.random() for number in range(len(kept))]
    return " ".join(kept[number] for number in sorted(range(len(kept)), key=places.__getitem__))
