"""What does a longer sequence, a larger vocabulary or a wider beam cost, beside what theory says?

    python bench/costs.py [--quick] [--only length] [--pictures docs/performance]

Untrained models of width 64 with two layers, so that the terms of attention show early: the Transformer, and LSTMs with
additive attention whose context is fed. All sizes of a question take turns. Each model's seconds are fitted, over all
curves of a question at once, by the terms of theory with factors ≥ 0, so as to miss by the least share: self-attention
of an encoder M², of a decoder N², cross-attention MN; recurrences M and N; V for symbols, K for hypotheses. R² is that
of the logarithms; the exponent is that between the two largest sizes of a curve.

One thread, because a curve has a bend where torch begins to share work among several.
Limits: the scores over all symbols are made at once here, in parts by `weft train`; the optimiser is not timed.
"""

# M source length · N target length · V symbols · K hypotheses a line

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator, StrMethodFormatter
from timing import in_turns, matrix_speed, middle, record

from weft.core.kinds import Batch
from weft.core.pair import END
from weft.core.shapes import Symbols
from weft.learn.objectives import CrossEntropy
from weft.look.curves import style
from weft.nn.assemble import assemble
from weft.nn.model import Seq2Seq
from weft.search.decode import SearchPlan, decode
from weft.settings import compose

LINES = 4  # sequences in a batch
PICTURES = Path(__file__).parent.parent / "docs/performance"
CPU = torch.device("cpu")
COLOURS = {"recurrent": "#c4501b", "Transformer": "#1f5f99"}


def _sides(**part: Any) -> dict[str, Any]:
    shared = {"embed": {"width": 64}, "train": {"dropout": 0.0}}
    return {**shared, "encoder": {**part}, "decoder": {**part}}


SETTINGS = {
    "recurrent": _sides(kind="recurrent", cell="lstm", width=64, layers=2),
    "Transformer": _sides(kind="transformer", width=64, layers=2, heads=2, inner=256),
}


@dataclass(frozen=True)
class Size:
    M: int = 16
    N: int = 16
    V: int = 100
    K: int = 1


TERMS: dict[str, Callable[[Size], float]] = {
    "": lambda s: 1,
    "M": lambda s: s.M,
    "N": lambda s: s.N,
    "M²": lambda s: s.M**2,
    "MN": lambda s: s.M * s.N,
    "N²": lambda s: s.N**2,
    "V": lambda s: s.V,
    "KN": lambda s: s.K * s.N,
    "KN²": lambda s: s.K * s.N**2,
}


def model_of(name: str, symbols: int) -> Seq2Seq[Any]:
    """An untrained model that never ends by itself, so that every output has the length that is asked for."""
    torch.manual_seed(1)
    model = assemble(compose(("flag", SETTINGS[name])).spec, Symbols(symbols), Symbols(symbols))
    assert isinstance(model, Seq2Seq)
    with torch.no_grad():
        model.head.bias[END] = -1e3
    return model


def training_step(name: str, size: Size) -> Callable[[], None]:
    """Forward and backward; END is one of the symbols counted."""
    model = model_of(name, size.V).train()
    random = np.random.default_rng(1)
    batch = Batch.of(*(random.integers(4, size.V, (LINES, length - 1)) for length in (size.M, size.N)))

    def once() -> None:
        model.zero_grad(set_to_none=True)
        CrossEntropy(0.1)(model(batch), batch).total.backward()

    return once


def decoding(name: str, size: Size) -> Callable[[], None]:
    model = model_of(name, size.V).eval()
    sources = np.random.default_rng(1).integers(4, size.V, (LINES, size.M - 1)).tolist()
    plan = SearchPlan("beam", size.K, max_ratio=1e-9, max_extra=size.N - 2)  # ⌈ratio · M⌉ is 1, END one more
    return lambda: decode(model, sources, plan, CPU)


