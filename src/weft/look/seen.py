"""Six pictures or spectrograms with truth and output, and where the model looked.

Over a grid, the mean of the attention over all symbols is drawn in red; over columns and frames, each symbol stands
where its attention was strongest or, of CTC, where it was emitted.

Limits: at most PANELS; letters as in look/attention.py.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from weft.look.curves import INK, save
from weft.predict.looks import Look

PANELS, COLUMNS = 6, 2
WIDTH, TEXT, HEAD = 12.0, 0.85, 0.5  # inches: of the whole, of the text of a row, of the title
LOWEST, HIGHEST = 0.25, 0.8  # heights of a picture, in multiples of its width
TITLE_LETTERS = 70
RIGHT, WRONG = "#1b7f4b", "#b3372b"
GLOW = LinearSegmentedColormap.from_list("glow", [(1, 0, 0, 0), (1, 0.1, 0, 0.75)])
LETTER = 0.014  # of the width of a panel
MOST_SYMBOLS = 40  # that are named under a picture


def draw_seen(looks: Sequence[Look], path: Path, title: str = "") -> None:
    """Draw some pictures or spectrograms, at least one, with what the model wrote of them."""
    looks = looks[:PANELS]
    rows = -(-len(looks) // COLUMNS)
    ratio = 0.3 if looks[0].sound else max(look.picture.shape[0] / look.picture.shape[1] for look in looks)
    row_height = TEXT + min(HIGHEST, max(LOWEST, ratio)) * WIDTH / COLUMNS
    size = (WIDTH, HEAD + row_height * rows)
    figure = Figure(figsize=size, dpi=100, facecolor="white", layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.12))
    panels = figure.subplots(rows, COLUMNS, squeeze=False).flatten()
    for axes, look in zip(panels, looks):
        _draw(axes, look)
    for axes in panels[len(looks) :]:
        axes.set_axis_off()
    if title:
        figure.suptitle(title, fontsize=13, color=INK, parse_math=False)
    save(figure, path)


def _draw(axes: Axes, look: Look) -> None:
    height, width = look.picture.shape[:2]
    extent = (0, width, 0, height)
    if look.sound:
        axes.imshow(look.picture, origin="lower", aspect="auto", cmap="Greys", extent=extent)
    else:
        axes.imshow(look.picture, extent=extent, cmap="gray", vmin=0, vmax=255)  # a coloured one has its colours
    if look.height > 1 and len(look.weights):
        glow = look.weights.mean(0).reshape(look.height, -1)
        axes.imshow(glow / max(1e-9, glow.max()), cmap=GLOW, vmin=0, vmax=1, extent=extent, interpolation="bilinear")
    axes.set_xticks([])
    if look.height == 1 and len(look.weights):
        _mark_symbols(axes, look, width)
    axes.set_yticks([])
    axes.spines[:].set_color("#c8c8c8")
    _name(axes, look)


def _mark_symbols(axes: Axes, look: Look, width: int) -> None:
    """Write each symbol below the position that counted most for it."""
    shares = (look.weights.argmax(1) + 0.5) / look.weights.shape[1]
    shown = beside_each_other(list(zip(shares.tolist(), look.symbols))[:MOST_SYMBOLS])
    axes.set_xticks([share * width for share, _ in shown], [name for _, name in shown], parse_math=False)
    axes.tick_params(length=3, labelsize=9, labelcolor=INK, color="#888888")


def beside_each_other(symbols: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Join symbols that would cover each other, until none does; a place is a share of the width."""
    groups = list(symbols)
    while pair := next(
        (pair for pair in combinations(range(len(groups)), 2) if _cover(*(groups[i] for i in pair))), ()
    ):
        first, second = pair
        place, name = groups[first]
        groups[first] = place, f"{name} {groups.pop(second)[1]}"
    return groups


def _cover(first: tuple[float, str], second: tuple[float, str]) -> bool:
    return abs(first[0] - second[0]) < LETTER * (len(first[1]) + len(second[1]) + 1) / 2


def _name(axes: Axes, look: Look) -> None:
    right = look.output == look.wanted
    text = f"✓ {look.output}" if right else f"✗ {look.output}   (wanted: {look.wanted})"
    lines = textwrap.wrap(text, TITLE_LETTERS)[:3]
    axes.set_title("\n".join(lines), fontsize=9, loc="left", color=RIGHT if right else WRONG, parse_math=False)
