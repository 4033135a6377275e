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

from weft.core.counts import counted
from weft.core.pair import Pair
from weft.core.shapes import Vectors
from weft.data.formats import Fault
from weft.data.named_files import file_fault, in_folder
from weft.data.number_files import ENDINGS, LARGEST, READABLE
from weft.data.sides.number_cells import Array, interpolated, last_step, names_file, parse
from weft.data.sides.number_survey import NumbersCollector
from weft.data.sides.side import Row, Rows, cells, steps_of

FORMAT = 1
DIGITS = 6  # significant, of a number that is written
FEATURES_SHOWN = 4


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
    momentum: bool = False  # whether a target's differences are from the last difference of its source
    indicator: bool = False  # whether features are added that tell which values are missing
    shortest: int = 1  # steps in training
    longest: int = 1
    fills: bool = False  # whether missing values are filled in, so that inputs may have some
    length: str = "fixed"  # how many steps an output has: "fixed" (as training), "source", "context", or "learned"

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
        steps = np.diff(filled, axis=0, prepend=self._origin(pair)) - self._last_step(pair)
        return (steps / self.step_scale).astype(np.float32)

    def _origin(self, pair: Pair) -> Array:
        """Return the values (1, F) that the first difference is from."""
        if not self.continues:
            return np.array([self.mean])
        return interpolated(parse(pair.source))[-1:]

    def _last_step(self, pair: Pair) -> Array:
        """Return the difference (F,) that goes on unless the model predicts another one."""
        return last_step(interpolated(parse(pair.source))) if self.momentum else np.zeros(self.width)

    def decoded(self, row: Row, pair: Pair) -> Array:
        """Return the numbers (T, F) that an encoded target stands for, in the units of the data."""
        encoded = np.asarray(row, dtype=np.float64).reshape(-1, self.width)
        if not self.differences:
            return encoded * self.scale + self.mean
        return self._origin(pair) + np.cumsum(encoded * self.step_scale + self._last_step(pair), axis=0)

    def text(self, row: Row, pair: Pair) -> str:
        return written(self.decoded(row, pair))

    @property
    def baseline_name(self) -> str:
        if not self.continues:
            return "always the mean of the training targets"
        return "the source goes on at its last velocity" if self.momentum else "the source stays at its last value"

    def baseline(self, pair: Pair) -> str:
        steps = np.arange(1, len(parse(pair.target)) + 1)[:, None]
        return written(self._origin(pair) + steps * self._last_step(pair))  # (T, F)

    @property
    def target_scale(self) -> tuple[float, ...]:
        """The units of the encoded target, by feature."""
        return self.step_scale if self.differences else self.scale

    def cost(self, cell: str) -> int:
        return steps_of(cell)

    def to_json(self) -> str:
        content = {"format": FORMAT, "kind": self.kind, **asdict(self)}
        return json.dumps(content, indent=1) + "\n"


def written(values: Array) -> str:
    """Return numbers as JSON: a plain list where there is one feature."""
    rounded = [[float(f"{number:.{DIGITS}g}") for number in row] for row in values.tolist()]
    return json.dumps([row[0] for row in rounded] if values.shape[1] == 1 else rounded)


class NumbersKind:
    """Reads and surveys a column of numbers; every row has as many features as the first."""

    endings = ENDINGS

    def __init__(self) -> None:
        self._widths: dict[str, int] = {}  # by role
        self.trained: dict[str, int] = {}  # the widths that a run was trained with
        self.may_be_missing: tuple[str, ...] = ()  # roles

    def resolve(self, cell: str, folder: str) -> str:
        return in_folder(cell, folder) if names_file(cell) else cell

    def contents(self, cell: str) -> str:
        if not names_file(cell):
            return cell
        rows = [[None if math.isnan(number) else number for number in row] for row in parse(cell).tolist()]
        return json.dumps([row[0] for row in rows] if len(rows[0]) == 1 else rows)

    def fault(self, role: str, cell: str, longest: int) -> Fault | None:
        if names_file(cell) and (fault := file_fault(role, cell, READABLE, LARGEST)) is not None:
            return fault
        try:
            values = parse(cell)
        except Fault as fault:
            return Fault(f"the {role}: {fault.what}", fault.todo)
        given: int = values.shape[1]
        width = self._widths.setdefault(role, self.trained.get(role, given))
        if values.shape[1] != width:
            others = "in the training data" if role in self.trained else "in earlier rows"
            what = f"the {role} has {counted(values.shape[1], 'number')} per step, but {others} it has {width}"
            return Fault(what, "give the same number of values per step in every row")
        if values.size > longest:
            what = f"the {role} has {values.size:,} numbers, but the limit is {longest:,}"
            return Fault(what, "shorten or split it, or raise data.longest")
        if np.isnan(values).all():
            return Fault(f"the {role} has only missing values", "give at least one number")
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
            raise ValueError(f"the format is {content['format']}, but this version of Weft reads format {FORMAT}")
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
