"""Pictures of a comparison: score against time, and score against source length.

Each variant is a line. Where one key varies, each value has a colour; where two do, the values of the first have
colours and those of the second have strokes; those of a third have markers. The legend is in the order of the ranking.
Where there are several seeds, faint lines are the single ones and the strong line is their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MultipleLocator

from weft.look.curves import INK, open_flat_axis, save, style

COLOURS = ("#1f5f99", "#c4501b", "#2f8f5b", "#8a4fa3", "#c99a12", "#3fa7b5", "#b0447a", "#6b6b6b", "#7a9a2e", "#8c5a3c")
STROKES = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)), (0, (3, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
POINTS = 120  # of a mean over seeds
BARS = "#eef1f4"
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)
MAX_TICKS = 9
MAX_SINGLE_SEEDS = 24  # beyond that, only means are drawn


@dataclass(frozen=True)
class Line:
    """One variant: its name, the index of each varied value, and the (x, y) points of each seed."""

    label: str
    value_indices: tuple[int, ...]
    seeds: tuple[tuple[tuple[float, float], ...], ...]


@dataclass(frozen=True)
class Look:
    colour: str
    stroke: object
    marker: str


def looks_of(lines: Sequence[Line]) -> list[Look]:
    """Return each line's look; a setting of which all lines have the same value (others were impossible) is ignored."""
    indices = [line.value_indices for line in lines]
    varied = [k for k, values in enumerate(zip(*indices, strict=True)) if len(set(values)) > 1]
    return [look_of(tuple(values[k] for k in varied) or (0,)) for values in indices]


def look_of(value_indices: tuple[int, ...]) -> Look:
    first, second, third = (*value_indices, 0, 0, 0)[:3]
    if len(value_indices) == 1:  # more values than colours: again with another stroke
        second = first // len(COLOURS)
    return Look(COLOURS[first % len(COLOURS)], STROKES[second % len(STROKES)], MARKERS[third % len(MARKERS)])


def draw_score_time(lines: Sequence[Line], path: Path, score: str, title: str = "") -> None:
    """Draw the validation score of each variant over training time; `score` is the name of its axis."""
    figure, axes = _figure(title)
    faint = sum(len(line.seeds) for line in lines if len(line.seeds) > 1) <= MAX_SINGLE_SEEDS
    for line, look in reversed(list(zip(lines, looks_of(lines), strict=True))):  # the first of the ranking lies on top
        if faint and len(line.seeds) > 1:
            for seed in line.seeds:
                axes.plot(*_xy(seed), color=look.colour, linewidth=0.7, alpha=0.3)
        mean = mean_curve(line.seeds)
        (drawn,) = axes.plot(*_xy(mean), color=look.colour, linewidth=2.0, label=line.label)
        drawn.set(linestyle=look.stroke, marker=look.marker, markersize=5, markevery=[-1] if mean else None)
    style(axes, "training time", score)
    axes.xaxis.set_major_formatter(FuncFormatter(_clock))
    longest = max((x for line in lines for seed in line.seeds for x, _ in seed), default=1.0)
    axes.xaxis.set_major_locator(MultipleLocator(next((s for s in TICKS if longest / s <= MAX_TICKS), longest)))
    axes.set_xlim(left=0)
    open_flat_axis(axes)
    _legend(axes)
    save(figure, path)


def draw_score_length(
    lines: Sequence[Line], classes: Sequence[tuple[str, int]], path: Path, score: str, length: str, title: str = ""
) -> None:
    """Draw the final score of each variant by classes of `length` (their names and numbers of rows)."""
    figure, axes = _figure(title)
    behind = axes.twinx()
    behind.bar(range(len(classes)), [count for _, count in classes], width=0.86, color=BARS)
    behind.set_ylim(0, 3.2 * max([count for _, count in classes], default=1))  # low, behind the lines
    behind.set_axis_off()
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)
    for line, look in reversed(list(zip(lines, looks_of(lines), strict=True))):
        points = mean_points(line.seeds)
        (drawn,) = axes.plot(*_xy(points), color=look.colour, linewidth=2.0, label=line.label)
        drawn.set(linestyle=look.stroke, marker=look.marker, markersize=5, clip_on=False)
    style(axes, f"{length}; bars: how many rows", score)
    axes.set_xticks(range(len(classes)), [f"{name}\n({count:,})" for name, count in classes])
    if all(y >= 0 for line in lines for seed in line.seeds for _, y in seed):  # log-probabilities are not
        axes.set_ylim(bottom=0)
    _legend(axes)
    save(figure, path)


def mean_curve(seeds: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Return the mean over seeds at the times that all have reached, interpolated linearly."""
    real = [seed for seed in seeds if seed]
    if len(real) < 2:
        return list(real[0]) if real else []
    low, high = max(seed[0][0] for seed in real), min(seed[-1][0] for seed in real)
    if high <= low:
        return mean_points([seed[-1:] for seed in real])
    times = np.linspace(low, high, POINTS)
    mean = np.mean([np.interp(times, *_xy(seed)) for seed in real], axis=0)
    return list(zip(times.tolist(), mean.tolist()))


def mean_points(seeds: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Return the mean of the first points, of the second points, and so on."""
    columns = zip(*seeds)
    return [(float(np.mean([x for x, _ in c])), float(np.mean([y for _, y in c]))) for c in columns]


def _xy(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _figure(title: str) -> tuple[Figure, Axes]:
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
    figure = Figure(figsize=(10, 5.4), dpi=110, facecolor="white", layout=layout)
    axes = figure.subplots()
    if title:
        axes.set_title(title, fontsize=12, color=INK, loc="left", pad=10, parse_math=False)
    return figure, axes


def _legend(axes: Axes) -> None:
    """Put the legend beside the picture, in the order of the ranking."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles[::-1],
            labels[::-1],
            loc="upper left",
            bbox_to_anchor=(1.01, 1.0),
            frameon=False,
            fontsize=9,
            labelcolor=INK,
            handlelength=3.2,
            title="in order of rank",
            title_fontsize=8,
            alignment="left",
        )


def _clock(seconds: float, _: int = 0) -> str:
    if seconds < 60:
        return f"{seconds:g} s"
    if seconds >= 5400:
        return f"{seconds / 3600:.3g} h"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if rest else f"{minutes} min"
