"""Numbers: a list of numbers, or of equally long lists of them, for each row, written as JSON.

A side of numbers knows what is usual (means and scales of the values, and of the steps between them), so that the model
works on numbers around 0 and 1 while everything that people see is in the units of the data. Trajectories are encoded
by their steps (differences), those of a target from the last values of its source where it continues them.
"""

# T steps · F features

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.core.pair import Pair
from weft.core.shapes import Vectors
from weft.data.blocks import Block
from weft.data.formats import Fault
from weft.data.sides.position import PositionGain
from weft.data.sides.side import Row, Rows, block_cells, cells

FORMAT = 1
DIGITS = 6  # significant, of a number that is written
SHOWN = 30  # characters of a cell in a message
FEATURES_SHOWN = 4
Array = npt.NDArray[np.float64]


def parse(cell: str) -> Array:
    """Return the numbers of a cell (T, F), NaN where one is missing; raise a Fault where it holds something else."""
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


def _plain(value: list[Any]) -> Array | None:
    """Return a list of nothing but numbers, or of equally long lists of them, as an array; None for any other."""
    try:
        values = np.array(value)
    except ValueError:  # lists of other lengths
        return None
    if values.dtype.kind not in "if" or values.ndim > 2 or not values.size or not np.isfinite(values).all():
        return None
    return values.astype(np.float64).reshape(len(value), -1)


def _checked(rows: list[Any]) -> Array:
    """Return the same of a list that may have missing numbers; what is wrong with another is a Fault."""
    width = len(rows[0]) if isinstance(rows[0], list) else 0
    for number, row in enumerate(rows, 1):
        if not isinstance(row, list) or len(row) != width or not row:
            other = f"{len(row)} numbers" if isinstance(row, list) else "a single number"
            raise Fault(f"item {number} has {other}, item 1 has {width}", "give every step as many numbers")
        for item in row:
            if item is not None and (isinstance(item, bool) or not isinstance(item, int | float)):
                raise Fault(
                    f"item {number} holds {item!r}, which is not a number", "write a number, or null if missing"
                )
    floats = [[math.nan if item is None else _as_float(item) for item in row] for row in rows]
    values = np.array(floats, dtype=np.float64)
    if np.isinf(values).any() or any(isinstance(item, float) and item != item for row in rows for item in row):
        raise Fault("the list holds NaN or an infinite number", "write null where a number is missing")
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


@dataclass(frozen=True)
class Numbers:
    """What is known of a column of numbers, and how it is encoded."""

    width: int  # F of the data
    mean: tuple[float, ...]  # of the values, by feature
    scale: tuple[float, ...]
    step_scale: tuple[float, ...]  # of the differences between neighbouring steps
    values: bool = True  # whether values are encoded
    differences: bool = False  # whether differences are encoded; of a target: these alone
    continues: bool = False  # whether a target's first difference is from the last values of its source
    indicator: bool = False  # whether features are added that tell which values are missing
    shortest: int = 1  # steps in training
    longest: int = 1
    fills: bool = False  # whether missing values are filled in, so that inputs may have some
    length: str = "fixed"  # how many steps an output has: "fixed" (as training), "context", or "learned"

    kind = "numbers"

    @property
    def shape(self) -> Vectors:
        return Vectors(self.width * (self.values + self.differences + self.indicator))

    def rows(self, pairs: Sequence[Pair], role: str) -> Rows:
        if role == "target":
            return [self._target(cell, pair) for cell, pair in zip(cells(pairs, role), pairs)]
        return [self._encode(parse(cell)) for cell in cells(pairs, role)]

    def _encode(self, raw: Array) -> npt.NDArray[np.float32]:
        filled = interpolated(raw)
        parts = [(filled - self.mean) / self.scale] if self.values else []
        parts += [np.diff(filled, axis=0, prepend=filled[:1]) / self.step_scale] if self.differences else []
        parts += [np.isnan(raw).astype(np.float64)] if self.indicator else []
        return np.concatenate(parts, axis=1).astype(np.float32)

    def _target(self, cell: str, pair: Pair) -> npt.NDArray[np.float32]:
        if not cell:  # only the source is known
            return np.zeros((0, self.width), dtype=np.float32)
        filled = interpolated(parse(cell))
        if not self.differences:
            return ((filled - self.mean) / self.scale).astype(np.float32)
        return (np.diff(filled, axis=0, prepend=self._origin(pair)) / self.step_scale).astype(np.float32)

    def _origin(self, pair: Pair) -> Array:
        """Return the values (1, F) that the first difference is from."""
        if not self.continues:
            return np.array([self.mean])
        return interpolated(parse(pair.source))[-1:]

    def decoded(self, row: Row, pair: Pair) -> Array:
        """Return the numbers (T, F) that an encoded target stands for, in the units of the data."""
        encoded = np.asarray(row, dtype=np.float64).reshape(-1, self.width)
        if not self.differences:
            return encoded * self.scale + self.mean
        return self._origin(pair) + np.cumsum(encoded * self.step_scale, axis=0)

    def text(self, row: Row, pair: Pair) -> str:
        return written(self.decoded(row, pair))

    @property
    def target_scale(self) -> tuple[float, ...]:
        """The units of the encoded target, by feature."""
        return self.step_scale if self.differences else self.scale

    def to_json(self) -> str:
        content = {"format": FORMAT, "kind": self.kind, **asdict(self)}
        return json.dumps(content, indent=1) + "\n"


