"""RUN/log.jsonl as one picture, the first thing a person looks at: is it learning, and which checkpoint is best.

Left: training and validation loss in nats per token (logarithmic when it spans more than a factor of SPAN), with the
learning rate in grey behind. Right: the metric that selects the checkpoint, its best evaluation marked.

A log without reports, or none at all yet, gives an empty but labelled picture. Lines of another kind, and a line that a
killed process left half written, are passed over; a value that is missing or not finite is a gap in its curve.
Of several lines about one step the last counts.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any, TypeGuard

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from weft.runs.log import LogFile
from weft.score.metrics import table_of

Row = dict[str, Any]

SPAN = 20.0
FEW = 40
"""Up to so many points are marked one by one: a single point makes no line."""

TRAIN, VALID, METRIC, INK, FAINT = "#6fa8d6", "#c4501b", "#1f5f99", "#222222", "#a0a0a0"


def draw_curves(log: Path, path: Path, title: str = "") -> None:
    """Draw the curves of one run, 1200 × 450 dots."""
    rows = LogFile(log).lines()
    reports, evaluations = _of_kind(rows, "report"), _of_kind(rows, "evaluation")
    figure = Figure(
        figsize=(12, 4.5),
        dpi=100,
        facecolor="white",
        layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1, wspace=0.06),
    )
    left, right = figure.subplots(1, 2)
    _draw_loss(left, reports, evaluations)
    _draw_metric(right, evaluations)
    if title:
        figure.suptitle(title, fontsize=13, color=INK, parse_math=False)
    with warnings.catch_warnings():  # a name in letters that the font lacks is no reason to speak
        warnings.simplefilter("ignore")
        figure.savefig(path)


def _of_kind(rows: list[Row], kind: str) -> list[Row]:
    by_step = {row["step"]: row for row in rows if row.get("kind") == kind and _is_number(row.get("step"))}
    return [by_step[step] for step in sorted(by_step)]


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)


def _curve(rows: list[Row], field: str) -> tuple[list[float], list[float]]:
    """Steps and values of a field, NaN where there is none."""
    values = [row.get(field) for row in rows]
    return [row["step"] for row in rows], [float(v) if _is_number(v) else math.nan for v in values]


def _draw_loss(axes: Axes, reports: list[Row], evaluations: list[Row]) -> None:
    rates = axes.twinx()
    _line(rates, _curve(reports, "rate"), "learning rate", FAINT, 0.9, marked=False)
    training, validation = _curve(reports, "loss"), _curve(evaluations, "loss")
    _line(axes, training, "training (dropout, smoothed labels)", TRAIN, 1.4)
    _line(axes, validation, "validation", VALID, 1.8)
    _dress(axes, "loss (nats per token)")
    _scale_loss(axes, [v for v in training[1] + validation[1] if math.isfinite(v)])
    _dress_rates(rates)
    axes.set_zorder(rates.get_zorder() + 1)  # the loss lies over the rate
    axes.patch.set_visible(False)
    lines = [*axes.get_lines(), *rates.get_lines()]
    if lines:
        axes.legend(handles=lines, loc="upper right", fontsize=9, frameon=True, framealpha=0.85, edgecolor="none")
    else:
        _say(axes, "no report yet")


def _line(
    axes: Axes, curve: tuple[list[float], list[float]], label: str, colour: str, width: float, marked: bool = True
) -> None:
    """A curve, unless there is nothing to show of it."""
    count = sum(math.isfinite(value) for value in curve[1])
    if count:
        marker = "o" if count == 1 or (marked and count <= FEW) else ""
        axes.plot(*curve, color=colour, linewidth=width, marker=marker, markersize=3.5, label=label)


def _dress(axes: Axes, label: str) -> None:
    dress(axes, "step", label)
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.margins(x=0.03, y=0.08)


def dress(axes: Axes, across: str, up: str) -> None:
    """Labels, a faint grid, and no more lines than needed."""
    axes.set_xlabel(across, color=INK)
    axes.set_ylabel(up, color=INK)
    axes.grid(color="#e8e8e8", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#c8c8c8")
    axes.tick_params(color="#c8c8c8", labelcolor=INK, labelsize=9)


def _scale_loss(axes: Axes, values: list[float]) -> None:
    if values and min(values) > 0 and max(values) > SPAN * min(values):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _dress_rates(rates: Axes) -> None:
    rates.set_ylabel("learning rate", color=FAINT, fontsize=9)
    rates.tick_params(color="#d8d8d8", labelcolor=FAINT, labelsize=8)
    rates.spines[["top", "left", "right", "bottom"]].set_visible(False)
    rates.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    rates.yaxis.get_offset_text().set(color=FAINT, fontsize=8)
    rates.yaxis.set_major_locator(MaxNLocator(5))
    if rates.get_lines():
        rates.set_ylim(bottom=0)
    else:
        rates.set_yticks([])


def _draw_metric(axes: Axes, evaluations: list[Row]) -> None:
    named = [row["metric"] for row in evaluations if isinstance(row.get("metric"), str)]
    metric = named[-1] if named else "score"
    scored = [row | {"score": row.get("score", row.get(metric))} for row in evaluations]
    scored = [row for row in scored if _is_number(row["score"])]
    _line(axes, _curve(scored, "score"), metric, METRIC, 1.8)
    _dress(axes, label_of(metric))
    best = [row for row in scored if row.get("best") is True]
    if best:
        least = min(row["score"] for row in scored)
        _mark(axes, best[-1]["step"], best[-1]["score"], below=len(scored) > 1 and best[-1]["score"] <= least)
    if not scored:
        _say(axes, "no evaluation yet")


def label_of(metric: str) -> str:
    """What an axis says of a metric."""
    table = table_of()
    return table[metric].label if metric in table else metric


def _mark(axes: Axes, step: float, score: float, below: bool) -> None:
    """A ring and its label: on the outer side of the curve, where there is no line to cross."""
    axes.plot([step], [score], "o", markersize=9, markerfacecolor="none", markeredgecolor=VALID, markeredgewidth=1.8)
    axes.margins(y=0.18)
    across, _ = axes.transAxes.inverted().transform(axes.transData.transform((step, score)))
    axes.annotate(
        f"best {score:.4g} at step {step:,.0f}",
        (step, score),
        xytext=(0, -20 if below else 11),
        textcoords="offset points",
        ha="right" if across > 0.7 else "left" if across < 0.3 else "center",
        color=VALID,
        fontsize=10,
    )


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=FAINT, fontsize=11)
    axes.set(xticks=[], yticks=[])
