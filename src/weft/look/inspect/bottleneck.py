"""View: what the state that is handed over holds, by probes that read it off.

Every probe is trained on half of the lines and judged on the other half, beside its control task (probes.py), the most
frequent answer, and the same probe on a model with random weights.
"""

# N lines · D width

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from weft.core.pair import Pair
from weft.data.prepare import counted
from weft.data.text.tokens import Tokeniser
from weft.look.inspect.encodings import handed_over, what_is_handed_over
from weft.look.inspect.limits import MOST_PROBED
from weft.look.inspect.plots import Array, Cell, Curves, Plots, Series, Table
from weft.look.inspect.probes import Accuracy, Split, accuracy, majority
from weft.look.inspect.subject import Subject
from weft.look.inspect.views import DoesNotApply, Material, View
from weft.nn.model import Aligned, Selector, Tagger

LEAST_LINES = 100
ENOUGH_LINES = 1_000  # below which the training data are read instead, if they have more
KTH = 8  # symbols from the start, and from the end, that are asked for
MOST_LENGTHS = 24  # classes of lengths
BAG = 12  # symbols that are asked for
PAIRS = 10  # pairs of symbols whose order is asked for
RARE = 0.05  # share of lines that a symbol or a pair must have, and may lack
WIDTHS = (0.05, 0.1, 0.25, 0.5, 1.0)  # shares of the units that a probe is shown


@dataclass(frozen=True)
class Question:
    """Something that a state may hold: labels for the lines, as `probes.accuracy` takes them."""

    name: str
    labels: Array


