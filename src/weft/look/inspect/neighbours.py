"""View: which training lines are nearest to a line in the model's own terms, and where else its units are on.

The search is exact: the cosine with every line that was read, in blocks. For a language model, the neighbours are
places in the training text at which its state was most like the one at the end of the line.
"""

# Q lines · N training lines or symbols · D width · U units

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.core.pair import Pair
from weft.look.inspect.encodings import encodings, what_is_handed_over
from weft.look.inspect.limits import MOST_COMPARED
from weft.look.inspect.plots import Array, Cell, Plot, Plots, Table
from weft.look.inspect.subject import Subject
from weft.look.inspect.units import Ints, Reading, check_units, parts_of, read
from weft.look.inspect.views import DoesNotApply, Material, View

NEAREST = 10  # that are shown
SHOWN_LINES = 8  # whose neighbours are shown
PATTERN = 3  # units of a pattern, if none are asked for
ON = 1.0  # standard deviations above (or below) a unit's mean, from which on it is on
SNIPPET = 40  # characters on either side
BLOCK = 4_096


def nearest(queries: Array, rows: Array, count: int) -> tuple[Ints, Array]:
    """Return the `count` rows (N, D) of the largest cosine with each query (Q, D), largest first, and the cosines."""
    unit = [x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) for x in (queries, rows)]
    best, cosines = np.zeros((len(queries), 0), dtype=np.int64), np.zeros((len(queries), 0))
    for first in range(0, len(rows), BLOCK):
        block = unit[0] @ unit[1][first : first + BLOCK].T  # (Q, block)
        numbers = np.broadcast_to(np.arange(first, first + block.shape[1]), block.shape)
        best, cosines = np.concatenate([best, numbers], axis=1), np.concatenate([cosines, block], axis=1)
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
        best, cosines = np.take_along_axis(best, order, 1), np.take_along_axis(cosines, order, 1)
    return best, cosines


@dataclass(frozen=True)
class Pattern:
    """Units that are on together: each above its mean, or below it."""

    units: Sequence[str]
    signs: Array  # (U,)

    def strength(self, reading: Reading) -> Array:
        """Return at each symbol how many standard deviations the least of the units is on (N,)."""
        values = np.stack([reading.unit(name) for name in self.units], axis=1)  # (N, U)
        scale = np.maximum(values.std(0), 1e-9)
        return np.asarray((self.signs * (values - values.mean(0)) / scale).min(1))


def pattern_at(reading: Reading, last: Array, asked: Sequence[str]) -> Pattern:
    """Return the units that were asked for, or those that are most unusual in a state (D,) of all units."""
    states = reading.matrix
    distance = (last - states.mean(0)) / np.maximum(states.std(0), 1e-9)
    names = reading.names
    chosen = [names.index(name) for name in asked if name in names] or np.argsort(-np.abs(distance))[:PATTERN].tolist()
    signs = np.sign(distance[chosen])
    return Pattern([names[i] for i in chosen], np.where(signs == 0, 1.0, signs))


def of_all(material: Material) -> Plots:
    subject, training = material.subject, list(material.training())[:MOST_COMPARED]
    if not training:
        todo = "put the training files back where they were, or look at another run"
        raise DoesNotApply("the lines that this run was trained on are not where they were", todo)
    lines = material.lines[:SHOWN_LINES]
    pairs = [line.written for line in lines]
    plots: dict[str, Plot] = {}
    part = parts_of(subject)[0]
    reading = read(subject, subject.model, training, part)
    if subject.is_language_model:
        plots |= _places(subject, pairs, reading)
    else:
        plots |= _lines(subject, pairs, training)
    plots |= _patterns(material, pairs, reading, part)
    return plots


def _lines(subject: Subject, pairs: Sequence[Pair], training: Sequence[Pair]) -> dict[str, Plot]:
    queries, rows = (encodings(subject, subject.model, each) for each in (pairs, training))
    best, cosines = nearest(queries, rows, NEAREST)
    plots: dict[str, Plot] = {}
    for number, (pair, found, near) in enumerate(zip(pairs, best, cosines, strict=True), 1):
        table: list[list[Cell]] = [
            [rank, float(cosine), training[i].source, training[i].target, _same(pair, training[i])]
            for rank, (i, cosine) in enumerate(zip(found.tolist(), near), 1)
        ]
        note = f"Among {len(training):,} training lines, by the cosine of {what_is_handed_over(subject.model)}."
        columns = ["", "cosine", "training input", "its output", ""]
        plots[f"line {number}"] = Table(f"Nearest to line {number}: {pair.source[:SNIPPET]}", columns, table, note)
    return plots


