"""View: what goes wrong over a table, by length, symbol and kind. Its parts add up to the evaluated score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.core.pair import Pair
from weft.data.prepare import counted
from weft.data.sides.label import Label
from weft.look.inspect import surprise
from weft.look.inspect.edits import KINDS, LineKinds, Mistake, mistakes, nearest
from weft.look.inspect.plots import Cell, Curves, Plot, Plots, Series, Table
from weft.look.inspect.subject import Line, Subject
from weft.look.inspect.views import DoesNotApply, Material, View
from weft.score.metrics import table_of
from weft.score.table import Metric

LENGTHS = (5, 10, 20, 40, 80, 160, 320)  # the ends of the classes of input lengths
MOST_SYMBOLS = 25  # symbols with the most mistakes that are listed
SHOWN_PLACES = 40


def rate(subject: Subject) -> Metric:
    """Return the metric whose parts are shown: edits in words where outputs are words, else in characters."""
    table = table_of(subject.sides.target_kind)
    if not subject.writes_text:
        return next(metric for metric in table.from_outputs if metric.per_line)
    return table["token_error_rate" if subject.spec.target.tokens == "words" else "cer"]


def worst_first(subject: Subject, lines: Sequence[Line]) -> list[Line]:
    """Return the lines from the worst to the best; of equals, the one that the model was surest of first."""
    if subject.is_language_model:
        return sorted(lines, key=surprise.per_symbol, reverse=True)
    metric = rate(subject)

    def key(line: Line) -> tuple[float, float]:
        return metric.rank(metric.of_line(line.output.text, line.pair.targets)), line.output.score

    return sorted(lines, key=key, reverse=True)


def of_all(material: Material) -> Plots:
    if not material.table:
        raise DoesNotApply("this view needs correct outputs", "give a table of pairs: --table FILE")
    if material.subject.is_language_model:
        return surprise.of_table(material)
    subject, metric = material.subject, rate(material.subject)
    plots: dict[str, Plot] = {"by_length": _by_length(material, metric)}
    if subject.writes_text:
        plots |= _of_text(material, metric)
    elif isinstance(subject.sides.target, Label):
        plots["by_label"] = _by_label(material)
    plots["lines"] = _lines(material, metric)
    return plots


def _by_length(material: Material, metric: Metric) -> Table:
    """Return the score of each class of input lengths; the numbers of the classes add up to those of the whole."""
    numbers = metric.numbers(material.outputs, [pair.targets for pair in material.table])  # (N, K)
    lengths = [len(row) for row in material.subject.sides.inputs(material.table).source]
    classes = np.searchsorted(LENGTHS, lengths)
    rows: list[list[Cell]] = []
    for each in sorted(set(classes.tolist())):
        chosen = classes == each
        first = LENGTHS[each - 1] + 1 if each else 1
        name = f"{first} to {LENGTHS[each]}" if each < len(LENGTHS) else f"{first} or more"
        rows.append([name, int(chosen.sum()), _score(metric, numbers[chosen]), *map(float, numbers[chosen].sum(0))])
    rows.append(["all", len(numbers), _score(metric, numbers), *map(float, numbers.sum(0))])
    parts = [f"part {number}" for number in range(1, numbers.shape[1] + 1)]
    if numbers.shape[1] == 2:
        parts = ["edits", "length of right outputs"] if metric.better == "lower" else ["right", "lines"]
    return Table("By the length of the input", ["length", "lines", metric.name, *parts], rows)


def _score(metric: Metric, numbers: np.ndarray) -> float:
    return float(metric.combine(numbers.sum(axis=0, keepdims=True))[0])


@dataclass(frozen=True)
class Judged:
    """One row of a table, with its mistakes."""

    pair: Pair
    written: Sequence[str]
    right: Sequence[str]
    found: list[Mistake]


def judged(material: Material) -> list[Judged]:
    """Return every row with the edits between its output and the nearest right output."""
    kinds, cut = LineKinds(material.table), material.subject.cut
    strange = material.subject.cannot_write(" ".join(text for pair in material.table for text in pair.targets))
    rows = []
    for pair, output in zip(material.table, material.outputs, strict=True):
        written = cut(output)
        right = nearest(written, [cut(target) for target in pair.targets])
        found, whole = mistakes(written, right, strange), kinds.of(pair, output)
        if whole:
            found = [Mistake(whole, each.right, each.written) for each in found]
        rows.append(Judged(pair, written, right, found))
    return rows


def _of_text(material: Material, metric: Metric) -> dict[str, Plot]:
    rows = judged(material)
    return {"by_kind": _by_kind(rows, metric), "by_symbol": _by_symbol(rows), "by_place": _by_place(rows)}


def _by_kind(rows: Sequence[Judged], metric: Metric) -> Table:
    length = max(1, sum(len(row.right) for row in rows))
    edits = Counter(mistake.kind for row in rows for mistake in row.found)
    lines = Counter(kind for row in rows for kind in {mistake.kind for mistake in row.found})
    table: list[list[Cell]] = [
        [kind, edits[kind], lines[kind], 100 * edits[kind] / length, meaning] for kind, meaning in KINDS.items()
    ]
    wrong, over = sum(bool(row.found) for row in rows), counted(len(rows), "line")
    table.append(["all", edits.total(), wrong, 100 * edits.total() / length, ""])
    columns = ["kind", "edits", "lines", f"points of {metric.name}", "meaning"]
    return Table("By kind", columns, table, f"Over {over}; the points add up to the {metric.name} of the table.")


def _by_symbol(rows: Sequence[Judged]) -> Table:
    seen = Counter(symbol for row in rows for symbol in row.right)
    wrong: dict[str, Counter[str]] = {}
    for row in rows:
        for mistake in row.found:
            wrong.setdefault(mistake.right, Counter())[mistake.written] += 1
    most = sorted(wrong.items(), key=lambda item: -item[1].total())
    table: list[list[Cell]] = [
        [right or "(nothing)", seen[right] or None, counts.total(), _replaced(counts)] for right, counts in most
    ]
    note = f"The {MOST_SYMBOLS} with the most mistakes of {len(table)}." if len(table) > MOST_SYMBOLS else ""
    columns = ["right symbol", "occurs", "mistakes", "written instead"]
    return Table("By symbol", columns, table[:MOST_SYMBOLS], note)


def _replaced(counts: Counter[str]) -> str:
    return ", ".join(f"{symbol or 'nothing'} ({count})" for symbol, count in counts.most_common(4))


def _by_place(rows: Sequence[Judged]) -> Curves:
    """Return the share of outputs that are still right up to each position."""
    longest = min(SHOWN_PLACES, max(len(row.right) for row in rows))
    shared = [_shared(row) for row in rows]
    share = [
        float(np.mean([got > place for got, row in zip(shared, rows) if len(row.right) > place]))
        for place in range(longest)
    ]
    return Curves(
        "Right so far",
        "position in the right output",
        "share of lines",
        range(1, longest + 1),
        [Series("right", share)],
    )


def _shared(row: Judged) -> int:
    """Return how many symbols output and right output have in common at their start."""
    pairs = zip(row.written, row.right)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(row.written), len(row.right)))


def _by_label(material: Material) -> Table:
    right = Counter(pair.target for pair in material.table)
    wrong: dict[str, Counter[str]] = {}
    for pair, output in zip(material.table, material.outputs, strict=True):
        wrong.setdefault(pair.target, Counter()).update([output] if output not in pair.targets else [])
    rows: list[list[Cell]] = [
        [label, count, 100 * (1 - wrong[label].total() / count), _replaced(wrong[label])]
        for label, count in right.most_common()
    ]
    return Table("By label", ["label", "rows", "right (%)", "predicted instead"], rows)


def _lines(material: Material, metric: Metric) -> Table:
    rows: list[list[Cell]] = [
        [
            number,
            line.pair.source,
            line.output.text,
            "" if line.is_right else line.pair.target,
            metric.of_line(line.output.text, line.pair.targets),
            *([line.output.log_prob] if material.subject.has_probabilities else []),
        ]
        for number, line in enumerate(material.lines, 1)
    ]
    columns = ["line", "input", "output", "right", metric.name]
    columns += ["log-probability"] if material.subject.has_probabilities else []
    return Table(
        "The worst lines first", columns, rows, "Each is shown in full below, with its attention.", opens=len(rows) > 1
    )


VIEW = View(
    "errors",
    "Errors",
    "What goes wrong over a table: by length, by kind of mistake, by symbol, and the worst lines first. The parts add "
    "up to the score that `weft evaluate` reports.",
    of_all=of_all,
    unasked="table",
)
