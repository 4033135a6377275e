"""What the machine can do, measured once a process, when it is first asked."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from functools import cache

SIZE, PRODUCTS, SECONDS = 512, 60, 0.3  # of matrices; and when measuring is over


@dataclass(frozen=True)
class Speed:
    """Multiplications and additions a second in products of matrices, by number format; of all cores, or of one."""

    float32: float
    bfloat16: float = 0.0
    one_core: float = 0.0
    cores: int = 1

    @property
    def halved(self) -> float:
        """How many times as fast bfloat16 is."""
        return self.bfloat16 / self.float32


@cache
def matrix_speed() -> Speed:
    """The middle one of some products, taken in turns: what a machine that others use too can really give."""
    import torch

    cores = torch.get_num_threads()
    ways = {"float32": (torch.float32, cores), "bfloat16": (torch.bfloat16, cores), "one_core": (torch.float32, 1)}
    matrices = {kind: torch.ones(SIZE, SIZE, dtype=kind) for kind, _ in ways.values()}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    began = time.perf_counter()
    while len(seconds["one_core"]) < PRODUCTS and time.perf_counter() - began < SECONDS:
        for name, (kind, threads) in ways.items():
            torch.set_num_threads(threads)
            start = time.perf_counter()
            torch.mm(matrices[kind], matrices[kind])
            seconds[name].append(time.perf_counter() - start)
    torch.set_num_threads(cores)
    return Speed(**{name: 2 * SIZE**3 / statistics.median(taken) for name, taken in seconds.items()}, cores=cores)
