"""What the machine can do, measured once a process, when it is first asked."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Speed:
    """Multiplications and additions a second in products of matrices, by number format."""

    float32: float
    bfloat16: float = 0.0

    @property
    def halved(self) -> float:
        """How many times as fast bfloat16 is."""
        return self.bfloat16 / self.float32


@cache
def matrix_speed() -> Speed:
    """The fastest of a few products: on a machine that others use too, the rest were interrupted."""
    import torch

    def measured(dtype: torch.dtype) -> float:
        matrix, times = torch.ones(512, 512, dtype=dtype), []
        for _ in range(15):
            began = time.perf_counter()
            torch.mm(matrix, matrix)
            times.append(time.perf_counter() - began)
        return 2 * 512**3 / min(times)

    return Speed(measured(torch.float32), measured(torch.bfloat16))
