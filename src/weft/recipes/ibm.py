"""Word alignment without a network: IBM model 1 (Brown 1993) with a preference for the diagonal (Dyer 2013).

p(e | f) = Πₜ Σₛ a(s | t) · p(eₜ | fₛ), a(s | t) ∝ exp(−λ |s/S − t/T|), and an empty word that any e may come from. The
translation probabilities are learned by expectation maximisation.
"""

# S source words · T target words · N entries of all pairs, T · (1 + S) each · K different pairs of words

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.look.inspect.alignment import Links, symmetrised
from weft.look.inspect.plots import Array

TENSION, EMPTY, ROUNDS = 4.0, 0.08, 5
UNKNOWN = 1e-9  # p(e | f) of words that never met
Words = Sequence[str]
SentencePair = tuple[Words, Words]


def diagonal(sources: int, targets: int) -> Array:
    """Return a(s | t) (T, 1 + S), the empty word first."""
    t, s = np.arange(targets)[:, None] / max(1, targets - 1), np.arange(sources)[None] / max(1, sources - 1)
    near = np.exp(-TENSION * np.abs(s - t))
    even = (1 - EMPTY) * near / near.sum(1, keepdims=True)
    return np.asarray(np.concatenate([np.full((targets, 1), EMPTY), even], axis=1))


@dataclass(frozen=True)
class Translations:
    """p(target word | source word) of all pairs of words that met, in the order of their keys (K,)."""

    sources: dict[str, int]  # the empty word is 0
    targets: dict[str, int]
    keys: npt.NDArray[np.int64]
    shares: Array

    def posteriors(self, pair: SentencePair) -> Array:
        """Return which source word (the first: none) each target word comes from (T, 1 + S)."""
        wanted = _keys(pair, self.sources, self.targets)
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        shares = np.where(self.keys[places] == wanted, self.shares[places], UNKNOWN)
        given = np.maximum(shares, UNKNOWN) * diagonal(len(pair[0]), len(pair[1]))
        return np.asarray(given / given.sum(1, keepdims=True))

    def links(self, pair: SentencePair) -> Links:
        """Link each target word to its most probable source word, unless that is the empty one."""
        return frozenset((int(s) - 1, t) for t, s in enumerate(self.posteriors(pair).argmax(1)) if s)


def _keys(pair: SentencePair, sources: dict[str, int], targets: dict[str, int]) -> npt.NDArray[np.int64]:
    """Return a number for each pair of words (T, 1 + S); −1 for words that are not known."""
    f = np.array([0, *(sources.get(word, -1) for word in pair[0])])[None]
    e = np.array([targets.get(word, -1) for word in pair[1]])[:, None]
    return np.where((f < 0) | (e < 0), -1, f * len(targets) + e)


def learn(pairs: Sequence[SentencePair], rounds: int = ROUNDS) -> Translations:
    """Learn p(target word | source word) from sentences and their translations, neither of them empty."""
    words = ("", *dict.fromkeys(word for source, _ in pairs for word in source))
    sources = {word: number for number, word in enumerate(words)}
    targets = {word: number for number, word in enumerate(dict.fromkeys(w for _, target in pairs for w in target))}
    every = [_keys(pair, sources, targets) for pair in pairs]
    keys, entries = np.unique(np.concatenate([each.ravel() for each in every]), return_inverse=True)  # (K,), (N,)
    near = np.concatenate([diagonal(len(source), len(target)).ravel() for source, target in pairs])
    widths = np.concatenate([np.full(len(each), each.shape[1]) for each in every])  # of the rows, one a target word
    starts = np.cumsum(widths) - widths
    owners = keys // len(targets)  # the source word of each pair of words
    shares = np.ones(len(keys)) / np.bincount(owners)[owners]
    for _ in range(rounds):
        weights = shares[entries] * near
        weights /= np.repeat(np.add.reduceat(weights, starts), widths)
        counts = np.bincount(entries, weights, len(keys))
        shares = counts / np.bincount(owners, counts)[owners]
    return Translations(sources, targets, keys, shares)


def aligned(training: Sequence[SentencePair], pairs: Sequence[SentencePair]) -> Iterator[Links]:
    """Learn both directions, and yield the symmetrised alignment of each pair."""
    there, back = learn(training), learn([(target, source) for source, target in training])
    for source, target in pairs:
        turned = frozenset((s, t) for t, s in back.links((target, source)))
        yield symmetrised(there.links((source, target)), turned)


def agreement(first: Links, second: Links) -> tuple[int, int, int]:
    """Return how many links both have, and how many each has."""
    return len(first & second), len(first), len(second)
