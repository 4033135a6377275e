"""Attention weights as heat maps: source symbols along the top, target symbols down the side, one square per weight.

Squares have the same size in every picture, so a longer sequence makes a larger picture, up to MOST_INCHES a side;
beyond that squares and letters shrink, and in the end only every second, third … symbol is named. All panels of a
picture share one colour scale, from 0 to the largest weight in it. No global state of matplotlib is changed.

Limits: letters are DejaVu Sans (Latin, Greek, Cyrillic, IPA, Arabic); matplotlib warns of and boxes the ones it lacks,
such as Chinese. Symbols longer than LONGEST_LABEL letters are truncated.
"""

# T target length · S source length

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from weft.core.errors import WeftError
from weft.look.curves import HEAT

Panel = tuple[Sequence[str], Sequence[str], np.ndarray, str]
"""Source symbols, target symbols, weights (T, S) and a title."""

CELL = 0.24  # inches, like all lengths here
GAP = 0.35  # around and between panels
BAR = 0.75  # the room that the colour bar takes at the right
LONGEST_BAR = 1.4
MOST_INCHES = 24.0
DOTS_PER_INCH = 150
LETTER = 0.62  # of a cell, so that neighbours never touch
LEAST_POINTS = 5.0
TITLE_POINTS = 10.0
LONGEST_LABEL = 24
SHOWN = {" ": "␣", "\u00a0": "⍽", "\t": "⇥", "\n": "⏎", "": "∅"}

FAMILY = "DejaVu Sans"
INK, FAINT = "#222222", "#d9dde3"


def heat_maps(panels: Sequence[Panel], path: Path) -> None:
    """Draw several heat maps in one picture, in reading order, in columns that make it a little wider than high."""
    if not panels:
        raise WeftError("there is no heat map to draw", where=str(path), todo="give at least one panel")
    for panel in panels:
        _check(panel, path)
    cell = CELL
    page = _page([_measured(panel, cell) for panel in panels])
    for _ in range(8):  # labels and gaps do not shrink in step with the cells, so the cap is approached
        if page.largest <= MOST_INCHES:
            break
        cell *= 0.98 * MOST_INCHES / page.largest
        page = _page([_measured(panel, cell) for panel in panels])
    _drawn(page, cell).savefig(path, dpi=DOTS_PER_INCH)


def _check(panel: Panel, path: Path) -> None:
    source, target, weights, _ = panel
    if weights.shape != (len(target), len(source)):
        raise WeftError(
            f"weights of shape {weights.shape} do not fit {len(target)} target and {len(source)} source tokens",
            where=str(path),
            todo="give one row per target token and one column per source token",
        )


@dataclass(frozen=True)
class _Sheet:
    """A panel with its sizes: the squares, and the space for its labels (left, above) and its title."""

    source: list[str]
    target: list[str]
    weights: np.ndarray  # (T, S)
    title: str
    cells: tuple[float, float]
    left: float
    above: float
    title_size: tuple[float, float]
    upright: bool

    @property
    def width(self) -> float:
        return self.left + max(self.cells[0], self.title_size[0] - self.left)

    @property
    def height(self) -> float:
        return self.title_size[1] + self.above + self.cells[1]


def _measured(panel: Panel, cell: float) -> _Sheet:
    source, target = [_shown(s) for s in panel[0]], [_shown(t) for t in panel[1]]
    title = _wrapped(panel[3], cell * len(source))
    points = _points(cell)
    widest = max((_inches(s, points) for s in source), default=0.0)
    upright = widest > 0.95 * cell * _every(cell)  # wider than its column: turn all of them
    return _Sheet(
        source=source,
        target=target,
        weights=panel[2],
        title=title,
        cells=(cell * max(1, len(source)), cell * max(1, len(target))),
        left=max((_inches(t, points) for t in target), default=0.0) + 0.08,
        above=(widest if upright else 1.3 * points / 72) + 0.08,
        title_size=_title_size(title),
        upright=upright,
    )


def _shown(symbol: str) -> str:
    visible = SHOWN.get(symbol) or "".join(SHOWN.get(letter, letter) for letter in symbol)
    if unicodedata.category(visible[0]).startswith("M"):  # an accent by itself
        visible = f"◌{visible}"
    return visible if len(visible) <= LONGEST_LABEL else visible[: LONGEST_LABEL - 1] + "…"


def _wrapped(title: str, width: float) -> str:
    """Wrap a title; it may widen a small panel to about 44 letters."""
    return "\n".join(textwrap.wrap(title, max(44, int(12 * width))))


def _points(cell: float) -> float:
    return max(LEAST_POINTS, 72 * cell * LETTER)


def _every(cell: float) -> int:
    """Return n to name every n-th symbol: 1 until the letters are taller than the squares."""
    return max(1, math.ceil(1.1 * _points(cell) / (72 * cell)))


