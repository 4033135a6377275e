"""What a side of numbers has to know of its column: means and scales, lengths, how a target continues its source."""

# T steps · F features

from __future__ import annotations

from typing import Any

import numpy as np

from weft.data.blocks import Block
from weft.data.formats import Fault
from weft.data.sides.number_cells import Array, interpolated, last_step, parse
from weft.data.sides.position import PositionGain
from weft.data.sides.side import block_cells, steps_of


class NumbersCollector:
    """Adds up what a side has to know: widths, lengths, sums and squares of values and of steps, missing values."""

    def __init__(self) -> None:
        self._missing = self._continuing = self._in_step = 0
        self._lengths: list[int] = []
        self._sums: dict[str, tuple[int, Array, Array]] = {}  # count, sum, sum of squares
        self._gain, self._going_on = PositionGain(), _GoingOn()
        self._origin: Array | None = None  # so that large values with little variance keep their digits

    def add(self, block: Block, role: str) -> None:
        sources = block.sources if role == "target" else [""] * len(block)
        for cell, source, target in zip(block_cells(block, role), sources, block.targets):
            raw = parse(cell)
            filled = interpolated(raw)
            if self._origin is None:
                self._origin = filled[0]
            self._missing += int(np.isnan(raw).sum())
            self._in_step += role == "context" and len(raw) == steps_of(target)
            self._lengths.append(len(raw))
            steps, before = _steps(filled, source)
            if before is not None:
                self._continuing += 1
                self._gain.add(before, filled)
                self._going_on.add(before, filled)
                self._add("changes", steps - last_step(before))
            self._add("values", filled - self._origin)
            self._add("steps", steps)

    def _add(self, name: str, values: Array) -> None:
        count, total, squares = self._sums.get(name, (0, np.zeros(values.shape[1]), np.zeros(values.shape[1])))
        self._sums[name] = count + len(values), total + values.sum(0), squares + (values**2).sum(0)

    def result(self) -> dict[str, Any]:
        assert self._origin is not None
        mean, scale = _moments(*self._sums["values"])
        _, step_scale = _moments(*self._sums["steps"], centred=False)
        changes = self._sums.get("changes", self._sums["steps"])
        _, change_scale = _moments(*changes, centred=False)
        return {
            "width": len(scale),
            "mean": (mean + self._origin).tolist(),
            "scale": scale.tolist(),
            "step_scale": step_scale.tolist(),
            "change_scale": change_scale.tolist(),
            "shortest": min(self._lengths),
            "longest": max(self._lengths),
            "mean_length": float(np.mean(self._lengths)),
            "missing": self._missing,
            "continues": self._continuing / len(self._lengths),
            "going_on": self._going_on.share(),
            "in_step": self._in_step / len(self._lengths),
            "position_gain": self._gain.result(),
            "direction_gain": self._gain.of_direction(),
        }


class _GoingOn:
    """How well targets are predicted by sources that stay at their last value, or keep their last velocity."""

    def __init__(self) -> None:
        self._count, self._origin = 0, np.zeros(0)
        self._sum, self._squares, self._errors = np.zeros(0), 0.0, np.zeros(2)

    def add(self, source: Array, target: Array) -> None:
        if not self._count:
            self._origin, self._sum = target[0], np.zeros(target.shape[1])
        off, values = target - source[-1:], target - self._origin
        moved = np.arange(1, len(target) + 1)[:, None] * last_step(source)
        self._errors += [(off**2).sum(), ((off - moved) ** 2).sum()]
        self._count += len(target)
        self._sum += values.sum(0)
        self._squares += float((values**2).sum())

    def share(self) -> float:
        """Return the share of the variance that the better of the two predicts; below 0: the mean is better."""
        variance = self._squares - float((self._sum**2).sum()) / max(1, self._count)
        return 1 - float(self._errors.min()) / variance if variance > 0 else 0.0


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
