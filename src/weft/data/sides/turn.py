"""Augmentation of numbers: positions are turned and mirrored at random, around 0 of the encoded values."""

# T steps · F features

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Turn:
    """Turns and mirrors rows (T, parts · F + more); what is not one of the parts stays as it is.

    The angle and the signs are drawn first, so that columns with the same random numbers are turned alike.
    """

    width: int  # F
    parts: int  # values, differences, or both
    rotate: bool
    mirror: bool

    def __call__(self, values: Array, random: np.random.Generator) -> Array:
        matrix = self.matrix(random).astype(values.dtype)
        turned = self.width * self.parts
        parts = values[:, :turned].reshape(len(values), self.parts, self.width) @ matrix.T
        return np.concatenate([parts.reshape(len(values), turned), values[:, turned:]], axis=1)

    def matrix(self, random: np.random.Generator) -> npt.NDArray[np.float64]:
        """Return a random orthogonal matrix (F, F): a rotation, a diagonal of signs, or their product."""
        angle, signs = 2 * math.pi * random.random(), random.integers(0, 2, self.width) * 2.0 - 1.0
        matrix = np.diag(signs) if self.mirror else np.eye(self.width)
        if not self.rotate:
            return matrix
        rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        product: npt.NDArray[np.float64] = rotation @ matrix
        return product
