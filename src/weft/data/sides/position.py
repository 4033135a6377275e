"""Does it matter where a series is, beyond how it moves? Two linear models tell, with and without the position."""

# N rows · K steps · F features

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ROWS = 20_000  # that are looked at
STEPS = 3  # of the source that the models know
PARTS = 10  # neighbouring rows are alike, so that every second part of them is for testing
FEWEST = 200  # rows that tell something
RIDGE = 1e-3

Array = npt.NDArray[np.float64]


class PositionGain:
    """Collects rows of source and target; `result` is the share of the error that positions take away."""

    def __init__(self) -> None:
        self._steps: list[Array] = []
        self._positions: list[Array] = []
        self._ways: list[Array] = []

    def add(self, source: Array, target: Array) -> None:
        """Add the values of a source and of the target that continues it, (T, F) each."""
        if len(self._ways) < ROWS and len(source) > STEPS:
            self._steps.append(np.diff(source[-STEPS - 1 :], axis=0).flatten())
            self._positions.append(source[-1])
            self._ways.append(target[-1] - source[-1])

    def result(self) -> float:
        if len(self._ways) < FEWEST:
            return 0.0
        steps, positions, ways = (np.array(rows) for rows in (self._steps, self._positions, self._ways))
        testing = (np.arange(len(ways)) * PARTS // len(ways)) % 2 == 1
        curved = np.concatenate([steps, positions, positions**2], axis=1)
        without, with_positions = (_error(inputs, ways, testing) for inputs in (steps, curved))
        return max(0.0, 1 - with_positions / without) if without > 0 else 0.0


def _error(inputs: Array, wanted: Array, testing: npt.NDArray[np.bool_]) -> float:
    """Return the mean distance of a ridge regression on the rows that it has not seen."""
    mean, scale = inputs[~testing].mean(0), inputs[~testing].std(0) + 1e-12
    normal = np.concatenate([(inputs - mean) / scale, np.ones((len(inputs), 1))], axis=1)
    seen = normal[~testing]
    weights = np.linalg.solve(seen.T @ seen + RIDGE * len(seen) * np.eye(seen.shape[1]), seen.T @ wanted[~testing])
    return float(np.linalg.norm(normal[testing] @ weights - wanted[testing], axis=1).mean())
