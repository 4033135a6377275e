"""RUN/log.jsonl as one picture, the first thing a person looks at: is it learning, and which checkpoint is best?

Left: training and validation loss (logarithmic when it spans more than a factor of SPAN), with the
learning rate in grey behind. Right: the metric that selects the checkpoint, its best evaluation marked. Legends are
above the axes, so that they cover no point, however few or many there are.

A log without reports, or no log at all yet, gives an empty but labelled picture. Lines of another kind, and a line that
a killed process left unfinished, are ignored; a value that is missing or not finite is a gap in its curve.
Of several lines about one step the last counts.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from weft.runs.log import LogFile
from weft.score.metrics import TABLES, table_for

Row = dict[str, Any]

SPAN = 20.0
FEW = 40
"""Curves of at most so many points have a marker on each: a single point makes no line."""

HEAT = LinearSegmentedColormap.from_list("weft", ["#ffffff", "#cfe3f2", "#6fb0d6", "#1f6fae", "#08264f"])
TRAIN, VALID, METRIC, INK, FAINT = "#6fa8d6", "#c4501b", "#1f5f99", "#222222", "#a0a0a0"


def draw_curves(log: Path, path: Path, title: str = "") -> None:
    """Draw the curves of one run, 1200 × 450 dots."""
    save(curves_figure(log, title), path)


def curves_figure(log: Path, title: str = "") -> Figure:
    """Return the picture of one run's log."""
    rows = LogFile(log).lines()
    reports, evaluations = _of_kind(rows, "report"), _of_kind(rows, "evaluation")
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1, wspace=0.06)
    figure = Figure(figsize=(12, 4.5), dpi=100, facecolor="white", layout=layout)
    left, right = figure.subplots(1, 2)
    _draw_loss(left, reports, evaluations)
    _draw_metric(right, evaluations)
    if title:
        figure.suptitle(title, fontsize=13, color=INK, parse_math=False)
    return figure


def save(figure: Figure, path: Path) -> None:
    with warnings.catch_warnings():  # a name in letters that the font lacks needs no warning
        warnings.simplefilter("ignore")
        figure.savefig(path)


def _of_kind(rows: list[Row], kind: str) -> list[Row]:
    by_step = {row["step"]: row for row in rows if row.get("kind") == kind and _is_number(row.get("step"))}
    return [by_step[step] for step in sorted(by_step)]


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)


def _curve(rows: list[Row], field: str) -> tuple[list[float], list[float]]:
    """Return the steps and the values of a field, NaN where there is none."""
    values = [row.get(field) for row in rows]
    return [row["step"] for row in rows], [float(v) if _is_number(v) else math.nan for v in values]


def _draw_loss(axes: Axes, reports: list[Row], evaluations: list[Row]) -> None:
    rates = axes.twinx()
    _plot(rates, _curve(reports, "rate"), "learning rate", FAINT, 0.9, marked=False)
    training, validation = _curve(reports, "loss"), _curve(evaluations, "loss")
    loss = table_for(evaluations[-1] if evaluations else {})["loss"]
    in_units = loss.unit == "number"  # of the data, in validation; in training, numbers are normalised
    _plot(axes, training, f"training (regularised{', normalised' * in_units})", TRAIN, 1.4)
    _plot(axes, validation, "validation", VALID, 1.8)
    _style_steps(axes, loss.label.removeprefix("validation "))
    _scale_loss(axes, [v for v in training[1] + validation[1] if math.isfinite(v)])
    _style_rates(rates)
    axes.set_zorder(rates.get_zorder() + 1)  # the loss lies over the rate
    axes.patch.set_visible(False)
    lines = [*axes.get_lines(), *rates.get_lines()]
    if lines:
        _legend_above(axes, lines)
    else:
        _write(axes, "no report yet")


def _legend_above(axes: Axes, lines: list[Line2D]) -> None:
    """Put the legend above the axes: inside, it would cover points."""
    axes.legend(
        handles=lines,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=3,
        fontsize=9,
        frameon=False,
        borderpad=0.2,
        borderaxespad=0.2,
        columnspacing=1.4,
        handlelength=1.6,
    )


