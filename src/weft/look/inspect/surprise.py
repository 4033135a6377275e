"""View: what a model did not expect: the bits of each symbol of a text, by symbol and by place in a table."""

# N symbols of all rows

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from weft.core.pair import END
from weft.data.text.tokens import Tokeniser
from weft.look.inspect.plots import Cell, Curves, Panel, Plot, Plots, Series, Shaded, Table
from weft.look.inspect.subject import Line, Subject
from weft.look.inspect.views import DoesNotApply, Material, Options, View
from weft.nn.model import Writer

MOST_SYMBOLS = 25  # that are listed
MOST_PLACES = 20  # of a line that are listed
BEFORE = 12  # symbols before them
SHORT = 100  # characters of a text in a table of lines
PLACES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000)  # ends of the classes of places in a row


def per_symbol(line: Line) -> float:
    """Return the nats that each symbol of a line costs."""
    return -line.output.log_prob / max(1, len(line.output.token_scores))


def why_not(subject: Subject) -> str:
    """Return why there is no probability of each symbol."""
    model = subject.predictor.model
    if subject.writes_text and isinstance(model, Writer):
        return ""
    return "this model does not write text symbol by symbol, so its symbols have no probabilities of their own"


def of_line(line: Line, options: Options) -> Plots:
    """Return the text coloured by the bits of each symbol, and the symbols that cost most, with their places."""
    tokens, scores = line.target_tokens, line.output.token_scores
    if len(tokens) != len(scores):
        raise DoesNotApply("the symbols of this output have no probabilities of their own")
    bits = [max(0.0, -score) / math.log(2) for score in scores]
    note = f"Bits: −log₂ p of each symbol, given those before it; {sum(bits):.1f} in all. The more, the less expected."
    words = line.subject.reads_words()
    shaded = Shaded("Bits of each symbol", tokens, [Panel("bits", np.array(bits))], "size", note, words)
    if options.brief:
        return {"text": shaded}
    order = sorted(range(len(bits)), key=lambda i: -bits[i])[:MOST_PLACES]
    rows: list[list[Cell]] = [
        [
            i + 1,
            (" " if words else "").join(tokens[max(0, i - BEFORE) : i]),
            tokens[i],
            bits[i],
            scores[i],
            math.exp(scores[i]),
        ]
        for i in order
    ]
    columns = ["position", "after", "symbol", "bits", "log p", "p"]
    many = f"The {len(rows)} least expected of {len(bits)} symbols." if len(rows) < len(bits) else ""
    return {"text": shaded, "least_expected": Table("The least expected symbols", columns, rows, many)}


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
    note = f"Over {symbols:,} symbols. "
    note += "The number of bits (−log₂ p) that each symbol costs; they add up to the score of `weft evaluate`."
    return Table("Symbols that were not expected", columns, table, note)


def _by_place(scores: Sequence[Sequence[float]]) -> Curves:
    """Return the bits of a symbol against its place in its row."""
    places = np.concatenate([np.arange(len(each)) for each in scores])
    bits = -np.concatenate([np.asarray(each) for each in scores]) / math.log(2)
    classes = np.searchsorted(PLACES, places, side="right")
    known = sorted(set(classes.tolist()))
    means = [float(bits[classes == each].mean()) for each in known]
    x = [PLACES[min(each, len(PLACES) - 1)] for each in known]
    series = [Series("bits for each symbol", means)]
    return Curves("By the place in its row", "up to place", "bits", x, series, log_x=True)


def _lines(material: Material) -> Table:
    rows: list[list[Cell]] = [
        [number, shortened(line.output.text), per_symbol(line) / math.log(2), line.output.log_prob]
        for number, line in enumerate(material.lines, 1)
    ]
    columns = ["line", "text", "bits for each symbol", "log-probability"]
    return Table("The least expected first", columns, rows, "Each is shown in full below.", opens=len(rows) > 1)


def shortened(text: str) -> str:
    """Return the beginning of a text, cut between words."""
    return text if len(text) <= SHORT else text[:SHORT].rsplit(maxsplit=1)[0] + " …"


VIEW = View(
    "surprise",
    "What was not expected",
    "What each symbol of the output (of a language model: of the text) cost the model: its log-probability, given those"
    " before it. With `--force`, it shows where a given output loses.",
    why_not,
    of_line,
)