@dataclass(frozen=True)
class Curve:
    """What one panel of a picture shows: sizes in which one thing grows."""

    axis: str
    across: str
    title: str
    sizes: Sequence[Size]


@dataclass(frozen=True)
class Question:
    """Curves that are timed in turns and fitted together; `lines` share a call's seconds."""

    up: str
    job: Callable[[str, Size], Callable[[], None]]
    lines: int
    terms: Mapping[str, Sequence[str]]
    curves: Sequence[Curve]


def doubling(first: int, last: int, quick: bool) -> list[int]:
    """In quick, every second of them, the last included."""
    every = [first << i for i in range(int(math.log2(last / first)) + 1)]
    return every[::-2][::-1] if quick else every


def questions(quick: bool) -> dict[str, Question]:
    lengths, symbols = doubling(16, 1024, quick), [500, 2000, 8000, 32000] if quick else [500 << i for i in range(7)]
    written, beams = doubling(16, 512, quick), [1, 4, 16] if quick else [1, 2, 4, 8, 16]
    return {
        "length": Question(
            f"seconds of a training step ({LINES} pairs)",
            training_step,
            1,
            {"recurrent": ["", "M", "N", "MN"], "Transformer": ["", "M", "N", "M²", "MN", "N²"]},
            [
                Curve("M", "source length M", "longer sources (N = 16)", [Size(M=x) for x in lengths]),
                Curve("N", "target length N", "longer targets (M = 16)", [Size(N=x) for x in lengths]),
                Curve("N", "source and target length M = N", "both", [Size(M=x, N=x) for x in lengths]),
            ],
        ),
        "vocabulary": Question(
            f"seconds of a training step ({LINES} pairs)",
            training_step,
            1,
            {name: ["", "V"] for name in SETTINGS},
            [Curve("V", "symbols V", "more symbols (M = N = 32)", [Size(M=32, N=32, V=x) for x in symbols])],
        ),
        "decoding": Question(
            f"seconds a line ({LINES} at a time)",
            decoding,
            LINES,
            {"recurrent": ["", "N", "KN"], "Transformer": ["", "N", "KN", "KN²"]},
            [
                Curve("N", "output length N", "longer outputs (beam 5)", [Size(N=x, K=5) for x in written]),
                Curve("K", "beam width K", "wider beams (N = 64)", [Size(N=64, K=x) for x in beams]),
            ],
        ),
    }


def measured(question: Question, windows: int, least: float) -> dict[tuple[str, Size], float]:
    """Seconds of each model at each size, all in turns."""
    sizes = dict.fromkeys(size for curve in question.curves for size in curve.sizes)
    jobs = {f"{name} {size}": question.job(name, size) for name in SETTINGS for size in sizes}
    found = in_turns(jobs, windows, least)
    return {(n, s): middle(found[f"{n} {s}"]) / question.lines for n in SETTINGS for s in sizes}


@dataclass(frozen=True)
class Fit:
    """Seconds a unit of each term."""

    factors: Mapping[str, float]

    def __call__(self, size: Size) -> float:
        return sum(factor * TERMS[term](size) for term, factor in self.factors.items())

    def told(self) -> str:
        """In milliseconds."""
        return " + ".join(f"{x * 1e3:.2g}{f'·{term}' if term else ''}" for term, x in self.factors.items() if x > 0)


def fitted(terms: Sequence[str], seconds: Mapping[Size, float]) -> Fit:
    """The factors ≥ 0 with the least squares of relative misses: the best of all subsets of terms that has them."""
    rows = np.array([[TERMS[term](size) / y for term in terms] for size, y in seconds.items()])
    best, factors = math.inf, np.zeros(len(terms))
    for count in range(1, len(terms) + 1):
        for some in combinations(range(len(terms)), count):
            own = np.linalg.lstsq(rows[:, some], np.ones(len(rows)), rcond=None)[0]
            missed = float(((rows[:, some] @ own - 1) ** 2).sum())
            if (own >= 0).all() and missed < best:
                best, factors = missed, np.zeros(len(terms))
                factors[list(some)] = own
    return Fit(dict(zip(terms, factors.tolist())))


