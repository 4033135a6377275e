"""Numbers in files of their own: a NumPy array (.npy), a table of plain numbers (.csv), one step a row, or a sound.

The numbers of a sound are its samples, from −1 to 1, FRAME of them a step; what is left at its end is not used. A model
that continues the steps continues the waveform, as that of Chung 2015 does.

An empty field of a .csv file and NaN in an array are missing numbers. A first line with a word in it is a header.
"""

# T steps · F features

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.core.counts import counted
from weft.data.formats import Fault
from weft.data.named_files import has_ending, name_of
from weft.data.sound import recordings

ENDINGS = (".npy", ".csv")
READABLE = (*ENDINGS, *recordings.ENDINGS)  # a column of sounds holds numbers only where that is said
FRAME = 20  # samples of a sound that are one step
LONGEST_SOUND = 3600.0  # seconds
LARGEST = 1 << 28  # bytes
RECENT = 8  # files that are kept: a row is checked and then used
Array = npt.NDArray[np.float64]


@lru_cache(maxsize=RECENT)
def read_numbers(path: str, modified: int) -> Array:
    """Return the numbers (T, F) of a file, NaN where one is missing; `modified` is its time, by which it is kept."""
    values = _reader(path)(path)
    name = name_of(path)
    if not values.size:
        raise Fault(f"{name} holds no numbers", "give a file with at least one number")
    if np.isinf(values).any():
        raise Fault(
            f"{name} contains an infinite value", "write NaN, or leave the field empty, where a number is missing"
        )
    return values


def _reader(path: str) -> Callable[[str], Array]:
    if has_ending(path, recordings.ENDINGS):
        return _from_sound
    return _from_array if has_ending(path, (".npy",)) else _from_table


def _from_sound(path: str) -> Array:
    """Return the samples of a recording in frames (T, FRAME)."""
    samples, _ = recordings.read(path, LONGEST_SOUND)
    if len(samples) < FRAME:
        what = f"{name_of(path)} has {counted(len(samples), 'sample')}, but at least {FRAME} (one step) are needed"
        raise Fault(what, "leave out such short recordings")
    return samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME).astype(np.float64)


def _from_array(path: str) -> Array:
    name = name_of(path)
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        todo = "write it with numpy.save, as an array of numbers"
        raise Fault(f"{name} is not a NumPy array that can be read ({error})", todo) from None
    if values.dtype.kind not in "iuf" or values.ndim not in (1, 2):
        what = f"{name} is an array of {values.dtype} with {values.ndim} dimensions"
        raise Fault(what, "save an array of numbers of shape (steps,) or (steps, features)")
    return np.array(values if values.ndim == 2 else values[:, None], dtype=np.float64)


def _from_table(path: str) -> Array:
    """Return the numbers of a table; its fields are separated by commas, semicolons or tabs."""
    name = name_of(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except UnicodeDecodeError:
        raise Fault(f"{name} is not UTF-8 text", "save the table as UTF-8") from None
    lines = [row for row in csv.reader(text.splitlines(), delimiter=_delimiter(text)) if row]
    first = 1 if lines and _is_header(lines[0]) else 0
    rows = [_row(cells, name, line) for line, cells in enumerate(lines[first:], first + 1)]
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise Fault(
            f"rows of {name} have {min(widths)} to {max(widths)} numbers", "give every row the same number of fields"
        )
    return np.array(rows, dtype=np.float64).reshape(len(rows), max(widths, default=0))


def _delimiter(text: str) -> str:
    return next((mark for mark in ";\t" if mark in text.partition("\n")[0]), ",")


def _is_header(cells: list[str]) -> bool:
    return any(cell.strip() and _number(cell) is None for cell in cells)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _row(cells: list[str], name: str, line: int) -> list[float]:
    numbers = [math.nan if not cell.strip() else _number(cell) for cell in cells]
    wrong = next((cell for cell, number in zip(cells, numbers) if number is None), None)
    if wrong is not None:
        what = f"line {line} of {name} holds {wrong[:30]!r}, which is not a number"
        raise Fault(what, "write a number, or leave the field empty")
    return [number for number in numbers if number is not None]
