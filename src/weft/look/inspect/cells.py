"""View: what single units keep track of. Units are chosen on one part of a text and judged on the other.

A unit that tracks something that is there or not is judged by its AUC: the chance that it is higher where the thing is
there (or lower, if that is how it was on the first part). For numbers, such as the place in the line, it is Pearson's
correlation. Beside the best unit stand that of an untrained model of the same shape, and a linear probe on all units.
"""

# N symbols · D units

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.core.errors import UserError
from weft.look.inspect.limits import SHOWN_TEXT
from weft.look.inspect.plots import Array, Cell, Panel, Plot, Plots, Shaded, Table
from weft.look.inspect.probes import Split, outputs
from weft.look.inspect.statistics import auc, auc_of_ranks, correlation, ranks_of
from weft.look.inspect.subject import Subject
from weft.look.inspect.tracked import Tracked, tracked_in
from weft.look.inspect.units import GATES, Reading, check_units, parts_of, read, split_unit
from weft.look.inspect.views import Material, View

LEAST_SYMBOLS = 200  # of a text on which units are ranked
ENOUGH_SYMBOLS = 10_000  # below which training text is read instead, if there is more
GATES_READ = 3_000  # symbols over which gates are read
CLEAR = 0.15  # clarity from which on text is coloured by a unit
MOST_SHOWN = 6  # units by which text is coloured, without being asked for others


@dataclass(frozen=True)
class Best:
    """The unit that tracks something best on the text that chose it, and how well on the other part."""

    unit: str
    chosen: float
    other: float
    probe: float  # a linear probe on all units, on the other part
    rises: bool  # whether the unit is higher where the thing is there
    chance: float  # what guessing would reach

    @property
    def clarity(self) -> float:
        """How well the unit tracks on other text, from 0 (chance) to 1."""
        return (self.other - self.chance) / (1 - self.chance)


def judged(states: Array, wanted: Tracked) -> Array:
    """Return for each column of states (N, D) how well it tracks something: AUC from 0 to 1, or correlation."""
    return auc(states, wanted.values) if wanted.binary else correlation(states, wanted.values)


def best_units(reading: Reading, tracked: Sequence[Tracked], split: Split) -> dict[str, Best]:
    """Choose units on one part of the text, and judge them, and a probe on all units, on the other."""
    states, names = reading.matrix, reading.names
    first = states[split.train]
    ranks = ranks_of(first) if any(each.binary for each in tracked) else first
    best = {}
    for wanted in tracked:
        truth = wanted.values[split.train]
        scores = auc_of_ranks(ranks, truth) if wanted.binary else correlation(first, truth)
        best[wanted.name] = _best(states, names, wanted, scores, split)
    return best


def _best(states: Array, names: Sequence[str], wanted: Tracked, scores: Array, split: Split) -> Best:
    chance, other = 0.5 if wanted.binary else 0.0, wanted.at(split.test)
    index = int(np.abs(np.nan_to_num(scores, nan=chance) - chance).argmax())
    both = [float(scores[index]), float(judged(states[split.test, index : index + 1], other)[0])]
    rises = both[0] >= chance
    chosen, tested = both if rises else [2 * chance - each for each in both]
    probe = outputs(states, wanted.values, split, "linear", 1 if wanted.binary else 0)[split.test]
    return Best(names[index], chosen, tested, float(judged(probe, other)[0]), rises, chance)


def of_all(material: Material) -> Plots:
    plots: dict[str, Plot] = {}
    check_units(material.subject, material.pairs, material.options.units)
    for part in parts_of(material.subject):
        plots |= _of_part(material, part)
    return plots


def _of_part(material: Material, part: str) -> dict[str, Plot]:
    """Rank the units of encoder or decoder, colour text by the best, and say how far open their gates are."""
    subject = material.subject
    pairs, given = material.rows, read(subject, subject.model, material.rows, part)
    ranked_on, reading = "this text", given
    if len(given) < ENOUGH_SYMBOLS and not material.options.labels and (training := material.training()):
        longer = read(subject, subject.model, training, part)
        if len(longer) > len(given):
            pairs, reading = training, longer
            ranked_on = f"training text (what is given has only {len(given):,} symbols)"
    tracked = [*tracked_in(reading, _runs_on(subject)), *_labels(material, reading, ranked_on)]
    plots: dict[str, Plot] = {}
    best: dict[str, Best] = {}
    if len(reading) >= LEAST_SYMBOLS and tracked:
        split = Split.stretches(len(reading)) if _runs_on(subject) else Split.of_groups(reading.line)
        tracked = [
            each for each in tracked if np.ptp(each.at(split.train).values) and np.ptp(each.at(split.test).values)
        ]
        fresh = read(subject, subject.untrained(), pairs, part)
        best = best_units(reading, tracked, split)
        control = best_units(fresh, tracked, split)
        plots[f"{part}.ranking"] = _ranking(part, tracked, best, control, split, ranked_on)
    shown = _shown(material, given, best)
    plots[f"{part}.text"] = shown
    plots |= _gates(material, part)
    return plots


def _runs_on(subject: Subject) -> bool:
    return subject.sides.running is not None