def _plot(
    axes: Axes, curve: tuple[list[float], list[float]], label: str, colour: str, width: float, marked: bool = True
) -> None:
    """Draw a curve, unless there is nothing to show of it."""
    count = sum(math.isfinite(value) for value in curve[1])
    if count:
        marker = "o" if count == 1 or (marked and count <= FEW) else ""
        axes.plot(*curve, color=colour, linewidth=width, marker=marker, markersize=3.5, label=label)


def _style_steps(axes: Axes, label: str) -> None:
    """Label axes over steps; the steps begin at 0, and equal values get an axis of a whole unit."""
    style(axes, "step", label)
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.margins(x=0.03, y=0.1)
    if axes.get_lines():
        axes.set_xlim(left=0)
    open_flat_axis(axes)


def style(axes: Axes, x_label: str, y_label: str) -> None:
    """Set labels and a faint grid, and hide the lines that are not needed."""
    axes.set_xlabel(x_label, color=INK)
    axes.set_ylabel(y_label, color=INK)
    axes.grid(color="#e8e8e8", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#c8c8c8")
    axes.tick_params(color="#c8c8c8", labelcolor=INK, labelsize=9)


def open_flat_axis(axes: Axes) -> None:
    """Give an axis a whole unit on either side, none below 0, where all values are equal."""
    values = [float(y) for line in axes.get_lines() for y in np.atleast_1d(line.get_ydata()) if np.isfinite(y)]
    if values and max(values) - min(values) < 1e-6:
        axes.set_ylim(max(-0.1, values[0] - 1) if values[0] >= 0 else values[0] - 1, values[0] + 1)


def _scale_loss(axes: Axes, values: list[float]) -> None:
    if values and min(values) > 0 and max(values) > SPAN * min(values):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _style_rates(rates: Axes) -> None:
    rates.set_ylabel("learning rate", color=FAINT, fontsize=9)
    rates.tick_params(color="#d8d8d8", labelcolor=FAINT, labelsize=8)
    rates.spines[["top", "left", "right", "bottom"]].set_visible(False)
    rates.yaxis.set_major_locator(MaxNLocator(5))
    rates.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    if rates.get_lines():
        rates.set_ylim(bottom=0)
    else:
        rates.set_yticks([])


def _draw_metric(axes: Axes, evaluations: list[Row]) -> None:
    named_rows = [row for row in evaluations if isinstance(row.get("metric"), str)]
    metric = named_rows[-1]["metric"] if named_rows else "score"
    scored = [row | {"score": row.get("score", row.get(metric))} for row in evaluations]
    scored = [row for row in scored if _is_number(row["score"])]
    _plot(axes, _curve(scored, "score"), metric, METRIC, 1.8)
    _style_steps(axes, label_of(metric, named_rows[-1] if named_rows else None))
    best = [row for row in scored if row.get("best") is True]
    if best:
        _mark_best(axes, best[-1]["step"], best[-1]["score"])
    if not scored:
        _write(axes, "no evaluation yet")


def label_of(metric: str, line: Row | None = None) -> str:
    """Return the name of a metric for an axis, as the kind of target has it that a line of a log is about.

    Without such a line, a metric that several kinds of targets have in different senses keeps its short name.
    """
    if line is not None and metric in table_for(line):
        return table_for(line)[metric].label
    labels = {table[metric].label for table in TABLES.values() if metric in table}
    return labels.pop() if len(labels) == 1 else metric


def _mark_best(axes: Axes, step: float, score: float) -> None:
    """Draw a ring around the best evaluation, and name it above the axes."""
    (ring,) = axes.plot([step], [score], "o", markersize=9, markerfacecolor="none", clip_on=False)
    ring.set(markeredgecolor=VALID, markeredgewidth=1.8, label=f"best: {score:.4g} at step {step:,.0f}")
    _legend_above(axes, [ring])


def _write(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=FAINT, fontsize=11)
    axes.set(xticks=[], yticks=[])