def questions(rows: Sequence[Sequence[int]], pairs: Sequence[Pair], first_symbol: int) -> list[Question]:
    """Return what is asked of the states of lines, whose symbols are `rows`."""
    lengths = np.array([len(row) for row in rows])
    low, high = np.quantile(lengths, [0.02, 0.98]).astype(int)
    steps = max(1, -(-int(high - low + 1) // MOST_LENGTHS))
    asked = [Question("length", (np.clip(lengths, low, high) - low) // steps)]
    tags = [pair.tag or " ".join(pair.features) for pair in pairs]
    if 1 < len(set(tags)) <= MOST_LENGTHS:
        asked.append(Question("prompt", np.array([sorted(set(tags)).index(tag) for tag in tags])))
    symbols = [[i for i in row if i >= first_symbol] for row in rows]
    asked += _bags(symbols)
    return [each for each in asked if _varies(each.labels)]


def _varies(labels: Array) -> bool:
    return labels.size > 0 and (labels.ndim == 2 or len(set(labels.tolist())) > 1)


def _bags(symbols: Sequence[Sequence[int]]) -> list[Question]:
    """Return which of the frequent symbols a line has, and which of two comes first."""
    lines, sets = len(symbols), [set(row) for row in symbols]
    counts = Counter(symbol for each in sets for symbol in each)
    chosen = [s for s, n in counts.most_common() if RARE * lines < n < (1 - RARE) * lines][:BAG]
    if not chosen:
        return []
    bag = np.array([[float(s in each) for s in chosen] for each in sets])
    ordered = []
    for a, b in combinations(chosen, 2):
        both = [float(row.index(a) < row.index(b)) if {a, b} <= each else np.nan for row, each in zip(symbols, sets)]
        known = [x for x in both if x == x]
        if len(known) > max(40, RARE * lines) and RARE < np.mean(known) < 1 - RARE:
            ordered.append(both)
    asked = [Question("bag of symbols", bag)]
    return [*asked, Question("order of two symbols", np.array(ordered[:PAIRS]).T)] if ordered else asked


def kth_symbols(rows: Sequence[Sequence[int]], from_end: bool = False) -> list[Question]:
    """Return for each k which symbol is the k-th of a line, of those lines that have one; rare ones are one class."""
    asked = []
    for k in range(1, KTH + 1):
        symbols = np.array([(row[-k] if from_end else row[k - 1]) if len(row) >= k else -1 for row in rows])
        common = [s for s, _ in Counter(symbols.tolist()).most_common(MOST_LENGTHS)]
        if np.mean(symbols >= 0) < 0.5 or len(common) < 2:
            break
        places = {symbol: i for i, symbol in enumerate(common)}
        asked.append(Question(str(k), np.array([places.get(s, len(common)) for s in symbols.tolist()])))
    return asked


def _probed(material: Material) -> tuple[list[Pair], str]:
    """Return the lines that probes see, and where they are from: of a short table, more lines of the training data."""
    pairs, where = _read_by(material, material.rows), "the table"
    if len(pairs) < ENOUGH_LINES:
        training = _read_by(material, material.training())
        more = f"the training data (what is given has only {counted(len(pairs), 'line')})"
        pairs, where = (training, more) if len(training) > len(pairs) else (pairs, where)
    if len(pairs) < LEAST_LINES:
        raise DoesNotApply(f"probes need at least {LEAST_LINES} lines", "give a table of pairs: --table FILE")
    return pairs, where


def _read_by(material: Material, pairs: Sequence[Pair]) -> list[Pair]:
    read = material.subject.as_read(pairs[:MOST_PROBED])
    return [pair for pair in read if pair.source.strip()][:MOST_PROBED]


def of_all(material: Material) -> Plots:
    subject = material.subject
    pairs, where = _probed(material)
    side, rows = subject.read_side, [list(row) for row in subject.sides.inputs(pairs).source]
    text = isinstance(side, Tokeniser)
    split = Split.of_groups(np.random.default_rng(1).permutation(len(pairs)))
    trained, fresh = (handed_over(subject, model, pairs) for model in (subject.model, subject.untrained()))
    first_symbol = side.first if isinstance(side, Tokeniser) else 0
    asked = questions(rows if text else [[0] * len(row) for row in rows], pairs, first_symbol)
    about = (
        f"The probes read {what_is_handed_over(subject.model)} ({trained.shape[1]} numbers). They were trained on "
        f"{len(split.train):,} lines of {where} and tested on {len(split.test):,} others. "
    )
    if not asked:
        what = (
            "these lines have about the same length, and no symbol is both present and absent often enough to probe for"
        )
        raise DoesNotApply(what, "give a table of lines that differ more")
    plots = {"probes": _table(asked, trained, fresh, split, about)}
    if not text:
        return plots
    starts, ends = kth_symbols(rows), kth_symbols(rows, from_end=True)
    curves = {
        "from_start": _by_place("The k-th symbol from the start", starts, trained, fresh, split),
        "from_end": _by_place("The k-th symbol from the end", ends, trained, fresh, split),
    }
    widest = next((each for each in asked if each.name.startswith("bag")), asked[0])
    return plots | {k: v for k, v in curves.items() if v.x} | {"width": _by_width(widest, trained, split)}


def _table(asked: Sequence[Question], trained: Array, fresh: Array, split: Split, about: str) -> Table:
    rows: list[list[Cell]] = []
    for question in asked:
        for kind in ("linear", "mlp"):
            probe = accuracy(trained, question.labels, split, kind)
            control = accuracy(fresh, question.labels, split, kind)
            rows.append([question.name, kind, *_percent(probe), *_percent(control)[:3:2]])
    columns = ["holds", "probe", "right (%)", "control task", "selectivity", "most frequent answer"]
    columns += ["untrained: right (%)", "untrained: selectivity"]
    note = about + (
        "In the control task, the labels are shuffled among the lines; accuracy there comes from the probe, not from "
        "the state. Selectivity is the difference. If an untrained model does as well, the information is there "
        "without any learning."
    )
    below = [index for index, row in enumerate(rows) if _number(row[2]) < _number(row[5])]
    if below:
        note += " Marked: the probe is right less often than the most frequent answer, which needs no state."
    return Table("Probes", columns, rows, note, below)


def _number(cell: Cell) -> float:
    return cell if isinstance(cell, float) else float("nan")


def _percent(probe: Accuracy) -> list[Cell]:
    return [100 * probe.right, 100 * probe.control, 100 * probe.selectivity, 100 * probe.majority]


def _by_place(title: str, asked: Sequence[Question], trained: Array, fresh: Array, split: Split) -> Curves:
    each = [accuracy(trained, question.labels, split) for question in asked]
    untrained = [accuracy(fresh, question.labels, split).right for question in asked]
    series = [
        Series("trained", [100 * probe.right for probe in each]),
        Series("control task", [100 * probe.control for probe in each]),
        Series("untrained", [100 * right for right in untrained]),
        Series("most frequent answer", [100 * majority(question.labels, split) for question in asked]),
    ]
    x = [int(question.name) for question in asked]
    note = "Linear probes, evaluated on lines that were not used to train them."
    below = [str(k) for k, probe in zip(x, each) if probe.right < probe.majority]
    note += f" No better than the most frequent answer at k = {', '.join(below)}." if below else ""
    return Curves(title, "k", "right (%)", x, series, note=note)


def _by_width(question: Question, states: Array, split: Split) -> Curves:
    """Return how well a probe does that is shown only some units, drawn at random."""
    drawn = np.random.default_rng(1).permutation(states.shape[1])
    counts = sorted({max(1, round(share * states.shape[1])) for share in WIDTHS})
    each = [accuracy(states[:, drawn[:count]], question.labels, split) for count in counts]
    series = [
        Series("right", [100 * probe.right for probe in each]),
        Series("control task", [100 * probe.control for probe in each]),
        Series("selectivity", [100 * probe.selectivity for probe in each]),
    ]
    note = "A linear probe on this number of randomly chosen units of the state."
    return Curves(f"Against width: {question.name}", "units", "%", counts, series, note=note)


def why_not(subject: Subject) -> str:
    """Return why nothing is handed over."""
    model = subject.predictor.model
    if isinstance(model, Aligned | Tagger | Selector):
        return "this model predicts at every position of its input: nothing is handed over as a whole"
    return ""


VIEW = View(
    "bottleneck",
    "What the state holds",
    "Linear and MLP probes that read length, prompt, single symbols, the bag of symbols and their order off the state "
    "that is handed over (of a language model: the state after the text), each with a control task (selectivity), "
    "beside an untrained model.",
    why_not,
    of_all=of_all,
)
