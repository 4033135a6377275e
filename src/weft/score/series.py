"""A few predicted series with their truth, from a small error to a large one, to be drawn."""

# T steps · F features

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from weft.score.numbers import mean_distance, values_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

EXAMPLES = 6  # the median of each sixth of the rows, by error
MOST_STEPS = 400  # of a series that is drawn: its end of the source, its beginning of the rest
MOST_FEATURES = 3

Steps = list[list[float | None]]


@dataclass(frozen=True)
class SeriesExample:
    """Source (empty if it has no numbers), reference and output, (T, F) each, null where a number is missing."""

    source: Steps
    target: Steps
    output: Steps
    distance: float  # the mean over the steps
    rank: float  # the share of rows with a smaller distance

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> SeriesExample:
        """Return what `to_dict` made; a ValueError or a TypeError if a part is not a list of lists."""
        parts = [[list(step) for step in content[name]] for name in ("source", "target", "output")]
        return cls(parts[0], parts[1], parts[2], float(content["distance"]), float(content["rank"]))


def series_examples(sources: Sequence[str], outputs: Sequence[str], targets: Sequence[str]) -> list[SeriesExample]:
    """Return examples from the nearest to the farthest; `sources` are empty where they are no numbers."""
    distances = [mean_distance(output, target) for output, target in zip(outputs, targets, strict=True)]
    order = sorted(range(len(distances)), key=distances.__getitem__)
    count = min(EXAMPLES, len(order))
    ranks = [(2 * number + 1) * len(order) // (2 * count) for number in range(count)]
    return [
        SeriesExample(
            _steps(sources[row], last=True),
            _steps(targets[row]),
            _steps(outputs[row]),
            distances[row],
            rank / len(order),
        )
        for rank, row in ((rank, order[rank]) for rank in ranks)
    ]


def _steps(cell: str, last: bool = False) -> Steps:
    """Return the steps of a cell that are drawn: the first ones, or the last."""
    if not cell:
        return []
    values = values_of(cell)
    part = values[-MOST_STEPS:] if last else values[:MOST_STEPS]
    return [[None if number != number else number for number in step] for step in part[:, :MOST_FEATURES].tolist()]