def explained(fit: Fit, seconds: Mapping[Size, float]) -> float:
    """R² of the logarithms, which is what the pictures show."""
    said, seen = (np.log(list(x)) for x in (map(fit, seconds), seconds.values()))
    return float(1 - ((seen - said) ** 2).sum() / ((seen - seen.mean()) ** 2).sum())


def exponent(curve: Curve, seconds: Mapping[Size, float]) -> float:
    before, last = curve.sizes[-2:]
    return math.log(seconds[last] / seconds[before]) / math.log(getattr(last, curve.axis) / getattr(before, curve.axis))


def draw(question: Question, seconds: Mapping[tuple[str, Size], float], fits: Mapping[str, Fit], path: Path) -> None:
    count = len(question.curves)
    figure = Figure(figsize=(1 + 4.2 * count, 4.2), dpi=110, facecolor="white", layout="constrained")
    panels = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for axes, curve in zip(panels, question.curves):
        for name, fit in fits.items():
            draw_curve(axes, curve, name, [seconds[name, size] for size in curve.sizes], fit)
        style(axes, curve.across, question.up if axes is panels[0] else "")
        axes.set_title(curve.title, fontsize=11)
        scale(axes, [getattr(size, curve.axis) for size in curve.sizes])
    panels[0].legend(fontsize=9, frameon=False, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def draw_curve(axes: Axes, curve: Curve, name: str, seen: list[float], fit: Fit) -> None:
    """Points, and the fit between them: its sizes are the points' and the means of neighbours."""
    across = [getattr(size, curve.axis) for size in curve.sizes]
    axes.plot(across, seen, "o", color=COLOURS[name], markersize=5, label=f"{name}, measured")
    between = [mean(a, b, t / 8) for a, b in zip(curve.sizes, curve.sizes[1:]) for t in range(9)]
    line = [getattr(size, curve.axis) for size in between], [fit(size) for size in between]
    axes.plot(*line, color=COLOURS[name], linewidth=1.4, label=f"{name}, fitted")


def mean(a: Size, b: Size, share: float) -> Size:
    """Between two sizes, evenly on a logarithmic scale."""
    return Size(*(x ** (1 - share) * y**share for x, y in zip(vars(a).values(), vars(b).values())))


def scale(axes: Axes, across: list[int]) -> None:
    """Logarithmic, with plain numbers."""
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_major_locator(FixedLocator(across))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="minor", color="#c8c8c8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="every second size, in about a minute")
    parser.add_argument("--only", action="append", choices=list(questions(False)))
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    windows, least = (3, 0.02) if options.quick else (5, 0.2)
    print("| cost of | model | milliseconds | R² | exponents at the end |\n|---|---|---|---:|---|")
    for name, question in questions(options.quick).items():
        if options.only and name not in options.only:
            continue
        speed = matrix_speed()
        seconds = measured(question, windows, least)
        own = {model: {s: y for (m, s), y in seconds.items() if m == model} for model in SETTINGS}
        fits = {model: fitted(question.terms[model], own[model]) for model in SETTINGS}
        draw(question, seconds, fits, options.pictures / f"costs-{name}.png")
        for model, fit in fits.items():
            r2 = explained(fit, own[model])
            exponents = {curve.title: exponent(curve, own[model]) for curve in question.curves}
            told = ", ".join(f"{title}: {x:.2f}" for title, x in exponents.items())
            print(f"| {name} | {model} | {fit.told()} | {r2:.3f} | {told} |", flush=True)
            points = [{**vars(size), "seconds": y} for size, y in own[model].items()]
            record("costs", of=name, model=model, factors=fit.factors, fit=fit.told(), r2=r2, exponents=exponents,
                   points=points, gflops=speed, quick=options.quick)  # fmt: skip


if __name__ == "__main__":
    main()
