"""How much of the targets is in their sources, and how many rows repeat others."""

from __future__ import annotations

import random
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rapidfuzz.distance import LCSseq

from weft.core.pair import Pair
from weft.data.blocks import Block
from weft.data.text.augment import stretches

SAMPLE = 2000  # pairs that are compared character by character
LONGEST = 400  # characters of a side that are compared
STEMS, STEM_LONGEST = 500, 60  # pairs and characters that are searched for common stretches
SOURCES = 100_000  # distinct sources whose targets are counted: of more, every second, fourth, … source is
_WORDS = re.compile(r"\w{3,}")


@dataclass(frozen=True)
class Relation:
    """Shares between 0 and 1. All but `repeated` are beyond chance: 0 is what the targets of other pairs share."""

    copied: float = 0.0  # of a target's characters: those that its source has in the same order
    stem: float = 0.0  # of a source's characters: those in stretches of three or more that its target has too
    copied_words: float = 0.0  # of a target's words of three letters or more: those that its source has
    repeated: float = 0.0  # of rows: those whose source and target an earlier row has
    kept: float = 0.0  # of rare characters of a source: those that its target has too


class RelationSurvey:
    """Collects a random sample of the rows, and counts the targets of each source by checksum."""

    def __init__(self) -> None:
        self._random, self._rows = random.Random(1), 0
        self._sample: list[Pair] = []
        self._targets: dict[int, Counter[int]] = {}  # by source; checksums only: a few numbers a row
        self._skipped_bits = 0  # a source whose checksum shares a bit with this is not counted

    def add(self, block: Block, checksums: Sequence[int]) -> None:
        """Count rows, given the CRC-32 of their sources."""
        for row in range(min(len(block), SAMPLE - len(self._sample))):
            self._sample.append(block.pair(row))
        for row, index in self._drawn(max(self._rows, SAMPLE), self._rows + len(block)):
            self._sample[index] = block.pair(row - self._rows)
        self._rows += len(block)
        self._count_targets(block, checksums)

    def _drawn(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the rows from `first` on that are drawn into the sample, each with its index there."""
        bits = self._random.getrandbits
        for row in range(first, end):  # as random.randrange(row + 1) does it, without its checks
            width = (row + 1).bit_length()
            index = bits(width)
            while index > row:
                index = bits(width)
            if index < SAMPLE:
                yield row, index

    def _count_targets(self, block: Block, checksums: Sequence[int]) -> None:
        keys = [zlib.crc32(b"\n", checksum) for checksum in checksums]  # of a source without a tag
        for row, extras in block.extras.items():
            keys[row] = zlib.crc32("\n".join([block.sources[row], extras.tag, *extras.features]).encode())
        skipped_bits = self._skipped_bits
        for row in [row for row, key in enumerate(keys) if not key & skipped_bits]:
            if keys[row] & self._skipped_bits:  # more are skipped by now
                continue
            self._targets.setdefault(keys[row], Counter())[zlib.crc32(block.targets[row].encode())] += 1
            if len(self._targets) > SOURCES:
                self._skipped_bits = 2 * self._skipped_bits + 1
                self._targets = {key: count for key, count in self._targets.items() if not key & self._skipped_bits}

    def result(self) -> Relation:
        """Return the statistics of all rows so far."""
        rows = max(1, sum(targets.total() for targets in self._targets.values()))
        return Relation(
            copied=beyond_chance(copied, self._sample),
            stem=beyond_chance(stem, self._sample[:STEMS]),
            copied_words=beyond_chance(copied_words, self._sample),
            repeated=1 - sum(len(targets) for targets in self._targets.values()) / rows,
            kept=beyond_chance(kept, self._sample),
        )


def beyond_chance(share: Callable[[Sequence[Pair]], float], pairs: Sequence[Pair]) -> float:
    """Return a share between 0, where it is that of sources beside the targets of other sources, and 1."""
    shuffled = random.Random(1).sample(pairs, len(pairs))
    others = [replace(p, target=other.target) for p, other in zip(pairs, shuffled) if p.source != other.source]
    real, chance = share(pairs), share(others)
    return max(0.0, (real - chance) / (1 - chance)) if chance < 1 else 0.0


def stem(pairs: Sequence[Pair]) -> float:
    """Return the mean share of a source that stands in its target, in stretches of three characters or more."""
    sides = [(p.source[:STEM_LONGEST], p.target[:STEM_LONGEST]) for p in pairs if p.source]
    shares = [sum(stretch.length for stretch in stretches(*both)) / len(both[0]) for both in sides]
    return sum(shares) / max(1, len(shares))


def copied(pairs: Sequence[Pair]) -> float:
    """Return the mean share of a target that is its longest common subsequence with the source."""
    shares = [
        LCSseq.similarity(p.source[:LONGEST], p.target[:LONGEST]) / len(p.target[:LONGEST]) for p in pairs if p.target
    ]
    return sum(shares) / max(1, len(shares))


def kept(pairs: Sequence[Pair]) -> float:
    """Return the mean, over the rarest third of the sources' characters, of the share of pairs that keep each."""
    pairs_with, pairs_that_keep = Counter[str](), Counter[str]()
    for pair in set(pairs):
        characters = set(pair.source[:LONGEST])
        pairs_with.update(characters)
        pairs_that_keep.update(characters & set(pair.target))
    rare = sorted(pairs_with, key=lambda c: (pairs_with[c], c))[: -(-len(pairs_with) // 3)]
    return sum(pairs_that_keep[c] / pairs_with[c] for c in rare) / max(1, len(rare))


def copied_words(pairs: Sequence[Pair]) -> float:
    """Return the share of all target words of three letters or more that are also words of their source."""
    words = [(set(_WORDS.findall(p.source)), _WORDS.findall(p.target)) for p in pairs]
    return sum(word in source for source, target in words for word in target) / max(1, sum(len(t) for _, t in words))