def _same(pair: Pair, other: Pair) -> str:
    return "same input" if pair.source == other.source else "same output" if pair.target == other.target else ""


def _places(subject: Subject, pairs: Sequence[Pair], reading: Reading) -> dict[str, Plot]:
    """Return where in the training text the state was most like the one at the end of each line."""
    top = list(reading.states)[-1]
    plots: dict[str, Plot] = {}
    for number, pair in enumerate(pairs, 1):
        last = read(subject, subject.model, [pair], "decode").states[top][-1:]
        best, cosines = nearest(last, reading.states[top], NEAREST)
        table: list[list[Cell]] = [
            [rank, float(cosine), *around(reading, int(i))]
            for rank, (i, cosine) in enumerate(zip(best[0], cosines[0]), 1)
        ]
        note = f"Among {len(reading):,} symbols of the training text, by the cosine of {top}."
        columns = ["", "cosine", "text before", "text after"]
        title = f"Places most like the end of line {number}: …{pair.source[-SNIPPET:]}"
        plots[f"line {number}"] = Table(title, columns, table, note)
    return plots


def around(reading: Reading, index: int) -> tuple[str, str]:
    """Return the symbols up to and including a place, and those after it, within its line."""
    same = np.flatnonzero(reading.line == reading.line[index])
    before = range(max(int(same[0]), index - SNIPPET + 1), index + 1)
    after = range(index + 1, min(int(same[-1]) + 1, index + 1 + SNIPPET))
    joint = "" if reading.ends is not None and all(len(token) == 1 for token in reading.tokens[:50]) else " "
    first, second = (joint.join(reading.tokens[i] for i in places) for places in (before, after))
    return first, second


def _patterns(material: Material, pairs: Sequence[Pair], reading: Reading, part: str) -> dict[str, Plot]:
    """Return where else in the training text the units are on that are on at the end of the first line."""
    subject, asked = material.subject, list(material.options.units)
    check_units(subject, pairs, asked)
    here = read(subject, subject.model, pairs[:1], part)
    pattern = pattern_at(reading, here.matrix[-1], asked)
    strength = pattern.strength(reading)
    table: list[list[Cell]] = [
        [rank, float(strength[i]), *around(reading, int(i))] for rank, i in enumerate(strongest(strength, reading), 1)
    ]
    units = ", ".join(f"{name} {'high' if sign > 0 else 'low'}" for name, sign in zip(pattern.units, pattern.signs))
    share = float((strength >= ON).mean())
    note = (
        f"All of these units are on (at least {ON:g} standard deviation from their mean) at {100 * share:.2g} % of "
        f"{len(reading):,} symbols of training text. The strongest are shown, one for each line; `--unit` names others."
    )
    columns = ["", "strength", "text before", "text after"]
    return {"pattern": Table(f"Where else a pattern is on: {units}", columns, table, note)}


def strongest(strength: Array, reading: Reading) -> list[int]:
    """Return the places where a pattern is strongest, at most one of each line."""
    seen: set[int] = set()
    chosen: list[int] = []
    for i in np.argsort(-strength, kind="stable").tolist():
        if strength[i] < ON or len(chosen) == NEAREST:
            break
        if int(reading.line[i]) not in seen:
            seen.add(int(reading.line[i]))
            chosen.append(i)
    return chosen


def why_not(subject: Subject) -> str:
    """Return why lines have no neighbours."""
    return "" if parts_of(subject) else "this model has no layers whose states could be compared"


VIEW = View(
    "neighbours",
    "Neighbours in the training data",
    "The training lines that the model encodes most like each line (for a language model: the places in the training "
    "text where its state was most alike), and where else the units that are on at the end of the first line are on.",
    why_not,
    of_all=of_all,
)
