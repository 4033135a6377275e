"""One view as a picture for a paper: SVG, PNG or PDF, drawn from the same numbers as the page.

There is one function for each kind of plot (`plots.py`). A view that has figures is drawn without its tables, and of
several maps only the first kind. Limits: of a heat map the first panels are drawn, of a table the first rows, of a text
what fits; whatever is cut says so in its title.
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
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure, SubFigure

FORMATS = ("svg", "png", "pdf")
WIDTH = 8.0  # inches
MOST_PANELS, MOST_ROWS, MOST_TOKENS, PER_LINE = 6, 25, 600, 90
FAINT = 0.7  # as on the page: weights that are all below are scaled to the largest
STEPS = 8  # of a search, side by side
ROW = 0.17  # inches for each of its branches
Plot = Mapping[str, Any]


def picture(numbers: Mapping[str, Any], view: str, form: str) -> bytes:
    """Return a file with all plots of one view: of all lines together, or else of the first line."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    plots = figures([plot for plot in plots_of(numbers, view).values() if height(plot)])
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


def figures(plots: Sequence[Plot]) -> list[Plot]:
    """Return what belongs into a figure: no tables beside curves or maps, and of several maps the first."""
    maps = [plot for plot in plots if plot["plot"] == "heat"]
    drawn = [plot for plot in plots if plot["plot"] not in ("table", "facts", "heat")]
    return [*maps[:1], *drawn] or list(plots)


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
    names = 0.07 * max((len(str(name)) for name in plot["columns"]), default=0)  # they stand upright below
    return rows * min(4.5, max(1.6, each * len(plot["rows"]) / max(1, len(plot["columns"])) + 0.5 + names)) + 0.3


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
        high = 1.0 if plot.get("scale", "share") == "share" and most > FAINT else most
        image = axes.imshow(values, cmap=_colours(signed), vmin=-high if signed else 0.0, vmax=high, aspect="auto")
        bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
        bar.ax.tick_params(labelsize=6)
        axes.set_title(panel["name"], fontsize=8)
        axes.set_xticks(range(len(plot["columns"])), [_shown(x) for x in plot["columns"]], fontsize=7, rotation=90)
        axes.set_yticks(range(len(plot["rows"])), [_shown(x) for x in plot["rows"]], fontsize=7)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()


def _colours(signed: bool) -> Colormap:
    """Return the colours of the page: blue for size, orange and blue for sign."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("weft", [*(["#c2570c"] if signed else []), "#ffffff", "#0b5cad"])


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
    if plot.get("log_x"):
        axes.set_xscale("log", base=2)
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


def _laid_out(tokens: Sequence[Any], gap: int = 0) -> list[tuple[str, int, int]]:
    """Return the text of each token with its column and line; lines end where they are full, and at newlines."""
    placed, column, line = [], 0, 0
    for token in tokens[:MOST_TOKENS]:
        text = " " if token == " " else _shown(token)
        if column and column + len(text) > PER_LINE:
            column, line = 0, line + 1
        placed.append((text, column, line))
        column += len(text) + gap
        if token == "\n":
            column, line = 0, line + 1
    return placed


def _shaded_height(plot: Plot) -> float:
    lines = max((line for _, _, line in _laid_out(plot["tokens"], bool(plot.get("spaced")))), default=0) + 1
    return min(4, len(plot["panels"])) * (0.35 + 0.19 * lines)


def _shaded(figure: SubFigure, plot: Plot) -> None:
    """Draw a text once for each unit, its symbols on coloured squares."""
    panels, placed, colours = plot["panels"][:4], _laid_out(plot["tokens"], bool(plot.get("spaced"))), _colours(True)
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
    """Draw a search from left to right, in bands of some steps; the legend says what the colours mean."""
    legend = "blue: the output · green: the right output · black: kept · grey: pruned · ■ ended · numbers: log p"
    columns, every = _steps(plot), _depth(plot)
    axes = _empty(figure, plot["title"] + ("" if len(columns) == every else f" ({len(columns)} of {every} steps)"))
    axes.text(0, 1, legend, fontsize=6, va="bottom", transform=axes.transAxes)
    best, right = set(plot.get("best", ())), set(plot.get("right", ()))
    tall = _tallest(plot)
    place = {
        node["id"]: (depth % STEPS, depth // STEPS * (tall + 1) + row)
        for depth, column in enumerate(columns)
        for row, node in enumerate(column)
    }
    for node in (node for column in columns for node in column):
        x, y = place[node["id"]]
        grey = "#8a8a8a" if node["fate"] == "pruned" else "#222222"
        colour = "#0b5cad" if node["id"] in best else "#117a56" if node["id"] in right else grey
        before = place.get(node["parent"])
        if before is not None and before[0] < x:
            axes.plot([x - 0.24, x - 0.03], [before[1], y], color=colour, linewidth=1.2 if colour != grey else 0.4)
        symbol = _shown(node["symbol"])
        name = f"{symbol if len(symbol) < 9 else symbol[:7] + '…'} {node['log_prob']:.2f}"
        axes.text(x, y, name + (" ■" if node["fate"] == "ended" else ""), fontsize=6, color=colour, va="center")
    axes.set(xlim=(-0.1, min(STEPS, len(columns))), ylim=(max(y for _, y in place.values()) + 0.7, -0.7))


def _steps(plot: Plot) -> list[list[Any]]:
    """Return what was considered at each step until the output ended, kept branches first."""
    depth, columns = {-1: -1}, list[list[Any]]()
    for node in plot["nodes"]:
        depth[node["id"]] = depth.get(node["parent"], -1) + 1
        columns += [[]] if depth[node["id"]] == len(columns) else []
        columns[depth[node["id"]]].append(node)
    columns = columns[: len(plot.get("best", ())) or None]
    return [sorted(column, key=lambda node: (node["fate"] == "pruned", -node["rank"])) for column in columns]


def _depth(plot: Plot) -> int:
    return len(_steps({"nodes": plot["nodes"]}))


def _tallest(plot: Plot) -> int:
    return max(map(len, _steps(plot)))


def _tree_height(plot: Plot) -> float:
    bands = -(-len(_steps(plot)) // STEPS)
    return 0.6 + ROW * bands * (_tallest(plot) + 1)


def _empty(figure: SubFigure | Figure, title: str) -> Axes:
    axes: Axes = figure.subplots()
    axes.set_axis_off()
    axes.set_title(_shown(title), fontsize=10, loc="left", pad=14)
    return axes


DRAWN: dict[str, tuple[Callable[[Plot], float], Callable[[SubFigure, Plot], None]]] = {
    "heat": (_heat_height, _heat),
    "curves": (lambda plot: 3.2, _curves),
    "table": (_table_height, _table),
    "shaded": (_shaded_height, _shaded),
    "facts": (lambda plot: 0.6 + 0.18 * (len(plot.get("items", {})) + len(plot.get("verdict", "")) // 100), _facts),
    "tree": (_tree_height, _tree),
}


def check_format(form: str, views: Sequence[str]) -> None:
    """Refuse an unknown format, and a picture of more than one view."""
    if form not in ("html", *FORMATS):
        raise UserError(f"there is no format {form!r}", f"--format {form}", f"choose from html, {', '.join(FORMATS)}")
    if form != "html" and len(views) != 1:
        what = "a picture shows one view"
        raise UserError(what, f"--format {form}", "name it: --view attention, for example")
