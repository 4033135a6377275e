"""What simple rules reach on trajectories, beside a comparison: standing still, and going on at constant velocity."""

# N rows · T steps

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from weft.compare.compare import Compared

Array = npt.NDArray[np.float64]
EARTH_RADIUS = 6371.0  # km
HOURS = {24: 3, 48: 7, 72: 11}  # which step of a storm that is
PUBLISHED_KM = {  # ridge regressions of offsets on the same split, without and with position and season
    "atlantic": {"ridge regression on changes": (174, 462, 822), "ridge, also position and season": (167, 431, 752)},
    "pacific": {"ridge regression on changes": (113, 293, 507), "ridge, also position and season": (110, 280, 473)},
}


def kilometres(first: Array, second: Array) -> Array:
    """Return the great-circle distance of points [latitude, longitude] in degrees (Sinnott 1984)."""
    a, b = np.radians(first), np.radians(second)
    across = np.cos(a[..., 0]) * np.cos(b[..., 0]) * np.sin((a[..., 1] - b[..., 1]) / 2) ** 2
    half = np.sin((a[..., 0] - b[..., 0]) / 2) ** 2 + across
    distances: Array = 2 * EARTH_RADIUS * np.arcsin(np.sqrt(np.clip(half, 0, 1)))
    return distances


def rules(past: Array, steps: int) -> dict[str, Array]:
    """Return the paths (N, T, 2) that simple rules predict."""
    last, velocity = past[:, -1:], past[:, -1:] - past[:, -2:-1]
    ahead = np.arange(1, steps + 1)[None, :, None]
    return {"standing still": np.repeat(last, steps, axis=1), "constant velocity": last + velocity * ahead}


@dataclass(frozen=True)
class Paths:
    """The validation rows of a comparison: known paths, true ones, and those that each variant predicts."""

    past: Array  # (N, S, 2)
    future: Array  # (N, T, 2)
    predicted: Mapping[str, Array]  # by variant, of its first seed

    @classmethod
    def of(cls, compared: Compared) -> Paths:
        """Read what the runs of a comparison wrote."""
        from weft.compare.results import VALIDATION, ComparisonFolder  # torch, which `weft recipe list` does not need

        labels = {each.name: each.label for each in compared.plan.combinations}
        rows: dict[str, list[dict[str, str]]] = {}
        for result in (result for result in compared.results if result.valid):
            path = ComparisonFolder(compared.path).run(result.cell, result.seed).path / VALIDATION
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            rows.setdefault(labels[result.cell], lines)
        first = next(iter(rows.values()))
        past, future = (np.array([json.loads(row[role]) for row in first]) for role in ("source", "target"))
        return cls(past, future, {name: np.array([json.loads(row["output"]) for row in rows[name]]) for name in rows})


def beside_rules(compared: Compared) -> list[str]:
    """Return lines with the mean and the final distance of variants and of simple rules."""
    paths = Paths.of(compared)
    table = ["| | ade | fde |", "|---|---:|---:|"]
    for name, path in {**_bold(paths.predicted), **rules(paths.past, paths.future.shape[1])}.items():
        distances = np.linalg.norm(path - paths.future, axis=-1)
        table.append(f"| {name} | {distances.mean():.3f} | {distances[:, -1].mean():.3f} |")
    return ["The scores of the models on the validation rows, beside rules that learn nothing:", "", *table, ""]


def beside_kilometres(ocean: str) -> Callable[[Compared], list[str]]:
    """Return a function of a comparison: the kilometres of variants, simple rules and regressions."""

    def lines(compared: Compared) -> list[str]:
        paths = Paths.of(compared)
        table = ["| | 24 h | 48 h | 72 h |", "|---|---:|---:|---:|"]
        for name, path in {**_bold(paths.predicted), **rules(paths.past, paths.future.shape[1])}.items():
            table.append(_row(name, kilometres(path, paths.future)[:, list(HOURS.values())].mean(0).tolist()))
        table += [_row(name, list(figures)) for name, figures in PUBLISHED_KM[ocean].items()]
        return ["Kilometres between prediction and truth, the mean over the validation rows:", "", *table, ""]

    return lines


def _bold(paths: Mapping[str, Array]) -> dict[str, Array]:
    return {f"**{name}**": path for name, path in paths.items()}


def _row(name: str, figures: list[float]) -> str:
    return f"| {name} | " + " | ".join(f"{figure:.0f}" for figure in figures) + " |"
