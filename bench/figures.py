"""What page.py shares: figures out of results.jsonl, Markdown tables and bars."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import timing
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from weft.look.curves import style

Line = dict[str, Any]
OURS, OTHERS = "#1f5f99", "#b8c4d0"
NAMES = {
    "weft": "Weft",
    "weft, float32": "Weft by CTranslate2, float32",
    "weft, int8": "Weft by CTranslate2, int8",
    "opennmt": "OpenNMT-py",
    "transformers": "Hugging Face",
    "ctranslate2": "CTranslate2",
}


def newest(lines: Iterable[Line], question: str, *key: str) -> dict[tuple[Any, ...], Line]:
    """The last line of a question for each value of some of its fields; lines without these are of older scripts."""
    own = (line for line in lines if line["question"] == question and all(k in line for k in key))
    return {tuple(line[k] for k in key): line for line in own}


def number(line: Line | None, field: str) -> float | None:
    """A figure, or the median of several; None where there is none."""
    found = None if line is None else line.get(field)
    if isinstance(found, list):
        found = statistics.median(found) if found else None
    return found


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Markdown; columns but the first ones are set to the right."""
    rule = ["---"] * left + ["---:"] * (len(heads) - left)
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, rule, *rows))


def told(figure: float | None, form: str = ",.0f") -> str:
    return "" if figure is None else f"{figure:{form}}"


def spread(line: Line) -> str:
    """Over the windows of all rounds."""
    windows = line.get("windows") or []
    return told(timing.spread(windows), ".0%") if len(windows) > 1 else ""


def when(lines: Iterable[Line]) -> str:
    """The time that some lines were measured in, and how fast the machine was then."""
    lines = list(lines)
    times = sorted({line["at"] for line in lines})
    speeds = [speed for line in lines if (speed := number(line, "gflops")) is not None]
    matrix = f"; matrix products at {statistics.median(speeds):.0f} GFLOP/s" if speeds else ""
    return f"*Measured {times[0]}{f' to {times[-1]}' if len(times) > 1 else ''}{matrix}.*"


def peer_only(system: str, figure: float | None) -> str:
    """A ratio to Weft; Weft's own to itself says nothing."""
    return "" if system.startswith("weft") else told(figure, ".2f")


def shown(system: str) -> str:
    """The name of a toolkit; what follows a comma is how it was run."""
    name, comma, rest = system.partition(",")
    return NAMES.get(system, f"{NAMES.get(name, name)}{comma}{rest}")


def draw_bars(groups: Mapping[str, Mapping[str, float]], across: str, path: Path) -> None:
    """One panel a model, two beside each other; a bar a toolkit, as thick everywhere, Weft's in colour."""
    if not groups:
        return
    pairs = [list(groups.items())[i : i + 2] for i in range(0, len(groups), 2)]
    most = [max(len(bars) for _, bars in pair) for pair in pairs]
    figure = Figure(figsize=(10, sum(1.0 + 0.32 * count for count in most)), dpi=110, layout="constrained")
    grid = figure.subplots(len(pairs), 2, squeeze=False, height_ratios=[count + 0.2 for count in most])
    for places, pair, count in zip(grid, pairs, most):
        for axes, (model, bars) in zip(places, pair):
            draw_panel(axes, bars, count)
            style(axes, across, "")
            axes.set_title(model, fontsize=11)
            axes.grid(visible=False, axis="y")
        for axes in places[len(pair) :]:
            axes.set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def draw_panel(axes: Axes, bars: Mapping[str, float], places: int) -> None:
    """The fastest on top; room for as many bars as the neighbour has."""
    names = sorted(bars, key=lambda name: -bars[name])
    colours = [OURS if name.startswith("weft") else OTHERS for name in names]
    drawn = axes.barh([shown(name) for name in names], [bars[name] for name in names], color=colours, height=0.7)
    axes.bar_label(
        drawn, labels=[f"{bars[name]:,.{0 if bars[name] > 10 else 1}f}" for name in names], padding=4, fontsize=9
    )
    axes.set_ylim(places - 0.5, -0.5)
    axes.margins(x=0.16)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
