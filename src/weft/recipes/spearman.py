"""How well a measured order of architectures agrees with a published one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from weft.compare.compare import Compared

Floats = npt.NDArray[np.float64]
DRAWS = 2000
PUBLISHED = {
    "elman": (0.295, 0.321),
    "lstm": (0.892, 0.425),
    "lstm-f": (0.293, 0.234),
    "lstm-i": (0.751, 0.414),
    "lstm-o": (0.867, 0.421),
    "lstm-b": (0.902, 0.444),
    "gru": (0.896, 0.460),
    "mut1": (0.921, 0.475),
    "mut2": (0.897, 0.473),
    "mut3": (0.907, 0.465),
}
"""Jozefowicz 2015, table 1: the share of characters right on arithmetic and on XML."""


def ranks(values: Sequence[float] | Floats) -> Floats:
    """1 for the smallest; equal values share the mean of their ranks."""
    values = np.asarray(values, dtype=np.float64)
    smaller = (values[None] < values[:, None]).sum(1)
    equal = (values[None] == values[:, None]).sum(1)
    shared: Floats = smaller + (equal + 1) / 2
    return shared


def spearman(one: Sequence[float] | Floats, two: Sequence[float] | Floats) -> float:
    """The correlation of the ranks (Spearman 1904); nan if all are equal."""
    a, b = ranks(one), ranks(two)
    if a.std() == 0 or b.std() == 0:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def interval(blocks: Mapping[str, list[list[tuple[float, float]]]], wanted: Mapping[str, float]) -> tuple[float, float]:
    """95 % of the correlation when blocks of validation pairs, and seeds, are drawn again."""
    rng = np.random.default_rng(1)
    names = list(blocks)
    arrays = {name: np.array(blocks[name]) for name in names}  # (seeds, blocks, 2)
    found = []
    for _ in range(DRAWS):
        scores = []
        for name in names:
            seeds, count, _ = arrays[name].shape
            drawn = arrays[name][rng.integers(seeds, size=seeds)][:, rng.integers(count, size=count)]
            scores.append(drawn[..., 0].sum() / drawn[..., 1].sum())
        found.append(spearman(np.array(scores), [wanted[name] for name in names]))
    low, high = np.nanpercentile(found, [2.5, 97.5])
    return float(low), float(high)


def beside_published(column: int) -> Callable[[Compared], list[str]]:
    """Lines for a page: the measured accuracies beside the published ones, and the rank correlation."""

    def lines(compared: Compared) -> list[str]:
        rows = [row for row in compared.rows if row.results]
        scores = {row.label: row.score or 0.0 for row in rows}
        wanted = {name: PUBLISHED[name][column] for name in scores}
        order = sorted(scores, key=lambda name: -scores[name])
        table = [f"| {name} | {scores[name]:.2f} | {100 * wanted[name]:.1f} |" for name in order]
        blocks = {row.label: [result.valid.blocks for result in row.results if result.valid] for row in rows}
        rho = spearman([scores[n] for n in order], [wanted[n] for n in order])
        low, high = interval(blocks, wanted) if len(order) > 2 else (float("nan"), float("nan"))
        return [
            "## Beside Jozefowicz 2015",
            "",
            "| architecture | accuracy here | published |",
            "|---|---:|---:|",
            *table,
            "",
            f"Spearman's rank correlation of the two columns: **{rho:.2f}** (95 % interval {low:.2f} … {high:.2f}, "
            "validation pairs and seeds drawn again).",
            "",
        ]

    return lines
