"""Which rows go into which batch: a pure function of lengths, token budget, seed and epoch.

Rows are shuffled, sorted by length within large pools (into strips by target length, by source length within a strip,
so that both sides pad little), cut where the token budget is full, and the batches shuffled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

POOL = 1 << 18  # rows sorted together
BLOCK = 1 << 18  # rows looked at together
MOST_REPEATS = 10  # of a row in an epoch, where tags are evened out
WHICH_REFERENCE = 1  # tells the draws of references from the shuffling
Lengths = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int32]


@dataclass(frozen=True)
class EpochPlan:
    """An epoch: the rows in order, and where each batch begins and ends, in shuffled order."""

    rows: Rows
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, number: int) -> Rows:
        return self.rows[self.begins[number] : self.ends[number]]

    def __iter__(self) -> Iterator[Rows]:
        return (self[number] for number in range(len(self)))


@dataclass(frozen=True)
class Thinning:
    """Rows that share a source have the same number in `sources`; n of them count n to the `power` times."""

    sources: Rows
    power: float

    def __call__(self, rows: Rows, random: np.random.Generator) -> Rows:
        """The rows of one epoch: the first of each source's, as many as count, a fraction of one by chance."""
        of = self.sources[rows]
        order, count = np.argsort(of, kind="stable"), np.bincount(of)
        kept = np.floor(count**self.power + random.random(len(count)))
        rank = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        return rows[np.sort(order[rank < np.repeat(kept, count)])]


@dataclass(frozen=True)
class Mixing:
    """Rows with the same number in `groups` share a tag; a tag of n rows is used in proportion to n^(1/temperature).

    An epoch has as many rows as before (Arivazhagan 2019), but no row more than MOST_REPEATS times, which keeps a tag
    of ten rows from being learned by heart beside one of a million.
    """

    groups: Rows
    temperature: float

    def __call__(self, rows: Rows, random: np.random.Generator) -> Rows:
        """The rows of one epoch: each as often as its tag needs, a fraction of once by chance."""
        of = self.groups[rows]
        count = np.bincount(of).astype(np.float64)
        weight = np.where(count > 0, count, 1) ** (1 / self.temperature) * (count > 0)
        times = len(rows) * weight / weight.sum() / np.maximum(count, 1)
        copies = np.floor(np.minimum(times, MOST_REPEATS)[of] + random.random(len(rows)))
        mixed = np.repeat(rows, copies.astype(np.int64))
        random.shuffle(mixed)
        return mixed


@dataclass(frozen=True)
class References:
    """Rows whose targets are references of the same pair are neighbours, and have the same number in `pairs`."""

    pairs: Rows

    def __call__(self, rows: Rows, seed: int, epoch: int) -> Rows:
        """Return one row of each pair, drawn anew for each epoch; `rows` are in order."""
        of = self.pairs[rows]
        first = np.flatnonzero(np.diff(of, prepend=-1))
        count = np.diff(first, append=len(of))
        drawn = np.random.default_rng((seed, epoch, WHICH_REFERENCE)).random(int(self.pairs[-1]) + 1)[of[first]]
        return rows[first + (drawn * count).astype(np.int64)]


def plan(
    source: Lengths,
    target: Lengths,
    batch_tokens: int,
    seed: int,
    epoch: int,
    thinning: Thinning | None = None,
    references: References | None = None,
    mixing: Mixing | None = None,
) -> EpochPlan:
    """Return the batches of one epoch. Rows that alone exceed the budget are left out (`too_long` tells how many)."""
    random = np.random.default_rng((seed, epoch))
    rows = np.flatnonzero(np.maximum(source, target) <= batch_tokens).astype(np.int32)
    if references is not None:
        rows = references(rows, seed, epoch)
    random.shuffle(rows)
    if thinning is not None:
        rows = thinning(rows, random)
    if mixing is not None:
        rows = mixing(rows, random)
    bounds: list[int] = []
    for first in range(0, len(rows), POOL):
        pool = rows[first : first + POOL]
        pool[:] = pool[_by_length(source[pool], target[pool], batch_tokens)]
        bounds.extend(first + end for end in cuts(np.maximum(source[pool], target[pool]), batch_tokens))
    ends = np.asarray(bounds, dtype=np.int64)
    begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    order = random.permutation(len(ends))
    return EpochPlan(rows, begins[order], ends[order])


def too_long(source: Lengths, target: Lengths, batch_tokens: int) -> int:
    """How many rows do not fit into a batch even alone."""
    blocks = (slice(first, first + BLOCK) for first in range(0, len(target), BLOCK))
    return sum(int((np.maximum(source[some], target[some]) > batch_tokens).sum()) for some in blocks)


def by_length(source: Lengths, target: Lengths, batch_tokens: int) -> Iterator[npt.NDArray[np.int64]]:
    """Batches in a fixed order, for validation and the like; every row is in one, however long."""
    order = _by_length(source, target, batch_tokens)
    begin = 0
    for end in cuts(np.maximum(source, target)[order], batch_tokens):
        yield order[begin:end]
        begin = end


def _by_length(source: Lengths, target: Lengths, batch_tokens: int) -> npt.NDArray[np.int64]:
    """Strips of similar target length, each sorted by source length, up and down in turns so that no batch jumps.

    1.4 √batches strips waste least (docs/LOG.md).
    """
    tokens = int(np.maximum(source, target).sum(dtype=np.int64))
    strips = max(1, round(1.4 * (tokens / batch_tokens) ** 0.5))
    by_target = np.argsort(target, kind="stable")
    strip = np.empty(len(target), dtype=np.int64)
    strip[by_target] = np.arange(len(target)) * strips // max(1, len(target))
    return np.lexsort((np.where(strip % 2 == 0, source, -source), strip))


def cuts(lengths: Lengths, batch_tokens: int) -> Iterator[int]:
    """Where batches end: as many rows as fit when each is padded to the longest of them, at least one."""
    begin = 0
    while begin < len(lengths):
        window = lengths[begin : begin + max(1, batch_tokens // max(1, int(lengths[begin])))]
        cost = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
        begin += max(1, int(np.searchsorted(cost, batch_tokens, side="right")))
        yield begin
