"""A confusion matrix as a picture: a row for each label, a column for each prediction.

Colours are shares of the row, so that rare labels can be read as well as frequent ones; each square has its count.

Limits: letters as in look/attention.py; labels longer than LONGEST_LABEL letters are truncated.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from weft.look.curves import HEAT, INK, save
from weft.score.confusion import Confusion

CELL, MARGIN = 0.55, 2.6  # inches: of a square, and of the room for labels and titles
LONGEST_LABEL = 20
DARK = 0.55  # the share from which on numbers are white


def draw_confusion(confusion: Confusion, path: Path, title: str = "") -> None:
    """Draw the matrix; labels are those of the data down the side, predictions along the bottom."""
    counts = np.array(confusion.counts, dtype=float)
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    side = CELL * len(confusion.labels) + MARGIN
    figure = Figure(figsize=(side + 1, side), dpi=100, facecolor="white", layout=ConstrainedLayoutEngine())
    axes = figure.subplots()
    image = axes.imshow(100 * shares, cmap=HEAT, vmin=0, vmax=100)
    names = [name if len(name) <= LONGEST_LABEL else name[: LONGEST_LABEL - 1] + "…" for name in confusion.labels]
    positions = range(len(names))
    axes.set_xticks(positions, names, rotation=45 if max(map(len, names)) > 3 else 0, parse_math=False)
    axes.set_yticks(positions, names, parse_math=False)
    axes.set_xlabel("predicted", color=INK)
    axes.set_ylabel("label", color=INK)
    axes.tick_params(length=0, labelcolor=INK, labelsize=9)
    axes.spines[:].set_color("#c8c8c8")
    for row, column in np.argwhere(counts > 0):
        colour = "white" if shares[row, column] > DARK else INK
        axes.text(column, row, f"{counts[row, column]:,.0f}", ha="center", va="center", color=colour, fontsize=8)
    bar = figure.colorbar(image, ax=axes, shrink=0.7, pad=0.03)
    bar.set_label("share of the label's rows (%)", color=INK, fontsize=9)
    bar.ax.tick_params(labelsize=8, labelcolor=INK)
    if title:
        axes.set_title(title, fontsize=12, color=INK, parse_math=False)
    save(figure, path)