def written(values: Array) -> str:
    """Return numbers as JSON: a plain list where there is one feature."""
    rounded = [[float(f"{number:.{DIGITS}g}") for number in row] for row in values.tolist()]
    return json.dumps([row[0] for row in rounded] if values.shape[1] == 1 else rounded)


class NumbersCollector:
    """Adds up what a side has to know: widths, lengths, sums and squares of values and of steps, missing values."""

    def __init__(self) -> None:
        self._missing = self._continuing = self._in_step = 0
        self._lengths: list[int] = []
        self._sums: dict[str, tuple[int, Array, Array]] = {}  # count, sum, sum of squares
        self._gain = PositionGain()
        self._origin: Array | None = None  # so that large values with little variance keep their digits

    def add(self, block: Block, role: str) -> None:
        sources = block.sources if role == "target" else [""] * len(block)
        for cell, source, target in zip(block_cells(block, role), sources, block.targets):
            raw = parse(cell)
            filled = interpolated(raw)
            if self._origin is None:
                self._origin = filled[0]
            self._missing += int(np.isnan(raw).sum())
            self._in_step += role == "context" and len(raw) == _steps_of(target)
            self._lengths.append(len(raw))
            steps, before = _steps(filled, source)
            if before is not None:
                self._continuing += 1
                self._gain.add(before, filled)
            self._add("values", filled - self._origin)
            self._add("steps", steps)

    def _add(self, name: str, values: Array) -> None:
        count, total, squares = self._sums.get(name, (0, np.zeros(values.shape[1]), np.zeros(values.shape[1])))
        self._sums[name] = count + len(values), total + values.sum(0), squares + (values**2).sum(0)

    def result(self) -> dict[str, Any]:
        assert self._origin is not None
        mean, scale = _moments(*self._sums["values"])
        _, step_scale = _moments(*self._sums["steps"], centred=False)
        return {
            "width": len(scale),
            "mean": (mean + self._origin).tolist(),
            "scale": scale.tolist(),
            "step_scale": step_scale.tolist(),
            "shortest": min(self._lengths),
            "longest": max(self._lengths),
            "mean_length": float(np.mean(self._lengths)),
            "missing": self._missing,
            "continues": self._continuing / len(self._lengths),
            "in_step": self._in_step / len(self._lengths),
            "position_gain": self._gain.result(),
        }


def _steps_of(cell: str) -> int:
    """Return how many steps a cell of numbers has; 0 for another."""
    try:
        return len(parse(cell))
    except Fault:
        return 0


