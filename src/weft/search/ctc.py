"""Searching the frames of a CTC model: the best path, a drawn path, and prefix beam search (Graves 2012, Hannun 2014).

A path has a symbol or the blank at every frame; equal neighbours are merged, then blanks removed. The probability of an
output is the sum over its paths. Token scores are the exact chain: log p(begins with y₁…yₖ | begins with y₁…yₖ₋₁), and
last log p(is y₁…yₙ | begins with it).
"""

# S frames · V symbols · K hypotheses

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from weft.core.kinds import Hypothesis
from weft.core.pair import PAD
from weft.search.clock import NO_LIMIT, Clock

Floats = npt.NDArray[np.float64]
Frames = Floats  # (S, V) log-probabilities
NEVER = -np.inf
BLANK = PAD
DRAWS = 20  # paths drawn for each output wanted, at most
Ids = tuple[int, ...]


def best_path(frames: Frames) -> Hypothesis:
    """Return the output of the most probable symbol at each frame."""
    return scored(frames, merged(frames.argmax(1)))


def drawn(frames: Frames, chances: Frames, random: np.random.Generator, count: int) -> list[Hypothesis]:
    """Return different outputs of paths drawn by `chances`, the most probable first; `count`, or as many as come."""
    outputs: dict[Ids, None] = {}
    for _ in range(DRAWS * count):
        outputs[merged((chances + random.gumbel(size=chances.shape)).argmax(1))] = None
        if len(outputs) == count:
            break
    return sorted((scored(frames, ids) for ids in outputs), key=lambda h: -h.score)


def merged(path: npt.NDArray[np.int64]) -> Ids:
    """Merge equal neighbours, then remove blanks."""
    first = np.concatenate([[True], path[1:] != path[:-1]])
    return tuple(int(s) for s in path[first] if s != BLANK)


class _Prefix:
    """What a hypothesis has written: the prefix before it and one more symbol. The same prefix is the same object."""

    __slots__ = ("_longer", "before", "symbol")

    def __init__(self, before: _Prefix | None = None, symbol: int = BLANK) -> None:
        self.before, self.symbol = before, symbol
        self._longer: dict[int, _Prefix] = {}

    def with_symbol(self, symbol: int) -> _Prefix:
        longer = self._longer.get(symbol)
        if longer is None:
            longer = self._longer[symbol] = _Prefix(self, symbol)
        return longer

    @property
    def ids(self) -> Ids:
        ids, prefix = [], self
        while prefix.before is not None:
            ids.append(prefix.symbol)
            prefix = prefix.before
        return tuple(reversed(ids))

    def __lt__(self, other: _Prefix) -> bool:
        return self.ids < other.ids


def prefix_beam(frames: Frames, width: int, clock: Clock = NO_LIMIT) -> list[Hypothesis]:
    """Return the outputs of a beam of this width, the best first; of the frames so far when the clock rings."""
    open_ = {_Prefix(): (0.0, NEVER)}  # log p of paths that end in a blank, and in a symbol
    for frame in frames:
        if clock.is_over():
            break
        grown: dict[_Prefix, tuple[float, float]] = {}
        likely = [int(s) for s in np.argsort(-frame)[: width + 1] if s != BLANK and frame[s] > NEVER]
        for prefix, (blank, symbol) in open_.items():
            _grow(grown, prefix, blank, symbol, frame, likely)
        ranked = sorted(grown.items(), key=lambda item: (-np.logaddexp(*item[1]), item[0]))
        open_ = dict(ranked[:width])
    return sorted((scored(frames, prefix.ids) for prefix in open_), key=lambda h: -h.score)


def _grow(
    grown: dict[_Prefix, tuple[float, float]],
    prefix: _Prefix,
    blank: float,
    symbol: float,
    frame: Floats,
    likely: list[int],
) -> None:
    """Add one frame: a blank or the last symbol again leaves the prefix as it is; another symbol extends it."""
    total = np.logaddexp(blank, symbol)
    _add(grown, prefix, total + frame[BLANK], NEVER)
    if prefix.before is not None:
        _add(grown, prefix, NEVER, symbol + frame[prefix.symbol])
    for s in likely:
        before = blank if s == prefix.symbol else total  # the same symbol again needs a blank between
        if before > NEVER:
            _add(grown, prefix.with_symbol(s), NEVER, before + frame[s])


def _add(grown: dict[_Prefix, tuple[float, float]], prefix: _Prefix, blank: float, symbol: float) -> None:
    old = grown.get(prefix, (NEVER, NEVER))
    grown[prefix] = (float(np.logaddexp(old[0], blank)), float(np.logaddexp(old[1], symbol)))


def aligned(frames: Frames, ids: Sequence[int]) -> list[int]:
    """Return the frame at which each symbol begins on the most probable path of these symbols; none if there is none.

    The states of the path are blank, s₁, blank, s₂, …, blank; a blank between two different symbols may be left out.
    """
    states = np.array([BLANK] + [part for symbol in ids for part in (symbol, BLANK)])
    skips = np.zeros(len(states), dtype=bool)
    skips[2:] = (states[2:] != BLANK) & (states[2:] != states[:-2])
    best, steps = np.full(len(states), NEVER), []
    best[:2] = frames[0, states[:2]]
    for frame in frames[1:]:
        ways = np.stack([best, np.roll(best, 1), np.where(skips, np.roll(best, 2), NEVER)])
        ways[1, 0] = ways[2, :2] = NEVER
        steps.append(ways.argmax(0))
        best = ways.max(0) + frame[states]
    state = len(states) - 1 if len(states) == 1 or best[-1] >= best[-2] else len(states) - 2
    if best[state] == NEVER:
        return []
    path = [state]
    for came in reversed(steps):
        path.append(path[-1] - int(came[path[-1]]))
    return [path[::-1].index(2 * number + 1) for number in range(len(ids))]


def scored(frames: Frames, ids: Ids) -> Hypothesis:
    """Return an output with its exact log-probability, as a chain over its symbols and its end; the sum ranks it.

    One frame after the other, for all prefixes of the output at once: entry k is about the first k symbols.
    """
    symbols = np.array(ids, dtype=np.int64)
    repeated = np.concatenate([[False], symbols[1:] == symbols[:-1]])[: len(ids)]
    blank, symbol = np.full(len(ids) + 1, NEVER), np.full(len(ids) + 1, NEVER)  # log p, by how its paths end
    begins = np.full(len(ids), NEVER)  # that the output so far begins with the prefix
    blank[0] = 0.0
    for frame in frames:
        entering = frame[symbols] + np.where(repeated, blank[:-1], np.logaddexp(blank[:-1], symbol[:-1]))
        begins = np.logaddexp(begins, entering)
        blank, same = frame[BLANK] + np.logaddexp(blank, symbol), symbol[1:] + frame[symbols]
        symbol[1:] = np.logaddexp(same, entering)
    chain, begun = [], 0.0
    for each in begins.tolist():
        chain.append(each - begun if begun > NEVER else NEVER)
        begun = each
    whole = float(np.logaddexp(blank[-1], symbol[-1]))
    return Hypothesis(ids, (*chain, whole - begun if begun > NEVER else NEVER), whole)
