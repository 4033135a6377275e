"""The speed of matrix products on this machine, measured once a process for each device."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

SIZE, PRODUCTS, SECONDS = 512, 60, 0.3  # of the matrices; when measuring is over
ACCELERATOR_SIZE = 2048  # a GPU needs larger matrices to be busy


@dataclass(frozen=True)
class Speed:
    """Multiplications and additions a second in matrix products: in float32 and bfloat16, and on one CPU core.

    An accelerator counts as one core: models that are trained side by side share it.
    """

    float32: float
    bfloat16: float = 0.0
    one_core: float = 0.0
    cores: int = 1

    @property
    def halved(self) -> float:
        """How many times as fast bfloat16 is."""
        return self.bfloat16 / self.float32


@cache
def matrix_speed(device: str = "cpu") -> Speed:
    """Measure the device that trains ("cpu", "cuda", "mps"): medians, which a machine in use by others really gives.

    Limits: accelerators were never measured here; the tests only see that the products run on the device.
    """
    return _cpu_speed() if device == "cpu" else _accelerator_speed(device)


def _cpu_speed() -> Speed:
    import torch

    cores = torch.get_num_threads()
    ways = {"float32": (torch.float32, cores), "bfloat16": (torch.bfloat16, cores), "one_core": (torch.float32, 1)}
    matrices = {kind: torch.ones(SIZE, SIZE, dtype=kind) for kind, _ in ways.values()}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    start = time.perf_counter()
    while len(seconds["one_core"]) < PRODUCTS and time.perf_counter() - start < SECONDS:
        for name, (kind, threads) in ways.items():
            torch.set_num_threads(threads)
            began = time.perf_counter()
            torch.mm(matrices[kind], matrices[kind])
            seconds[name].append(time.perf_counter() - began)
    torch.set_num_threads(cores)
    return Speed(**{name: 2 * SIZE**3 / statistics.median(taken) for name, taken in seconds.items()}, cores=cores)


def _accelerator_speed(device: str) -> Speed:
    import torch

    float32, bfloat16 = _products(device, torch.float32), _products(device, torch.bfloat16)
    return Speed(float32, bfloat16, one_core=float32)


def _products(device: str, dtype: torch.dtype) -> float:
    """Return the speed in one number format; 0 where the device does not have it."""
    import torch

    try:
        matrix = torch.ones(ACCELERATOR_SIZE, ACCELERATOR_SIZE, dtype=dtype, device=device)
        torch.mm(matrix, matrix)  # the first product is slow
    except (RuntimeError, TypeError):
        return 0.0
    seconds: list[float] = []
    _synchronise(device)
    start = time.perf_counter()
    while not seconds or (len(seconds) < PRODUCTS and time.perf_counter() - start < SECONDS):
        began = time.perf_counter()
        torch.mm(matrix, matrix)
        _synchronise(device)
        seconds.append(time.perf_counter() - began)
    return 2 * ACCELERATOR_SIZE**3 / statistics.median(seconds)


def _synchronise(device: str) -> None:
    """Wait until the device has computed everything."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "mps":
        torch.mps.synchronize()
