"""The compiled library, if it was built, and the tools that torch brings for it: its BLAS and its threads."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch

PRODUCT = {"product": "sgemm_"}
TEAM = {"parallel": "GOMP_parallel", "thread": "omp_get_thread_num", "threads": "omp_get_num_threads"}
WAIT = {"wait": "GOMP_barrier"}
Tools = dict[str, int | None]


@cache
def built() -> tuple[ctypes.CDLL, Tools] | None:
    """The library, and the addresses of what torch brings; None where there is none, and with WEFT_NATIVE=0."""
    if os.environ.get("WEFT_NATIVE") == "0":
        return None
    found = find_spec("weft.core.native._compiled")
    if found is None or found.origin is None:
        return None
    try:
        library, torchs = ctypes.CDLL(found.origin), ctypes.CDLL(str(_libtorch()))
    except OSError:
        return None
    tools = {name: _address(torchs, symbol) for name, symbol in (PRODUCT | TEAM | WAIT).items()}
    if None in (tools["thread"], tools["threads"], tools["wait"]):
        tools["parallel"] = None
    return library, tools


def agrees(library: ctypes.CDLL, part: str, *jobs: type[ctypes.Structure], kinds: int = 0) -> bool:
    """Whether the library was built from the source of now: its part has jobs of these sizes, and so many kinds."""
    try:
        size = getattr(library, f"weft_{part}_size")
    except AttributeError:
        return False
    size.restype = ctypes.c_int64
    return bool(size() == sum(ctypes.sizeof(job) for job in jobs) + kinds)


def team(tools: Tools) -> Tools:
    """Torch's threads as a job takes them; with one thread there is no team."""
    return {name: tools[name] if name != "parallel" or torch.get_num_threads() > 1 else None for name in TEAM}


def _libtorch() -> Path:
    return Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"


def _address(library: ctypes.CDLL, symbol: str) -> int | None:
    try:
        return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
    except AttributeError:
        return None