def _labels(material: Material, reading: Reading, ranked_on: str) -> list[Tracked]:
    """Return the labels that the user gave, one for each symbol."""
    labels = material.options.labels
    if not labels:
        return []
    real = np.array([token != "<end>" for token in reading.tokens])
    if ranked_on != "this text" or len(labels) < int(real.sum()):
        count = int(real.sum()) if ranked_on == "this text" else 0
        what = (
            f"there are {len(labels):,} labels for {count:,} symbols"
            if count
            else "there is too little text to rank units"
        )
        todo = f"give one number for each symbol of the text, and a text of at least {LEAST_SYMBOLS} symbols"
        raise UserError(what, "--labels", todo)
    values = np.zeros(len(reading))
    values[real] = np.asarray(labels[: int(real.sum())], dtype=np.float64)
    return [Tracked("your labels", values, bool(np.isin(values, (0.0, 1.0)).all()))]


def _ranking(
    part: str,
    tracked: Sequence[Tracked],
    best: Mapping[str, Best],
    control: Mapping[str, Best],
    split: Split,
    text: str,
) -> Table:
    rows: list[list[Cell]] = []
    for each in tracked:
        unit, fresh = best[each.name], control[each.name]
        measure = "AUC" if each.binary else "correlation"
        rows.append([each.name, unit.unit, measure, unit.chosen, unit.other, fresh.other, unit.probe, fresh.probe])
    columns = [
        "tracks",
        "best unit",
        "measure",
        "where it was chosen",
        "on other text",
        "untrained: best unit",
        "probe on all units",
        "untrained: probe",
    ]
    note = (
        f"Units were chosen on {len(split.train):,} symbols of {text} (the column *where it was chosen* has their "
        f"scores there); the columns to its right are measured on {len(split.test):,} other symbols. Guessing has an "
        "AUC of 0.5 and a correlation of 0. If the best unit of an untrained model does as well, the unit that was "
        "found only reflects the most recent input."
    )
    return Table(
        f"Units of {'the encoder' if part == 'encode' else 'the decoder'} that keep track of something",
        columns,
        rows,
        note,
    )


def _shown(material: Material, reading: Reading, best: Mapping[str, Best]) -> Shaded:
    """Return text coloured by the units that were asked for, or else by the best ones."""
    asked = [name for name in material.options.units if split_unit(name)[0].startswith(reading.part)]
    clear = sorted((each for each in best.items() if each[1].clarity >= CLEAR), key=lambda each: -each[1].clarity)
    titles = {f"{name}: {each.unit}": each.unit for name, each in clear}
    if asked:
        titles = {name: name for name in asked}
    elif not titles:
        spread = reading.matrix.std(0)
        titles = {reading.names[i]: reading.names[i] for i in np.argsort(-spread)[:MOST_SHOWN]}
    first = _stretch(material, reading)
    chosen = slice(first, first + SHOWN_TEXT)
    panels = [Panel(title, reading.unit(unit)[chosen]) for title, unit in titles.items()]
    panels += [
        Panel(f"{each.name}: where it is so", each.values[chosen])
        for each in tracked_in(reading, _runs_on(material.subject))
        if each.binary and not asked
    ]
    tokens = reading.tokens[chosen]
    cut = f"{len(tokens):,} of {len(reading):,} symbols. " if len(tokens) < len(reading) else ""
    note = cut + "Each symbol is coloured by the value after it has been read; `--unit NAME` shows another unit."
    words = material.subject.reads_words(reading.part)
    return Shaded("Text coloured by single units", tokens, panels, "signed", note, words)


def _stretch(material: Material, reading: Reading) -> int:
    """Return where the text that is shown begins: where most begins and ends, in the part that did not choose units."""
    binary = [each.values for each in tracked_in(reading, _runs_on(material.subject)) if each.binary]
    last = min(GATES_READ, len(reading) // 2) - SHOWN_TEXT
    if not binary or last <= 0:
        return 0
    changes = np.concatenate([[0.0], np.abs(np.diff(binary[0])).cumsum()])
    return int((changes[SHOWN_TEXT : SHOWN_TEXT + last] - changes[:last]).argmax())


def _gates(material: Material, part: str) -> dict[str, Plot]:
    """Return how often each kind of gate is open and closed, over the first symbols of the text."""
    subject = material.subject
    gates = read(subject, subject.model, material.rows, part, GATES_READ, GATES).states
    rows: list[list[Cell]] = []
    for name, values in gates.items():
        closed, opened = values < 0.1, values > 0.9
        rows.append(
            [
                name,
                float(values.mean()),
                float(closed.mean()),
                float(opened.mean()),
                int((closed.mean(0) > 0.9).sum()),
                int((opened.mean(0) > 0.9).sum()),
                values.shape[1],
            ]
        )
    if not rows:
        return {}
    columns = [
        "gate",
        "mean",
        "closed (below 0.1)",
        "open (above 0.9)",
        "units nearly always closed",
        "nearly always open",
        "units",
    ]
    note = f"Over {len(next(iter(gates.values()))):,} symbols."
    return {f"{part}.gates": Table("How far open the gates are", columns, rows, note)}


def why_not(subject: Subject) -> str:
    """Return why a model has no units to look at."""
    return "" if parts_of(subject) else "this model has no layers with states: neither an encoder nor a decoder"


VIEW = View(
    "cells",
    "What single units keep track of",
    "Text coloured by the value of single units, and the units that track something best (quotations, brackets, "
    "indentation, comments, the place in the line or word, or your own labels), judged on text that did not choose "
    "them, beside an untrained model of the same shape and a probe that sees all units.",
    why_not,
    of_all=of_all,
)
