"""Does it matter where a series is, and in which direction it moves? Linear models tell, with and without knowing."""

# N rows · K steps · F features

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ROWS = 20_000  # that are looked at
STEPS = 3  # of the source that the models know; 0 before a source begins
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
        if len(self._ways) < ROWS:
            steps = np.diff(source[-STEPS - 1 :], axis=0)
            self._steps.append(np.pad(steps, ((STEPS - len(steps), 0), (0, 0))).flatten())
            self._positions.append(source[-1])
            self._ways.append(target[-1] - source[-1])

    def result(self) -> float:
        """Return the share that a model which also knows the position and its square takes away."""
        if len(self._ways) < FEWEST:
            return 0.0
        steps, positions, ways = (np.array(rows) for rows in (self._steps, self._positions, self._ways))
        curved = np.concatenate([steps, positions, positions**2], axis=1)
        return _gain(_distances(steps, ways), _distances(curved, ways))

    def of_direction(self) -> float:
        """Return the share that a model takes away which treats directions differently.

        The other one has the same weights for all features and no bias: turned or mirrored sources have outputs that
        are turned or mirrored alike. 1 where there are too few rows to tell, or sources of one step.
        """
        steps, ways = np.array(self._steps), np.array(self._ways)
        if len(ways) < FEWEST or not steps.any():
            return 1.0
        width = ways.shape[1]
        same = steps.reshape(len(steps), -1, width).transpose(0, 2, 1).reshape(len(steps) * width, -1)
        return _gain(_distances(same, ways.reshape(-1, 1), width, bias=False), _distances(steps, ways))


def _gain(without: float, with_it: float) -> float:
    return max(0.0, 1 - with_it / without) if without > 0 else 0.0


def _distances(inputs: Array, wanted: Array, rows: int = 1, bias: bool = True) -> float:
    """Return the mean distance of a ridge regression on parts of the rows that it has not seen.

    The features of a step are in one row of `wanted`, or in so many `rows` that follow each other.
    """
    testing = (np.arange(len(wanted)) // rows * rows * PARTS // len(wanted)) % 2 == 1
    mean = inputs[~testing].mean(0) if bias else 0.0
    normal = (inputs - mean) / (inputs[~testing].std(0) + 1e-12)
    if bias:
        normal = np.concatenate([normal, np.ones((len(inputs), 1))], axis=1)
    seen = normal[~testing]
    weights = np.linalg.solve(seen.T @ seen + RIDGE * len(seen) * np.eye(seen.shape[1]), seen.T @ wanted[~testing])
    errors = (normal[testing] @ weights - wanted[testing]).reshape(int(testing.sum()) // rows, -1)
    return float(np.linalg.norm(errors, axis=1).mean())
