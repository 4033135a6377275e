"""How targets hang together with their sources: what is copied, in which order, and what is open."""

from __future__ import annotations

import random
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rapidfuzz.distance import LCSseq

from weft.core.pair import Pair
from weft.data.text.augment import stretches

SAMPLE = 2000  # pairs that are compared symbol by symbol
LONGEST = 400  # symbols of a side that are looked at
STEMS, STEM_LONGEST = 500, 60  # pairs and characters that are looked at for stretches
IN_ORDER, IN_ORDER_PAIRS = 60, 500  # symbols and pairs that are looked at where all pairs of symbols are counted
SOURCES = 100_000  # the most that are known when they come again: of more every second, fourth, … is looked for
_WORDS = re.compile(r"\w{3,}")


@dataclass(frozen=True)
class Relation:
    """Shares between 0 and 1. `copied`, `stem` and `kept` are beyond chance: 0 is what other pairs' targets share."""

    copied: float = 0.0  # of a target's characters: those that its source has in the same order
    stem: float = 0.0  # of a source's characters: those in stretches of three and more that its target has, too
    copied_words: float = 0.0  # of a target's words of three letters and more: those that its source has
    in_order: float = 0.0  # of neighbours in a target: those that come from the source in its order
    ambiguous: float = 0.0  # of rows: those whose source has another target, too
    again: float = 0.0  # of rows: those that were there before, source and target
    kept: float = 0.0  # of rare characters of a source: those that its target has, too


class Related:
    """Collects a sample of the rows, and of some sources all that they were answered with."""

    def __init__(self) -> None:
        self._draw, self._rows = random.Random(1), 0
        self._sample: list[Pair] = []
        self._answers: dict[int, Counter[int]] = {}  # by source; sums only: a few numbers a row
        self._others = 0  # a source whose sum shares a bit with this is not looked for

    def add(self, pair: Pair) -> None:
        self._rows += 1
        if len(self._sample) < SAMPLE:
            self._sample.append(pair)
        elif (place := self._draw.randrange(self._rows)) < SAMPLE:
            self._sample[place] = pair
        source = zlib.crc32("\n".join([pair.source, pair.tag, *pair.features]).encode())
        if not source & self._others:
            self._answers.setdefault(source, Counter())[zlib.crc32(pair.target.encode())] += 1
            if len(self._answers) > SOURCES:
                self._others = 2 * self._others + 1
                self._answers = {key: answers for key, answers in self._answers.items() if not key & self._others}

    def result(self) -> Relation:
        some, found = self._sample, list(self._answers.values())
        rows = max(1, sum(answers.total() for answers in found))
        return Relation(
            beyond_chance(copied, some),
            beyond_chance(stem, some[:STEMS]),
            copied_words(some),
            in_order(some),
            ambiguous=sum(answers.total() for answers in found if len(answers) > 1) / rows,
            again=1 - sum(len(answers) for answers in found) / rows,
            kept=beyond_chance(kept, some),
        )


def beyond_chance(share: Callable[[Sequence[Pair]], float], pairs: Sequence[Pair]) -> float:
    """A share, from 0 where it is that of sources beside the targets of other sources, to 1."""
    drawn = random.Random(1).sample(pairs, len(pairs))
    others = [replace(p, target=other.target) for p, other in zip(pairs, drawn) if p.source != other.source]
    found, chance = share(pairs), share(others)
    return max(0.0, (found - chance) / (1 - chance)) if chance < 1 else 0.0


def stem(pairs: Sequence[Pair]) -> float:
    sides = [(p.source[:STEM_LONGEST], p.target[:STEM_LONGEST]) for p in pairs if p.source]
    shares = [sum(found.length for found in stretches(*both)) / len(both[0]) for both in sides]
    return sum(shares) / max(1, len(shares))


def copied(pairs: Sequence[Pair]) -> float:
    shares = [
        LCSseq.similarity(p.source[:LONGEST], p.target[:LONGEST]) / len(p.target[:LONGEST]) for p in pairs if p.target
    ]
    return sum(shares) / max(1, len(shares))


def kept(pairs: Sequence[Pair]) -> float:
    """The mean over the rarest third of the sources' characters, of the share of different pairs that keep each."""
    have, keep = Counter[str](), Counter[str]()
    for pair in set(pairs):
        there = set(pair.source[:LONGEST])
        have.update(there)
        keep.update(there & set(pair.target))
    rare = sorted(have, key=lambda character: (have[character], character))[: -(-len(have) // 3)]
    return sum(keep[character] / have[character] for character in rare) / max(1, len(rare))


def copied_words(pairs: Sequence[Pair]) -> float:
    found = [(set(_WORDS.findall(p.source)), _WORDS.findall(p.target)) for p in pairs]
    return sum(word in source for source, target in found for word in target) / max(1, sum(len(t) for _, t in found))


def in_order(pairs: Sequence[Pair]) -> float:
    """Each target symbol is traced to the source symbol that it occurs with most; chance gives a half."""
    rows = [(symbols(p.source)[:IN_ORDER], symbols(p.target)[:IN_ORDER]) for p in pairs[:IN_ORDER_PAIRS]]
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
