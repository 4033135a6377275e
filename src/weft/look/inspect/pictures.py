"""One view as a picture for a paper: SVG, PNG or PDF, drawn from the same numbers as the page.

There is one function for each kind of plot (`plots.py`). Limits: of a heat map the first panels are drawn, of a table
the first rows, of a text what fits; whatever is cut says so in its title.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.core.errors import UserError
from weft.look.compared import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

FORMATS = ("svg", "png", "pdf")
WIDTH = 8.0  # inches
MOST_PANELS, MOST_ROWS, MOST_TOKENS, PER_LINE = 6, 25, 600, 90
Plot = Mapping[str, Any]


def picture(numbers: Mapping[str, Any], view: str, form: str) -> bytes:
    """Return a file with all plots of one view: of all lines together, or else of the first line."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    plots = [plot for plot in plots_of(numbers, view).values() if height(plot)]
    if not plots:
        what = f"there is nothing to draw of the view {view}"
        raise UserError(what, f"--format {form}", "leave --format out, or choose another view")
    heights = [height(plot) for plot in plots]
    with rc_context({"svg.fonttype": "path", "svg.hashsalt": "weft"}):
        figure = Figure(figsize=(WIDTH, sum(heights)), dpi=150, layout="constrained")
        parts = figure.subfigures(len(plots), 1, height_ratios=heights, squeeze=False)[:, 0]
        for part, plot in zip(parts, plots, strict=True):
            DRAWN[plot["plot"]][1](part, plot)
        content = io.BytesIO()
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[form]
        figure.savefig(content, format=form, metadata=metadata)
    return content.getvalue()


def plots_of(numbers: Mapping[str, Any], view: str) -> dict[str, Plot]:
    """Return the plots of a view by name."""
    if view in numbers["summary"]:
        return dict(numbers["summary"][view])
    return dict(numbers["lines"][0]["views"].get(view, {})) if numbers["lines"] else {}


def height(plot: Plot) -> float:
    """Return how many inches a plot needs."""
    return DRAWN[plot["plot"]][0](plot)


def _shown(symbol: Any) -> str:
    """Return a symbol that can be seen; a dollar sign would begin a formula."""
    text = {" ": "␣", "\n": "⏎", "\t": "⇥"}.get(str(symbol), str(symbol))
    return text.replace("\n", "⏎").replace("$", r"\$")


