"""Rank correlation of measured scores with published ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from weft.compare.compare import Compared
    from weft.compare.results import Result
    from weft.compare.scoring import Blocks

Floats = npt.NDArray[np.float64]
DRAWS = 2000
PUBLISHED = {
    "elman": (0.295, 0.321, 0.088),
    "lstm": (0.892, 0.425, 0.089),
    "lstm-f": (0.293, 0.234, 0.088),
    "lstm-i": (0.751, 0.414, 0.087),
    "lstm-o": (0.867, 0.421, 0.089),
    "lstm-b": (0.902, 0.444, 0.090),
    "gru": (0.896, 0.460, 0.091),
    "mut1": (0.921, 0.475, 0.090),
    "mut2": (0.897, 0.473, 0.090),
    "mut3": (0.907, 0.465, 0.092),
}
"""Jozefowicz 2015, table 1: next-character accuracy on arithmetic and on XML, and a score of next words that rises as
the perplexity falls."""


def ranks(values: Sequence[float] | Floats) -> Floats:
    """Return the ranks, 1 for the smallest; equal values share the mean of their ranks."""
    values = np.asarray(values, dtype=np.float64)
    smaller = (values[None] < values[:, None]).sum(1)
    equal = (values[None] == values[:, None]).sum(1)
    shared: Floats = smaller + (equal + 1) / 2
    return shared


def spearman(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float:
    """Return the correlation of the ranks (Spearman 1904); nan if all values are equal."""
    a, b = ranks(first), ranks(second)
    if a.std() == 0 or b.std() == 0:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])


def interval(
    blocks: Mapping[str, list[list[tuple[float, float]]]], published: Mapping[str, float], sign: int = 1
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the correlation, over blocks of validation pairs and seeds.

    `sign` is −1 where a lower score is better.
    """
    rng = np.random.default_rng(1)
    names = list(blocks)
    arrays = {name: np.array(blocks[name]) for name in names}  # (seeds, blocks, 2)
    correlations = []
    for _ in range(DRAWS):
        scores = []
        for name in names:
            seeds, count, _ = arrays[name].shape
            drawn = arrays[name][rng.integers(seeds, size=seeds)][:, rng.integers(count, size=count)]
            scores.append(sign * drawn[..., 0].sum() / drawn[..., 1].sum())
        correlations.append(spearman(np.array(scores), [published[name] for name in names]))
    low, high = np.nanpercentile(correlations, [2.5, 97.5])
    return float(low), float(high)


def _blocks(compared: Compared, result: Result) -> Blocks:
    """Return what is resampled: blocks of validation pairs, or the passages of a language model."""
    from weft.compare.results import ComparisonFolder, read_outputs  # torch, which `weft recipe list` does not need
    from weft.score.table import Likelihood

    assert result.valid is not None
    if result.valid.blocks:
        return result.valid.blocks
    outputs, _ = read_outputs(ComparisonFolder(compared.path).run(result.cell, result.seed))
    return [(each.nats, float(each.symbols)) for each in outputs if isinstance(each, Likelihood)]


def beside_published(column: int, score: str = "accuracy", sign: int = 1) -> Callable[[Compared], list[str]]:
    """Return a function that writes measured and published scores, and their rank correlation, for a page.

    `sign` is −1 where a lower score is better.
    """

    def lines(compared: Compared) -> list[str]:
        rows = [row for row in compared.rows if row.results]
        scores = {row.label: row.score or 0.0 for row in rows}
        published = {name: PUBLISHED[name][column] for name in scores}
        order = sorted(scores, key=lambda name: -sign * scores[name])
        table = [f"| {name} | {scores[name]:.2f} | {100 * published[name]:.1f} |" for name in order]
        blocks = {row.label: [_blocks(compared, result) for result in row.results] for row in rows}
        rho = spearman([sign * scores[n] for n in order], [published[n] for n in order])
        low, high = interval(blocks, published, sign) if len(order) > 2 else (float("nan"), float("nan"))
        return [
            "## Compared with Jozefowicz 2015",
            "",
            f"| cell | {score} here | published |",
            "|---|---:|---:|",
            *table,
            "",
            "Spearman's rank correlation of the two rankings, each from best to worst: "
            f"**{rho:.2f}** (95 % interval {low:.2f} … {high:.2f}, bootstrap over validation pairs and seeds).",
            "",
        ]

    return lines
