"""Predicted series with their truth, six of them in one picture.

Of two numbers per step the picture is a map, with the same scale for both axes: the source in grey, the reference in
blue, the output in orange, a dot at the end of each. Any other number of features is drawn over time, each feature a
line. Limits: the first three features and 400 steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from weft.look.curves import INK, save
from weft.score.series import SeriesExample, Steps

COLUMNS = 3
COLOURS = {"source": "#8a8a8a", "reference": "#1f6fae", "output": "#d9641a"}
STYLES = "-", "--", ":"  # of the features of a series over time
FEW = 40  # steps up to which each has a dot

Array = npt.NDArray[np.float64]


def draw_series(examples: Sequence[SeriesExample], path: Path, title: str = "") -> None:
    """Draw the examples, three in a row."""
    rows = -(-len(examples) // COLUMNS)
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    figure = Figure(figsize=(12, 3.6 * rows + 0.7), dpi=100, facecolor="white", layout=layout)
    grid = figure.subplots(rows, COLUMNS, squeeze=False).flatten()
    for axes, example in zip(grid, examples):
        _draw_example(axes, example)
    for axes in grid[len(examples) :]:
        axes.set_axis_off()
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=3, frameon=False, labelcolor=INK)
    if title:
        figure.suptitle(title, fontsize=13, color=INK, parse_math=False, x=0.02, ha="left")
    save(figure, path)


def _draw_example(axes: Axes, example: SeriesExample) -> None:
    parts = {
        "source": _array(example.source),
        "reference": _array(example.target),
        "output": _array(example.output),
    }
    if parts["reference"].shape[1] == 2 and parts["source"].shape[1] in (0, 2):
        _draw_map(axes, parts)
    else:
        _draw_over_time(axes, parts)
    axes.set_title(
        f"mean distance {example.distance:.3g} · {example.rank:.0%} of the rows are nearer", fontsize=9, color=INK
    )
    axes.grid(color="#ececec")
    axes.set_axisbelow(True)
    axes.spines[:].set_color("#c8c8c8")
    axes.tick_params(length=0, labelsize=8, labelcolor=INK)


def _draw_map(axes: Axes, parts: dict[str, Array]) -> None:
    """Draw a path for each part; the first step of reference and output is from the end of the source."""
    start = parts["source"][-1:] if len(parts["source"]) else np.zeros((0, 2))
    for name, values in parts.items():
        if not len(values):
            continue
        path = values if name == "source" else np.concatenate([start, values])
        marker = "." if len(values) <= FEW else None
        axes.plot(*path.T, color=COLOURS[name], label=name, linewidth=1.8, marker=marker, markersize=4)
        axes.plot(*path[-1], color=COLOURS[name], marker="o", markersize=6)
    axes.set_aspect("equal", adjustable="datalim")


def _draw_over_time(axes: Axes, parts: dict[str, Array]) -> None:
    """Draw a line for each feature of each part, the source before step 1."""
    for name, values in parts.items():
        if not len(values) or (name == "source" and values.shape[1] != parts["reference"].shape[1]):
            continue
        first = 1 - len(values) if name == "source" else 1
        steps = np.arange(first, first + len(values))
        marker = "." if len(values) <= FEW else None
        for feature in range(values.shape[1]):
            label = name if feature == 0 else None
            style = STYLES[feature % len(STYLES)]
            axes.plot(steps, values[:, feature], style, color=COLOURS[name], label=label, linewidth=1.6, marker=marker)
    axes.set_xlabel("step", fontsize=8, color=INK)


def _array(steps: Steps) -> Array:
    """Return the numbers (T, F), NaN where one is missing, (0, 0) if there are none."""
    if not steps:
        return np.zeros((0, 0))
    return np.array([[np.nan if number is None else number for number in step] for step in steps], dtype=np.float64)
