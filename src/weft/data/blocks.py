"""Pairs by the block: some thousand at a time, one list a side, so that passes over millions of rows stay fast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from typing import NamedTuple

from weft.core.pair import Pair

ROWS = 4096
Row = tuple[str, str, str, tuple[str, ...], tuple[str, ...], str]  # the fields of a Pair


class Extras(NamedTuple):
    """What only some pairs have besides their two texts."""

    tag: str = ""
    features: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    context: str = ""


NONE = Extras()


@dataclass(frozen=True)
class Block:
    """Neighbouring pairs; `extras` holds what is not in the two lists, by row."""

    sources: Sequence[str]
    targets: Sequence[str]
    extras: Mapping[int, Extras]

    def __len__(self) -> int:
        return len(self.sources)

    def pair(self, row: int) -> Pair:
        return Pair(self.sources[row], self.targets[row], *self.extras.get(row, NONE))

    def pairs(self) -> Iterator[Pair]:
        if not self.extras:
            return map(Pair, self.sources, self.targets)
        return map(self.pair, range(len(self)))

    def all_targets(self) -> Iterable[str]:
        """Return the targets, and all further references."""
        if not self.extras:
            return self.targets
        return chain(self.targets, *(extras.references for extras in self.extras.values()))

    def only(self, wanted: Sequence[bool]) -> Block:
        """Return the block without the rows that are not wanted."""
        rows = list(compress(range(len(self)), wanted))
        extras = {new: self.extras[row] for new, row in enumerate(rows) if row in self.extras}
        return Block([self.sources[r] for r in rows], [self.targets[r] for r in rows], extras)


def blocks(rows: Iterable[Row]) -> Iterator[Block]:
    """Yield rows as blocks of at most ROWS."""
    iterator = iter(rows)
    while chunk := list(islice(iterator, ROWS)):
        sources, targets, *others = zip(*chunk)
        plain = not any(map(any, others))
        extras = {} if plain else {row: Extras(*each[2:]) for row, each in enumerate(chunk) if any(each[2:])}
        yield Block(sources, targets, extras)


def unswapped(block: Block) -> Block:
    """Return a block with each row that is the row before it, the other way round, replaced by that row."""
    rows = [row - row % 2 for row in range(len(block))]
    extras = {new: block.extras[row] for new, row in enumerate(rows) if row in block.extras}
    return Block([block.sources[row] for row in rows], [block.targets[row] for row in rows], extras)


def blocks_of(pairs: Iterable[Pair]) -> Iterator[Block]:
    """Yield pairs as blocks."""
    return blocks((p.source, p.target, p.tag, p.features, p.references, p.context) for p in pairs)
