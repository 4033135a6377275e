"""Searching the frames of a CTC model: the best path, a drawn path, and prefix beam search (Graves 2012, Hannun 2014).

A path has a symbol or the blank at every frame; equal neighbours are merged, then blanks removed. The probability of an
output is the sum over its paths. Token scores are the exact chain: log p(begins with y₁…yₖ | begins with y₁…yₖ₋₁), and
last log p(is y₁…yₙ | begins with it).
"""

# S frames · V symbols · K hypotheses

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.core.kinds import Hypothesis
from weft.core.pair import PAD

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


def prefix_beam(frames: Frames, width: int) -> list[Hypothesis]:
    """Return the outputs of a beam of this width, the best first."""
    open_: dict[Ids, tuple[float, float]] = {(): (0.0, NEVER)}  # log p of paths that end in a blank, and in a symbol
    for frame in frames:
        grown: dict[Ids, tuple[float, float]] = {}
        likely = [int(s) for s in np.argsort(-frame)[: width + 1] if s != BLANK and frame[s] > NEVER]
        for prefix, (blank, symbol) in open_.items():
            _grow(grown, prefix, blank, symbol, frame, likely)
        ranked = sorted(grown.items(), key=lambda item: (-np.logaddexp(*item[1]), item[0]))
        open_ = dict(ranked[:width])
    return sorted((scored(frames, ids) for ids in open_), key=lambda h: -h.score)


def _grow(
    grown: dict[Ids, tuple[float, float]],
    prefix: Ids,
    blank: float,
    symbol: float,
    frame: Floats,
    likely: list[int],
) -> None:
    """Add one frame: a blank or the last symbol again leaves the prefix as it is; another symbol extends it."""
    total = np.logaddexp(blank, symbol)
    _add(grown, prefix, total + frame[BLANK], NEVER)
    if prefix:
        _add(grown, prefix, NEVER, symbol + frame[prefix[-1]])
    for s in likely:
        before = blank if prefix and s == prefix[-1] else total  # the same symbol again needs a blank between
        if before > NEVER:
            _add(grown, (*prefix, s), NEVER, before + frame[s])


def _add(grown: dict[Ids, tuple[float, float]], prefix: Ids, blank: float, symbol: float) -> None:
    old = grown.get(prefix, (NEVER, NEVER))
    grown[prefix] = (float(np.logaddexp(old[0], blank)), float(np.logaddexp(old[1], symbol)))


def scored(frames: Frames, ids: Ids) -> Hypothesis:
    """Return an output with its exact log-probability, as a chain over its symbols and its end; the sum ranks it."""
    blank, symbol = np.cumsum(frames[:, BLANK]), np.full(len(frames), NEVER)  # after each frame, for the empty prefix
    chain, begun = [], 0.0
    for position, s in enumerate(ids):
        repeated = position > 0 and ids[position - 1] == s
        enter = _entering(frames[:, s], blank, symbol, repeated, empty=position == 0)
        begins = float(np.logaddexp.reduce(enter))
        chain.append(begins - begun if begun > NEVER else NEVER)
        begun = begins
        blank, symbol = _after(frames[:, s], frames[:, BLANK], enter)
    whole = float(np.logaddexp(blank[-1], symbol[-1]))
    return Hypothesis(ids, (*chain, whole - begun if begun > NEVER else NEVER), whole)


def _entering(
    log_probs: Floats,
    blank: Floats,
    symbol: Floats,
    repeated: bool,
    empty: bool,
) -> Floats:
    """Return log p that the next symbol comes for the first time at each frame."""
    before = blank if repeated else np.logaddexp(blank, symbol)
    first = 0.0 if empty else NEVER  # before the first frame
    entering: Floats = log_probs + np.concatenate([[first], before[:-1]])
    return entering


def _after(log_probs: Floats, blanks: Floats, enter: Floats) -> tuple[Floats, Floats]:
    """Return log p of the prefix after each frame, over paths that end in a blank, and in its last symbol."""
    blank, symbol = np.full(len(log_probs), NEVER), np.full(len(log_probs), NEVER)
    was_blank = was_symbol = NEVER
    for t in range(len(log_probs)):
        was_blank, was_symbol = (
            blanks[t] + np.logaddexp(was_blank, was_symbol),
            np.logaddexp(was_symbol + log_probs[t], enter[t]),
        )
        blank[t], symbol[t] = was_blank, was_symbol
    return blank, symbol