def _heat_height(plot: Plot) -> float:
    rows = -(-min(MOST_PANELS, len(plot["panels"])) // 2)
    each = WIDTH / (2 if len(plot["panels"]) > 1 else 1.4)
    return rows * min(6.0, max(1.6, each * len(plot["rows"]) / max(1, len(plot["columns"])) + 0.8)) + 0.3


def _heat(figure: SubFigure, plot: Plot) -> None:
    panels = plot["panels"][:MOST_PANELS]
    cut = "" if len(panels) == len(plot["panels"]) else f" ({len(panels)} of {len(plot['panels'])} maps)"
    figure.suptitle(plot["title"] + cut, fontsize=10)
    across = 2 if len(panels) > 1 else 1
    grid = figure.subplots(-(-len(panels) // across), across, squeeze=False).flatten()
    signed = plot.get("scale") == "signed"
    for axes, panel in zip(grid, panels):
        values = [[0.0 if x is None else x for x in row] for row in panel["values"]]
        most = max((abs(x) for row in values for x in row), default=1.0) or 1.0
        low, high = (-most, most) if signed else (0.0, 1.0 if plot.get("scale") == "share" else most)
        axes.imshow(values, cmap="PuOr" if signed else "cividis_r", vmin=low, vmax=high, aspect="auto")
        axes.set_title(panel["name"], fontsize=8)
        axes.set_xticks(range(len(plot["columns"])), [_shown(x) for x in plot["columns"]], fontsize=7, rotation=90)
        axes.set_yticks(range(len(plot["rows"])), [_shown(x) for x in plot["rows"]], fontsize=7)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()


def _curves(figure: SubFigure, plot: Plot) -> None:
    axes = figure.subplots()
    for index, series in enumerate(plot["series"]):
        colour, style = COLOURS[index % len(COLOURS)], ("-", "--", ":", "-.")[index % 4]
        y = [float("nan") if value is None else value for value in series["y"]]
        axes.plot(plot["x"], y, style, color=colour, label=_shown(series["name"]), linewidth=1.6)
        if "low" in series and "high" in series:
            axes.fill_between(plot["x"], series["low"], series["high"], color=colour, alpha=0.15)
    axes.set(xlabel=plot["x_name"], ylabel=plot["y_name"])
    if plot.get("log"):
        axes.set_yscale("log")
    axes.set_title(_shown(plot["title"]), fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e4e4e4")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _table_height(plot: Plot) -> float:
    return 0.8 + 0.22 * min(MOST_ROWS, len(plot["rows"]))


def _table(figure: SubFigure, plot: Plot) -> None:
    rows = plot["rows"][:MOST_ROWS]
    cut = "" if len(rows) == len(plot["rows"]) else f" ({len(rows)} of {len(plot['rows'])} rows)"
    axes = _empty(figure, plot["title"] + cut)
    cells = [[_cell(cell) for cell in row] for row in rows]
    heads = ["\n".join(textwrap.wrap(name, 16)) for name in plot["columns"]]
    table = axes.table(cells or [[""] * len(heads)], colLabels=heads, loc="center", cellLoc="left", edges="horizontal")
    table.auto_set_font_size(False)
    table.set_fontsize(7)
    table.auto_set_column_width(range(len(heads)))
    for column in range(len(heads)):
        table[0, column].set_height(table[0, column].get_height() * (1 + max(h.count("\n") for h in heads)))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return "–" if value is None else textwrap.shorten(_shown(value), 36, placeholder="…")


def _laid_out(tokens: Sequence[Any]) -> list[tuple[str, int, int]]:
    """Return the text of each token with its column and line; lines end where they are full, and at newlines."""
    placed, column, line = [], 0, 0
    for token in tokens[:MOST_TOKENS]:
        text = " " if token == " " else _shown(token)
        if column and column + len(text) > PER_LINE:
            column, line = 0, line + 1
        placed.append((text, column, line))
        column += len(text)
        if token == "\n":
            column, line = 0, line + 1
    return placed


def _shaded_height(plot: Plot) -> float:
    lines = max((line for _, _, line in _laid_out(plot["tokens"])), default=0) + 1
    return min(4, len(plot["panels"])) * (0.35 + 0.19 * lines)


def _shaded(figure: SubFigure, plot: Plot) -> None:
    """Draw a text once for each unit, its symbols on coloured squares."""
    from matplotlib import colormaps

    panels, placed, colours = plot["panels"][:4], _laid_out(plot["tokens"]), colormaps["PuOr"]
    for axes, panel in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        most = max((abs(x) for x in panel["values"] if x is not None), default=1.0) or 1.0
        for (text, column, line), value in zip(placed, panel["values"]):
            shade = colours(0.5 + 0.3 * (value or 0.0) / most)
            axes.fill_between([column, column + len(text)], line, line + 1, color=shade, linewidth=0)
            axes.text(column + 0.1, line + 0.75, text, family="monospace", fontsize=8)
        axes.set(xlim=(0, PER_LINE), ylim=(max((line for *_, line in placed), default=0) + 1, 0))
        axes.set_axis_off()
        axes.set_title(panel["name"], fontsize=8)


def _facts(figure: SubFigure, plot: Plot) -> None:
    axes = _empty(figure, plot["title"])
    lines = [f"{name}: {_cell(value)}" for name, value in plot.get("items", {}).items()]
    lines += textwrap.wrap(plot.get("verdict", ""), 110)
    axes.text(0, 1, "\n".join(map(_shown_line, lines)), fontsize=8, va="top", transform=axes.transAxes)


def _shown_line(text: str) -> str:
    return text.replace("$", r"\$")


def _tree(figure: SubFigure, plot: Plot) -> None:
    """Draw a search from left to right: what was kept in dark, what was pruned in grey."""
    axes = _empty(figure, plot["title"])
    nodes, best = plot["nodes"], set(plot.get("best", ()))
    depth, rows, place = {-1: -1}, dict[int, int](), dict[int, tuple[int, int]]()
    for node in nodes:
        depth[node["id"]] = depth.get(node["parent"], -1) + 1
        rows[depth[node["id"]]] = rows.get(depth[node["id"]], -1) + 1
        place[node["id"]] = depth[node["id"]], rows[depth[node["id"]]]
    for node in nodes:
        x, y = place[node["id"]]
        colour = "#0b5ed7" if node["id"] in best else "#222222" if node["fate"] != "pruned" else "#a0a0a0"
        if node["parent"] in place:
            axes.plot([place[node["parent"]][0], x], [place[node["parent"]][1], y], color=colour, linewidth=0.7)
        axes.text(
            x, y, _shown(node["symbol"]), fontsize=7, color=colour, bbox={"fc": "white", "ec": "none", "pad": 0.5}
        )
    axes.set(xlim=(-1, max(rows, default=0) + 1), ylim=(max(rows.values(), default=0) + 1, -1))


def _empty(figure: SubFigure | Figure, title: str) -> Axes:
    axes: Axes = figure.subplots()
    axes.set_axis_off()
    axes.set_title(_shown(title), fontsize=10, loc="left")
    return axes


DRAWN: dict[str, tuple[Callable[[Plot], float], Callable[[SubFigure, Plot], None]]] = {
    "heat": (_heat_height, _heat),
    "curves": (lambda plot: 3.2, _curves),
    "table": (_table_height, _table),
    "shaded": (_shaded_height, _shaded),
    "facts": (lambda plot: 0.6 + 0.18 * (len(plot.get("items", {})) + len(plot.get("verdict", "")) // 100), _facts),
    "tree": (lambda plot: 4.0, _tree),
}


def check_format(form: str, views: Sequence[str]) -> None:
    """Refuse an unknown format, and a picture of more than one view."""
    if form not in ("html", *FORMATS):
        raise UserError(f"there is no format {form!r}", f"--format {form}", f"choose from html, {', '.join(FORMATS)}")
    if form != "html" and len(views) != 1:
        what = "a picture shows one view"
        raise UserError(what, f"--format {form}", "name it: --view attention, for example")