def _inches(text: str, points: float) -> float:
    width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(family=FAMILY, size=points), False)
    return float(width) / 72


def _title_size(title: str) -> tuple[float, float]:
    lines = title.splitlines()
    return max((_inches(line, TITLE_POINTS) for line in lines), default=0.0), len(lines) * 1.35 * TITLE_POINTS / 72


@dataclass(frozen=True)
class _Page:
    """Sheets in a grid: each column is as wide as its widest sheet, each row as high as its highest."""

    sheets: list[_Sheet]
    widths: list[float]
    heights: list[float]

    @property
    def width(self) -> float:
        return GAP + sum(w + GAP for w in self.widths) + BAR

    @property
    def height(self) -> float:
        return GAP + sum(h + GAP for h in self.heights)

    @property
    def largest(self) -> float:
        return max(self.width, self.height)

    def corner(self, index: int) -> tuple[float, float]:
        """Return where a sheet begins, in inches from the left and from the top."""
        row, column = divmod(index, len(self.widths))
        left = list(accumulate((w + GAP for w in self.widths), initial=GAP))
        top = list(accumulate((h + GAP for h in self.heights), initial=GAP))
        return left[column], top[row]


def _page(sheets: list[_Sheet]) -> _Page:
    pages = [_columns(sheets, count) for count in range(1, len(sheets) + 1)]
    return min(pages, key=lambda page: abs(math.log(page.width / page.height / 1.4)))


def _columns(sheets: list[_Sheet], count: int) -> _Page:
    widths = [max(s.width for s in sheets[column::count]) for column in range(count)]
    heights = [max(s.height for s in sheets[start : start + count]) for start in range(0, len(sheets), count)]
    return _Page(sheets, widths, heights)


def _drawn(page: _Page, cell: float) -> Figure:
    figure = Figure(figsize=(page.width, page.height), facecolor="white")
    scale = _scale(page)
    for index, sheet in enumerate(page.sheets):
        left, top = page.corner(index)
        _draw_title(figure, sheet.title, left / page.width, 1 - top / page.height)
        top += sheet.title_size[1] + sheet.above
        axes = _axes(figure, page, left + sheet.left, top, *sheet.cells)
        _fill(axes, sheet, scale)
        _label(axes, sheet, cell)
    _bar(figure, page, scale)
    return figure


def _draw_title(figure: Figure, title: str, x: float, y: float) -> None:
    figure.text(x, y, title, fontsize=TITLE_POINTS, family=FAMILY, color=INK, va="top", parse_math=False)


def _scale(page: _Page) -> Normalize:
    real = [sheet.weights[np.isfinite(sheet.weights)] for sheet in page.sheets]
    values = np.concatenate([np.zeros(1), *real])
    least, most = float(values.min()), float(values.max())
    return Normalize(least, most if most > least else least + 1.0)


def _axes(figure: Figure, page: _Page, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes at a position in inches from the top left corner."""
    bottom = page.height - top - height
    return figure.add_axes((left / page.width, bottom / page.height, width / page.width, height / page.height))


def _fill(axes: Axes, sheet: _Sheet, scale: Normalize) -> None:
    rows, columns = sheet.weights.shape
    if sheet.weights.size:
        edges = (np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5)
        axes.pcolormesh(*edges, sheet.weights, cmap=HEAT, norm=scale, edgecolors=FAINT, linewidth=0.4)
    axes.set_xlim(-0.5, max(1, columns) - 0.5)
    axes.set_ylim(max(1, rows) - 0.5, -0.5)  # the first target symbol on top
    for spine in axes.spines.values():
        spine.set_color(FAINT)


def _label(axes: Axes, sheet: _Sheet, cell: float) -> None:
    step = _every(cell)
    axes.tick_params(length=0, pad=3, labelsize=_points(cell), labelcolor=INK, labelfontfamily=FAMILY)
    axes.tick_params(axis="x", top=False, bottom=False, labeltop=True, labelbottom=False)
    axes.set_xticks(range(0, len(sheet.source), step), sheet.source[::step], parse_math=False)
    axes.set_yticks(range(0, len(sheet.target), step), sheet.target[::step], parse_math=False)
    if sheet.upright:
        axes.tick_params(axis="x", labelrotation=90)


def _bar(figure: Figure, page: _Page, scale: Normalize) -> None:
    """Draw a small colour bar beside the first row, as high as its squares when these are few."""
    first = page.sheets[0]
    height = min(LONGEST_BAR, max(0.6, first.cells[1]))
    top = page.corner(0)[1] + first.title_size[1] + first.above
    top = min(top, page.height - height - 0.1)
    axes = _axes(figure, page, page.width - BAR - 0.05, top, 0.1, height)
    bar = figure.colorbar(ScalarMappable(scale, HEAT), cax=axes)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, length=2, color=FAINT, labelcolor=INK, labelfontfamily=FAMILY)
    bar.ax.locator_params(nbins=4)
