"""Cells of numbers: lists as JSON, or names of files → arrays."""

# T steps · F features

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.data.formats import Fault
from weft.data.named_files import has_ending, path_of
from weft.data.number_files import READABLE, read_numbers

SHOWN = 30  # characters of a cell in a message
LARGEST = 1e100  # whose square is a number, too
Array = npt.NDArray[np.float64]


def parse(cell: str) -> Array:
    """Return the numbers of a cell (T, F), NaN where one is missing; raise a Fault where it holds something else.

    The numbers of a cell that names a file are those of the file.
    """
    if names_file(cell):
        return read_numbers(cell, os.stat(path_of(cell)).st_mtime_ns)
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        shown = cell if len(cell) <= SHOWN else f"{cell[:SHOWN]}…"
        todo = "write a list such as [1.5, 2] or [[1.5, 2], [3, 4]]"
        raise Fault(f"{shown!r} is not a list of numbers", todo) from None
    if not isinstance(value, list):
        raise Fault("a single number is given where a list is expected", "write it as a list: [1.5]")
    if not value:
        raise Fault("the list is empty", "give at least one number")
    values = _plain(value)
    if values is not None:
        return values
    return _checked(value if any(isinstance(row, list) for row in value) else [[number] for number in value])


def names_file(cell: str) -> bool:
    return not cell.lstrip().startswith("[") and has_ending(cell, READABLE)


def _plain(value: list[Any]) -> Array | None:
    """Return a list of nothing but numbers, or of equally long lists of them, as an array; None for any other."""
    try:
        values = np.array(value)
    except ValueError:  # lists of other lengths
        return None
    if values.dtype.kind not in "if" or values.ndim > 2 or not values.size or not (np.abs(values) <= LARGEST).all():
        return None
    return values.astype(np.float64).reshape(len(value), -1)


def _checked(rows: list[Any]) -> Array:
    """Return the same of a list that may have missing numbers; what is wrong with another is a Fault."""
    if not isinstance(rows[0], list):
        raise Fault("step 1 is a single number, but other steps are lists", "write every step as a list")
    width = len(rows[0])
    if not width:
        raise Fault("step 1 has no numbers", "give every step at least one number")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, list) or len(row) != width or not row:
            other = f"{len(row)} number{'s' * (len(row) != 1)}" if isinstance(row, list) else "a single number"
            raise Fault(
                f"step {number} has {other}, but step 1 has {width}", "give every step the same number of values"
            )
        for item in row:
            if item is not None and (isinstance(item, bool) or not isinstance(item, int | float)):
                raise Fault(
                    f"item {number} holds {item!r}, which is not a number", "write a number, or null if missing"
                )
    floats = [[math.nan if item is None else _as_float(item) for item in row] for row in rows]
    values = np.array(floats, dtype=np.float64)
    if np.isinf(values).any() or any(isinstance(item, float) and item != item for row in rows for item in row):
        raise Fault("the list holds NaN or an infinite value", "write null where a number is missing")
    if (np.abs(values) > LARGEST).any():
        raise Fault(
            f"the list holds a number beyond {LARGEST:g}", "write it in a larger unit, or null if it is missing"
        )
    return values


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def interpolated(values: Array) -> Array:
    """Return the numbers with missing ones filled in between their neighbours; 0 where a feature has none at all."""
    if not np.isnan(values).any():
        return values
    filled, steps = values.copy(), np.arange(len(values))
    for feature in range(values.shape[1]):
        known = ~np.isnan(values[:, feature])
        filled[:, feature] = np.interp(steps, steps[known], values[known, feature]) if known.any() else 0.0
    return filled


def last_step(values: Array) -> Array:
    """Return the last difference (F,) of a series; 0 where it has only one step."""
    step: Array = values[-1] - values[-2] if len(values) > 1 else np.zeros(values.shape[1])
    return step
