"""How fast a model trains: the question, and answers that are remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weft.core.shapes import Hidden, Notes, Nothing, Shapes, Symbols, Vectors
from weft.spec import Spec


@dataclass(frozen=True)
class BatchShape:
    """What batches are made of, source first: vocabulary sizes, and mean tokens per line with the END token."""

    vocabulary: tuple[int, int]
    lengths: tuple[int, int]
    ended: bool = True  # whether END follows a target; no label has one
    in_step: bool = False  # whether a target has one label for each token of its source
    alone: bool = False  # whether there is no source
    hidden: bool = False  # whether targets are symbols that are hidden in their source
    series: Vectors | Notes | None = None  # what a target has at each step, if not tokens or labels

    @property
    def shapes(self) -> Shapes:
        """What the model has to know of the columns."""
        source, target = self.vocabulary
        if self.hidden:
            return Shapes(Symbols(source), Hidden(target))
        read = Nothing() if self.alone else Symbols(source)
        return Shapes(read, self.series or Symbols(target, ended=self.ended, in_step=self.in_step))


Throughput = Callable[[Spec, BatchShape, int], float]  # target tokens per second in training with so many threads


def cached(throughput: Throughput) -> Throughput:
    """Return a function that measures each combination of arguments once."""
    known: dict[tuple[str, BatchShape, int], float] = {}

    def once(spec: Spec, shape: BatchShape, threads: int) -> float:
        key = spec.model_dump_json(), shape, threads
        if key not in known:
            known[key] = throughput(spec, shape, threads)
        return known[key]

    return once
