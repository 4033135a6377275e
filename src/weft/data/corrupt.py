"""Corruption: what a model reads in the place of a text that it learns to restore.

A corrupted row is a pure function of seed, epoch and row: whoever asks again gets the same. `Masking` hides symbols at
their places (Devlin 2019): positions are never hidden, so each hidden symbol is asked for by itself. `Noising` drops
and shuffles words and puts one mask in the place of a span (Lample 2018, Lewis 2020), so lengths and positions change.
"""

# n symbols of a row · k of them chosen

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.core.pair import HIDDEN

Ids = npt.NDArray[np.int64]
Random = np.random.Generator
CORRUPTED = 3  # tells these draws from others of the same seed, epoch and row
FEWEST_WORDS = 4  # of a row whose words are dropped and shuffled; in a shorter one, symbols are


def generator(seed: int, epoch: int, row: int) -> Random:
    """Return the random numbers of one row in one epoch."""
    return np.random.default_rng((seed, epoch, row, CORRUPTED))


@dataclass(frozen=True)
class Masking:
    """Some symbols are chosen: most of them are hidden, some replaced by random symbols, the others left."""

    symbols: int  # ids from HIDDEN + 1 up to this are symbols of text
    share: float
    hidden: float
    replaced: float

    def source(self, ids: Ids, random: Random) -> Ids:
        """Return what is read."""
        chosen = self._chosen(ids, random)
        way, others = random.random(len(chosen)), random.integers(HIDDEN + 1, self.symbols, len(chosen))
        kept = np.where(way < self.hidden + self.replaced, others, ids[chosen])
        corrupted: Ids = ids.copy()
        corrupted[chosen] = np.where(way < self.hidden, HIDDEN, kept)
        return corrupted

    def target(self, ids: Ids, random: Random) -> Ids:
        """Return what is predicted: the positions and the symbols that were chosen (k, 2)."""
        chosen = self._chosen(ids, random)
        return np.stack([chosen, ids[chosen]], axis=1)

    def _chosen(self, ids: Ids, random: Random) -> Ids:
        """Return the positions of at least one symbol; unknown ones only where there are no others."""
        known = np.flatnonzero(ids > HIDDEN)
        known = known if len(known) else np.arange(len(ids))
        return np.sort(random.permutation(known)[: max(1, round(self.share * len(known)))])


@dataclass(frozen=True)
class Noising:
    """Words are dropped and moved by some places, and spans of symbols become one mask each."""

    opens: npt.NDArray[np.bool_]  # by id: whether the symbol begins a word
    closes: npt.NDArray[np.bool_]  # by id: whether the next symbol does
    spans: float  # share of symbols
    span: float  # mean length
    dropped: float  # share of words
    shuffled: float  # places that a word moves, at most

    def source(self, ids: Ids, random: Random) -> Ids:
        """Return what is read."""
        words = np.split(ids, np.flatnonzero(self._begins(ids)[1:]) + 1)
        kept = np.flatnonzero(random.random(len(words)) >= self.dropped)
        order = kept[np.argsort(kept + (1 + self.shuffled) * random.random(len(kept)))] if self.shuffled else kept
        left = np.concatenate([words[number] for number in order]) if len(order) else ids
        return self._with_masks(left, random)

    def target(self, ids: Ids, random: Random) -> Ids:
        """Return what is predicted: all of the text."""
        return ids

    def _begins(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Return whether each symbol begins a word; where there are few words, every symbol is one."""
        begins = self.opens[ids]
        begins[1:] |= self.closes[ids[:-1]]
        begins[:1] = True
        return begins if begins.sum() >= FEWEST_WORDS else np.ones(len(ids), dtype=np.bool_)

    def _with_masks(self, ids: Ids, random: Random) -> Ids:
        """Put one mask in the place of each span."""
        count = random.binomial(len(ids), min(1.0, self.spans / self.span))
        begins, lengths = random.integers(len(ids), size=count), 1 + random.poisson(self.span - 1, count)
        inside = np.zeros(len(ids), dtype=np.bool_)
        for begin, length in zip(begins, lengths):
            inside[begin : begin + length] = True
        first = inside & ~np.concatenate([[False], inside[:-1]])
        masked: Ids = np.where(first, HIDDEN, ids)
        shorter: Ids = masked[~inside | first]
        return shorter


Corruption = Masking | Noising


def word_marks(names: Sequence[str], kind: str) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which symbols of a tokeniser begin a word, and after which ones a word begins."""
    if kind == "words":
        return np.ones(len(names), dtype=np.bool_), np.zeros(len(names), dtype=np.bool_)
    if kind in ("bpe", "unigram"):
        opens = [name[:1].isspace() for name in names]
        return np.array(opens), np.zeros(len(names), dtype=np.bool_)
    spaces = ("09", "0a", "20") if kind == "bytes" else ()
    closes = [name.isspace() or name in spaces for name in names]
    return np.zeros(len(names), dtype=np.bool_), np.array(closes)


def corruption_of(task: str, amounts: dict[str, Any], names: Sequence[str], kind: str) -> Corruption:
    """Return the corruption of a task, for a tokeniser with these symbols."""
    if task == "masked-lm":
        return Masking(len(names), **amounts)
    return Noising(*word_marks(names, kind), **amounts)
