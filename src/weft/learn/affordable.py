"""How much validation a wall-clock budget can afford, measured before the first evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable

from weft.learn.validate import Validator
from weft.score.evaluation import Evaluation

FIRST_SAMPLE, GROWTH = 8, 8  # pairs of the first sample, and how much larger each further one is


def affordable_pairs(
    validator: Validator, evaluate: Callable[[Validator], Evaluation], seconds: float
) -> tuple[int, Evaluation | None]:
    """Return how many validation pairs can be decoded in so many seconds, and the evaluation if it was on so many.

    Growing samples are decoded, so that a slow or busy machine is known for one before much time is lost.
    """
    size, pairs = FIRST_SAMPLE, len(validator.pairs)
    if size * GROWTH < pairs:
        evaluate(validator.part(1))  # the first evaluation of a process also loads what it needs
    while size * GROWTH < pairs:
        began = time.monotonic()
        evaluation = evaluate(validator.part(size))
        count = int(size * seconds / max(time.monotonic() - began, 1e-6))
        if count >= pairs:
            break
        if count < size * GROWTH:
            return max(size, count), evaluation if count <= size else None
        size *= GROWTH
    return pairs, None
