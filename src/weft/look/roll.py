"""Tunes as piano rolls: time from left to right, pitch from bottom to top.

Each row has what was given (a prompt, or the notes that the model read) and, beside each other, how the tune of the
data goes on and what the model wrote. Octaves are marked by their C.

Limits: at most ROWS tunes, and LONGEST steps of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from weft.data.sides.notes import Tune, note_name
from weft.look.curves import FAINT, INK, METRIC, VALID, save

ROWS, LONGEST = 3, 160
WIDTH, ROW_HEIGHT, HEAD = 12.0, 2.3, 0.7  # inches
MARGIN = 2  # pitches above and below the notes
Example = tuple[Tune, Tune, Tune]  # what was given, the tune of the data, the tune of the model


def draw_rolls(examples: Sequence[Example], path: Path, title: str = "", continued: bool = True) -> None:
    """Draw a row of two rolls for each example; `continued`: both tunes go on from what was given."""
    examples = examples[:ROWS]
    size = (WIDTH, HEAD + ROW_HEIGHT * len(examples))
    figure = Figure(figsize=size, dpi=100, facecolor="white", layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
    rows = figure.subplots(len(examples), 2, sharey="row", squeeze=False)
    for (left, right), (given, wanted, output) in zip(rows, examples):
        for axes, tune, colour in ((left, wanted, METRIC), (right, output, VALID)):
            _draw(axes, given, tune, colour, continued)
        longest = max(len(wanted), len(output)) + (len(given) if continued else 0)
        for axes in (left, right):
            axes.set_xlim(0, min(LONGEST, max(len(given), longest, 1)))
        _mark_pitches(left, [*given, *wanted, *output])
    rows[0][0].set_title("the data", fontsize=11, color=METRIC)
    rows[0][1].set_title("the model", fontsize=11, color=VALID)
    for axes in rows[-1]:
        axes.set_xlabel("step", color=INK, fontsize=9)
    if title:
        figure.suptitle(title, fontsize=13, color=INK, parse_math=False)
    save(figure, path)


def _draw(axes: Axes, given: Tune, tune: Tune, colour: str, continued: bool) -> None:
    """Draw what was given in grey, and the tune after it or, where it does not go on, above it."""
    begin = len(given) if continued else 0
    _bars(axes, given[:LONGEST], 0, FAINT)
    _bars(axes, tune[: LONGEST - begin], begin, colour)
    axes.tick_params(length=0, labelcolor=INK, labelsize=8)
    axes.grid(axis="y", color="#ececec", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_color("#c8c8c8")


def _bars(axes: Axes, tune: Tune, begin: int, colour: str) -> None:
    """Draw each note as a bar as long as it sounds."""
    open_notes: dict[int, int] = {}
    bars: dict[int, list[tuple[float, float]]] = {}
    for number, step in enumerate([*tune, []], begin):
        for note in [note for note in open_notes if note not in step]:
            first = open_notes.pop(note)
            bars.setdefault(note, []).append((first + 0.05, number - first - 0.1))
        for note in step:
            open_notes.setdefault(note, number)
    for note, spans in bars.items():
        axes.broken_barh(spans, (note - 0.42, 0.84), facecolors=colour)


def _mark_pitches(axes: Axes, tune: Tune) -> None:
    """Mark each C, within the notes that are drawn."""
    notes = [note for step in tune for note in step] or [60]
    lowest, highest = min(notes) - MARGIN, max(notes) + MARGIN
    octaves = [note for note in range(lowest, highest + 1) if note % 12 == 0]
    axes.set_ylim(lowest, highest)
    axes.set_yticks(octaves, [note_name(note) for note in octaves])
