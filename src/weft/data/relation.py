"""How targets hang together with their sources: what is copied, in which order, and what is open."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rapidfuzz.distance import LCSseq

from weft.core.pair import Pair

SAMPLE = 2000  # pairs that are compared symbol by symbol
LONGEST = 400  # symbols of a side that are looked at
ROWS = 100_000  # pairs among which a source is looked for a second time
_WORDS = re.compile(r"\w{3,}")


@dataclass(frozen=True)
class Relation:
    """Shares between 0 and 1."""

    copied: float = 0.0  # of a target's characters: those that its source has in the same order
    copied_words: float = 0.0  # of a target's words of three letters and more: those that its source has
    in_order: float = 0.0  # of neighbours in a target: those that come from the source in its order
    ambiguous: float = 0.0  # of rows: those whose source has another target, too
    again: float = 0.0  # of rows: those that were there before, source and target
    evened: float = 1.0  # of rows: what is left where a source that n of them have counts √n times


class Related:
    """Collects a sample of the rows, and for the first ROWS of them what each source was answered with."""

    def __init__(self) -> None:
        self._draw, self._rows = random.Random(1), 0
        self._sample: list[Pair] = []
        self._answers: dict[int, int] = {}  # hashes only: a few numbers a row
        self._known: set[int] = set()
        self._counts: Counter[int] = Counter()
        self._open: set[int] = set()

    def add(self, pair: Pair) -> None:
        self._rows += 1
        if len(self._sample) < SAMPLE:
            self._sample.append(pair)
        elif (place := self._draw.randrange(self._rows)) < SAMPLE:
            self._sample[place] = pair
        if self._rows <= ROWS:
            key, answer = hash((pair.source, pair.tag, pair.features)), hash(pair.target)
            self._counts[key] += 1
            self._known.add(hash((key, answer)))
            if self._answers.setdefault(key, answer) != answer:
                self._open.add(key)

    def result(self) -> Relation:
        some, rows = self._sample, max(1, min(self._rows, ROWS))
        return Relation(
            copied(some),
            copied_words(some),
            in_order(some),
            ambiguous=sum(self._counts[key] for key in self._open) / rows,
            again=1 - len(self._known) / rows,
            evened=sum(count**0.5 for count in self._counts.values()) / rows,
        )


def copied(pairs: Sequence[Pair]) -> float:
    shares = [
        LCSseq.similarity(p.source[:LONGEST], p.target[:LONGEST]) / len(p.target[:LONGEST]) for p in pairs if p.target
    ]
    return sum(shares) / max(1, len(shares))


def copied_words(pairs: Sequence[Pair]) -> float:
    found = [(set(_WORDS.findall(p.source)), _WORDS.findall(p.target)) for p in pairs]
    return sum(word in source for source, target in found for word in target) / max(1, sum(len(t) for _, t in found))


def in_order(pairs: Sequence[Pair]) -> float:
    """Each target symbol is traced to the source symbol that it occurs with most; chance gives a half."""
    rows = [(symbols(p.source)[:LONGEST], symbols(p.target)[:LONGEST]) for p in pairs]
    both: dict[str, Counter[str]] = defaultdict(Counter)
    sources: Counter[str] = Counter()
    for source, target in rows:
        sources.update(set(source))
        for symbol in set(target):
            both[symbol].update(set(source))
    targets = Counter(symbol for _, target in rows for symbol in set(target))

    def likely(target: str) -> str:
        found = both[target]
        return max(found, key=lambda source: (found[source] / (sources[source] + targets[target]), source))

    partner = {symbol: likely(symbol) for symbol in both if both[symbol]}
    forwards = steps = 0
    for source, target in rows:
        places = _traced(source, target, partner)
        steps += sum(a != b for a, b in pairwise(places))
        forwards += sum(a < b for a, b in pairwise(places))
    return forwards / steps if steps else 0.0


def symbols(text: str) -> list[str]:
    """Words of a text that has some, characters of one that has not."""
    words = text.split()
    return words if len(words) > 1 else list(text)


def _traced(source: list[str], target: list[str], partner: dict[str, str]) -> list[int]:
    """Where each target symbol's partner stands: the nth use of a symbol is traced to the nth of its partner."""
    where: dict[str, list[int]] = defaultdict(list)
    for place, symbol in enumerate(source):
        where[symbol].append(place)
    used: Counter[str] = Counter()
    places = []
    for symbol in target:
        found = where.get(partner.get(symbol, ""), [])
        if used[symbol] < len(found):
            places.append(found[used[symbol]])
            used[symbol] += 1
    return places
