"""How fast a model learns, as a question that is asked once: what is typical of the data, and the answers so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.spec import Spec


@dataclass(frozen=True)
class Typical:
    """What a batch is made of: how many symbols each side has, and how long its lines are, their ends counted."""

    symbols: tuple[int, int]
    lengths: tuple[int, int]


Pace = Callable[[Spec, Typical, int], float]  # target symbols a second, by so many threads


def remembered(pace: Pace) -> Pace:
    """The same, asked once for each."""
    known: dict[tuple[str, Typical, int], float] = {}

    def once(spec: Spec, typical: Typical, threads: int) -> float:
        key = spec.model_dump_json(), typical, threads
        if key not in known:
            known[key] = pace(spec, typical, threads)
        return known[key]

    return once