def _steps(filled: Array, source: str) -> tuple[Array, Array | None]:
    """Return the differences between steps, and the source whose end the first is from, if they continue it.

    A target continues its source if it begins about as near to its end as its own steps are apart.
    """
    steps = np.diff(filled, axis=0)
    if not source.startswith("["):
        return steps, None
    try:
        before = interpolated(parse(source))
    except Fault:
        return steps, None
    if before.shape[1] != filled.shape[1]:
        return steps, None
    first = filled[:1] - before[-1:]
    usual = max(float(np.linalg.norm(steps, axis=1).mean()) if len(steps) else 0.0, 1e-12)
    near = float(np.linalg.norm(first)) <= 4 * usual
    return (np.concatenate([first, steps]), before) if near else (steps, None)


def _moments(count: int, total: Array, squares: Array, centred: bool = True) -> tuple[Array, Array]:
    """Return the mean and the standard deviation (from 0 unless `centred`); 1 where a feature never changes."""
    mean = total / max(1, count)
    variance = squares / max(1, count) - (mean**2 if centred else 0.0)
    scale = np.sqrt(np.maximum(variance, 0.0))
    return mean, np.where(scale > 1e-12 * (1 + np.abs(mean)), scale, 1.0)


class NumbersKind:
    """Reads and surveys a column of numbers; every row has as many features as the first."""

    def __init__(self) -> None:
        self._widths: dict[str, int] = {}  # by role
        self.may_be_missing: tuple[str, ...] = ()  # roles

    def fault(self, role: str, cell: str, longest: int) -> Fault | None:
        try:
            values = parse(cell)
        except Fault as fault:
            return Fault(f"the {role}: {fault.what}", fault.todo)
        width = self._widths.setdefault(role, values.shape[1])
        if values.shape[1] != width:
            what = f"the {role} has {values.shape[1]} numbers per step, but those of the rows before have {width}"
            return Fault(what, "give the same number of values per step in every row")
        if values.size > longest:
            return Fault(f"the {role} has {values.size:,} numbers, but the limit is {longest:,}", "shorten or split it")
        if role not in self.may_be_missing and np.isnan(values).any():
            todo = "fill it in, or set numbers.missing=interpolate (or mask, which also tells the model where)"
            return Fault(f"the {role} has a missing value (null)", todo)
        return None

    def collector(self) -> NumbersCollector:
        return NumbersCollector()

    def describe(self, survey: Mapping[str, Any]) -> dict[str, str]:
        shortest, longest = survey["shortest"], survey["longest"]
        steps = (
            f"{shortest:,}" if shortest == longest else f"{shortest:,} to {longest:,}, mean {survey['mean_length']:.1f}"
        )
        return {
            "steps": steps,
            "numbers per step": f"{survey['width']:,}",
            "mean": _listed(survey["mean"]),
            "standard deviation": _listed(survey["scale"]),
            "typical change a step": _listed(survey["step_scale"]),
            "missing numbers": f"{survey['missing']:,}",
        }

    def load(self, content: Mapping[str, Any]) -> Numbers:
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}, this Weft reads {FORMAT}")
        fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in content.items()}
        del fields["format"], fields["kind"]
        return Numbers(**fields)


def _listed(numbers: Sequence[float]) -> str:
    shown = ", ".join(f"{number:.4g}" for number in numbers[:FEATURES_SHOWN])
    return f"{shown}, …" if len(numbers) > FEATURES_SHOWN else shown


def learned(survey: Mapping[str, Any]) -> Numbers:
    """Return a side that encodes values, with what a survey says of them."""
    return Numbers(
        survey["width"],
        tuple(survey["mean"]),
        tuple(survey["scale"]),
        tuple(survey["step_scale"]),
        shortest=survey["shortest"],
        longest=survey["longest"],
    )


def isotropic(side: Numbers) -> Numbers:
    """Return the side with one scale for all features, so that rotating its vectors means something."""
    scale, step_scale = (
        (math.sqrt(float(np.mean(np.square(each)))),) * side.width for each in (side.scale, side.step_scale)
    )
    return replace(side, scale=scale, step_scale=step_scale)
