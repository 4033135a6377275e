"""View: what each attention head looks at, over many lines, and what the score loses without it."""

# L layers · H heads · T target steps · S source positions

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.core.pair import SPECIALS, Pair
from weft.core.trace import trace
from weft.data.prepare import counted
from weft.look.inspect import attention
from weft.look.inspect.attention import Maps, maps_of
from weft.look.inspect.changes import NOTES, AtCall, silence_head
from weft.look.inspect.limits import MOST_HEADS, MOST_MEASURED
from weft.look.inspect.plots import Array, Cell, Plot, Plots, Table
from weft.look.inspect.statistics import LEAST_LINES, ratio_interval
from weft.look.inspect.subject import Subject
from weft.look.inspect.views import DoesNotApply, Material, View

FEW = 60  # lines that maps are read from
CLEAR = 2.0  # times what even weights would give, from which on a head has a habit


def why_not(subject: Subject) -> str:
    """Return why a model has no heads to compare."""
    reason = attention.why_not(subject)
    return reason or ("" if subject.has_decoder else "this model has no decoder whose loss an ablation could change")


def habits(maps: Maps) -> dict[str, Array]:
    """Return masks (T, S) of the positions that a habit means, by its name."""
    rows, columns = len(maps.rows), len(maps.columns)
    t, s = np.arange(rows)[:, None], np.arange(columns)[None, :]
    names = np.array(maps.columns, dtype=object)
    same = np.array([[row == name for name in names] for row in maps.rows]).reshape(rows, columns)
    separators = np.broadcast_to(np.array([_separates(name) for name in maps.columns]), (rows, columns))
    if maps.key == "cross":
        before = np.concatenate([[-9], maps.mean.argmax(1)[:-1]])[:, None]
        return {
            "the position just written": s == before,
            "the one after it": s == before + 1,
            "same symbol": same,
            "separator": separators,
            "same position": t == s,
        }
    own = s == t
    return {
        "previous": s == t - 1,
        "next": s == t + 1,
        "itself": own,
        "same symbol": same & ~own,
        "separator": separators,
    }


def _separates(name: str) -> bool:
    return name in SPECIALS or not any(character.isalnum() for character in name)


@dataclass(frozen=True)
class Ablation:
    """The loss without a head, less the loss with it, with its interval, and the change of accuracy in points."""

    loss: float
    low: float
    high: float
    accuracy: float


def ablate(subject: Subject, pairs: Sequence[Pair], note: str, layers: int, layer: int, head: int) -> Ablation:
    """Measure given outputs with and without a head."""
    predictor = subject.with_model(subject.model)
    before, accuracy = predictor.step_scores(pairs), predictor.teacher_forced(pairs)["accuracy"]
    with trace({note: AtCall(layers, silence_head(layer, head))}, keep=lambda _: False):
        after = predictor.step_scores(pairs)
    with trace({note: AtCall(layers, silence_head(layer, head))}, keep=lambda _: False):
        without = predictor.teacher_forced(pairs)["accuracy"]
    lost = [sum(a) - sum(b) for a, b in zip(before, after, strict=True)]
    return Ablation(*ratio_interval(lost, [len(scores) for scores in before]), without - accuracy)


def of_all(material: Material) -> Plots:
    subject, pairs = material.subject, list(material.pairs[:MOST_MEASURED])
    lines = material.lines if not material.table else subject.lines(pairs[:FEW])
    every = [maps_of(line) for line in lines[:FEW]]
    keys = [key for key in every[0] if key in NOTES]
    heads = [(key, *label) for key in keys for label in every[0][key].labels]
    if len(heads) > MOST_HEADS:
        raise DoesNotApply(f"this model has {len(heads)} heads; at most {MOST_HEADS} are ablated")
    if not material.table and len(pairs) < 2 and len(heads) < 2:
        raise DoesNotApply("this view needs several heads, or several lines", "give a table of pairs: --table FILE")
    plots: dict[str, Plot] = {}
    for key in keys:
        plots[key] = _habits(key, [maps[key] for maps in every])
    plots["ablation"] = _ablations(subject, pairs, every[0], heads)
    return plots


def _habits(key: str, maps: Sequence[Maps]) -> Table:
    """Return the share of each head's weight on the positions of each habit, and of even weights."""
    names = list(habits(maps[0]))
    rows: list[list[Cell]] = []
    even = {name: float(np.mean([habits(each)[name].mean() for each in maps])) for name in names}
    for layer, head in maps[0].labels:
        shares = {name: share(maps, layer, head, name) for name in names}
        best = max(names, key=lambda name: shares[name] / max(even[name], 1e-6))
        clear = shares[best] >= CLEAR * even[best] and shares[best] > 0.2
        rows.append([layer + 1, head + 1, *shares.values(), best if clear else "no clear habit"])
    rows.append(["even", "", *even.values(), ""])
    over = counted(len(maps), "line")
    note = f"Shares of the weight, mean over output steps of {over}. The last row is what even weights would give."
    return Table(f"Where the heads of {key} look", ["layer", "head", *names, "habit"], rows, note)


def share(maps: Sequence[Maps], layer: int, head: int, name: str) -> float:
    """Return the mean weight that a head puts on the positions of a habit."""
    each = [(maps_.weights[layer, head] * habits(maps_)[name]).sum(1).mean() for maps_ in maps]
    return float(np.mean(each))


def _ablations(
    subject: Subject, pairs: Sequence[Pair], maps: dict[str, Maps], heads: Sequence[tuple[str, int, int]]
) -> Table:
    rows: list[list[Cell]] = []
    for key, layer, head in heads:
        lost = ablate(subject, pairs, NOTES[key], maps[key].weights.shape[0], layer, head)
        interval = [lost.low, lost.high] if len(pairs) >= LEAST_LINES else []
        rows.append([key, layer + 1, head + 1, lost.loss, *interval, lost.accuracy])
    return _judged(rows, len(pairs))


def _judged(rows: Sequence[Sequence[Cell]], lines: int) -> Table:
    """Return the table, with intervals and marks only where there are enough lines for them."""
    columns = ["map", "layer", "head", "increase in loss without this head", "from", "to", "accuracy (points)"]
    note = f"Nats per symbol over {counted(lines, 'line')}"
    if lines < LEAST_LINES:
        few = f"{note}: too few for intervals, or to say which heads are needed (give at least {LEAST_LINES} lines)."
        return Table("Without one head", [*columns[:4], columns[-1]], rows, few)
    warn = [index for index, row in enumerate(rows) if isinstance(row[4], float) and row[4] > 0]
    return Table(
        "Without one head",
        columns,
        rows,
        f"{note}, with 95 % intervals.",
        warn,
        marks="their interval is above 0",
    )


VIEW = View(
    "heads",
    "Attention heads",
    "What each head attends to over all lines (the previous or next symbol, the same symbol, separators, the input "
    "position that was just written), and by how much the loss rises without the head.",
    why_not,
    of_all=of_all,
)
