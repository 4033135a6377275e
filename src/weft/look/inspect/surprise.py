"""What a language model does not expect: the bits of a text by symbol and by place. They add up to its score."""

# N symbols of all rows

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from weft.core.pair import END
from weft.data.text.tokens import Tokeniser
from weft.look.inspect.plots import Cell, Curves, Plot, Plots, Series, Table
from weft.look.inspect.subject import Line
from weft.look.inspect.views import Material

MOST_SYMBOLS = 25  # that are listed
PLACES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000)  # ends of the classes of places in a row


def per_symbol(line: Line) -> float:
    """Return the nats that each symbol of a line costs."""
    return -line.output.log_prob / max(1, len(line.output.token_scores))


def of_table(material: Material) -> Plots:
    """Return which symbols and places cost most, and the worst rows first."""
    subject = material.subject
    scores = subject.predictor.step_scores(material.table)
    plots: dict[str, Plot] = {}
    if isinstance(subject.sides.target, Tokeniser):
        plots["by_symbol"] = _by_symbol(material, subject.sides.target, scores)
    plots["by_place"] = _by_place(scores)
    plots["lines"] = _lines(material)
    return plots


def _by_symbol(material: Material, tokens: Tokeniser, scores: Sequence[Sequence[float]]) -> Table:
    bits, counts = defaultdict[str, float](float), Counter[str]()
    rows = material.subject.sides.encode(material.table).target
    for row, each in zip(rows, scores, strict=True):
        names = tokens.show([*(int(i) for i in row), END][: len(each)])
        for name, score in zip(names, each, strict=True):
            bits[name] -= score / math.log(2)
            counts[name] += 1
    total, symbols = sum(bits.values()), sum(counts.values())
    costly = sorted(bits.items(), key=lambda item: -item[1])[:MOST_SYMBOLS]
    table: list[list[Cell]] = [
        [name, counts[name], cost, cost / counts[name], 100 * cost / total] for name, cost in costly
    ]
    rest = total - sum(bits[str(row[0])] for row in table)
    if len(bits) > len(table):
        others = symbols - sum(counts[str(row[0])] for row in table)
        table.append([f"{len(bits) - len(table)} others", others, rest, rest / max(1, others), 100 * rest / total])
    table.append(["all", symbols, total, total / max(1, symbols), 100.0])
    columns = ["symbol", "occurs", "bits", "bits each time", "share of all bits (%)"]
    note = "The number of bits (−log₂ p) that each symbol costs; they add up to the score of `weft evaluate`."
    return Table("Symbols that were not expected", columns, table, note)


def _by_place(scores: Sequence[Sequence[float]]) -> Curves:
    """Return the bits of a symbol against its place in its row."""
    places = np.concatenate([np.arange(len(each)) for each in scores])
    bits = -np.concatenate([np.asarray(each) for each in scores]) / math.log(2)
    classes = np.searchsorted(PLACES, places, side="right")
    known = sorted(set(classes.tolist()))
    means = [float(bits[classes == each].mean()) for each in known]
    x = [PLACES[min(each, len(PLACES) - 1)] for each in known]
    return Curves("By the place in its row", "up to place", "bits", x, [Series("bits for each symbol", means)])


def _lines(material: Material) -> Table:
    rows: list[list[Cell]] = [
        [number, line.output.text, per_symbol(line) / math.log(2), line.output.log_prob]
        for number, line in enumerate(material.lines, 1)
    ]
    columns = ["line", "text", "bits for each symbol", "log-probability"]
    return Table("The least expected first", columns, rows, "Each is shown in full below.", opens=len(rows) > 1)
