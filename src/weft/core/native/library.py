"""The compiled library, and the functions of torch that it calls: matrix products (BLAS) and threads (OpenMP).

`load()` returns None where the library was not built, was built from other C sources (see `source.py`), or is turned
off by WEFT_NATIVE=0; the reason is logged at level DEBUG, which `--debug` shows. WEFT_NATIVE_LIBRARY names another file
to load, such as the one that `make sanitise` builds.

Limits: tested on Linux on x86-64 only. On macOS torch's library is called libtorch_cpu.dylib, and its BLAS is Apple's
Accelerate; both are looked up in the same way there, which was never tried. Without a BLAS the recurrences run in plain
torch, without OpenMP the compiled code runs on one thread.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch

from weft.core.native.source import fingerprint

PRODUCT = {"product": "sgemm_"}
TEAM = {"parallel": "GOMP_parallel", "thread": "omp_get_thread_num", "threads": "omp_get_num_threads"}
BARRIER = {"barrier": "GOMP_barrier"}
TORCH_LIBRARIES = {"darwin": "libtorch_cpu.dylib", "win32": "torch_cpu.dll"}  # elsewhere libtorch_cpu.so
Functions = dict[str, int | None]

log = logging.getLogger(__name__)


class Unavailable(Exception):
    """The compiled code cannot be used; the message says why."""


@dataclass(frozen=True)
class Library:
    """The loaded library, and the addresses of torch's functions by name; None for those that torch does not have."""

    handle: ctypes.CDLL
    functions: Functions

    def function(
        self, name: str, job: type[ctypes.Structure], result: type[ctypes.c_int64] | None = None
    ) -> Callable[..., int]:
        """Return the C function of this name, which takes a pointer to a job."""
        function = self.handle[name]
        function.argtypes, function.restype = [ctypes.POINTER(job)], result
        return function

    def team(self) -> tuple[int | None, int | None, int | None]:
        """Return the fields of a Team in C: torch's functions for threads, without `parallel` for a single thread."""
        functions = self.functions
        parallel = functions["parallel"] if torch.get_num_threads() > 1 else None
        return parallel, functions["thread"], functions["threads"]


def load() -> Library | None:
    """Return the compiled library, loaded once a process, or None."""
    return _attempt()[0]


def state() -> str:
    """Say in one line whether the compiled code is used, and if not, why."""
    return _attempt()[1]


@cache
def _attempt() -> tuple[Library | None, str]:
    try:
        library = _load()
    except Unavailable as reason:
        log.debug("compiled code is not used, plain torch does the same more slowly: %s", reason)
        return None, f"not used: {reason}"
    missing = [symbol for name, symbol in (PRODUCT | TEAM | BARRIER).items() if library.functions[name] is None]
    if missing:
        log.debug("compiled code is used in part: %s has no %s", _torch_library().name, ", ".join(missing))
    return library, f"used in part: torch has no {', '.join(missing)}" if missing else "used"


def _load() -> Library:
    if os.environ.get("WEFT_NATIVE") == "0":
        raise Unavailable("WEFT_NATIVE is 0")
    path = _path()
    try:
        handle, torch_handle = ctypes.CDLL(path), ctypes.CDLL(str(_torch_library()))
    except OSError as error:
        raise Unavailable(f"it cannot be loaded: {error}") from error
    _check_source(handle, path)
    functions = {name: _address(torch_handle, symbol) for name, symbol in (PRODUCT | TEAM | BARRIER).items()}
    if None in (functions["thread"], functions["threads"], functions["barrier"]):
        functions["parallel"] = None
    return Library(handle, functions)


def _path() -> str:
    """Return the file to load: the one that WEFT_NATIVE_LIBRARY names, or the one that setup.py built."""
    named = os.environ.get("WEFT_NATIVE_LIBRARY")
    if named:
        return named
    spec = find_spec("weft.core.native._compiled")
    if spec is None or spec.origin is None:
        raise Unavailable("it was not built: pip install -e . builds it where there is a C compiler")
    return spec.origin


def _check_source(handle: ctypes.CDLL, path: str) -> None:
    """Refuse a library that was built from other C sources than those that are installed beside this file."""
    installed = fingerprint()
    try:
        function = handle["weft_source"]
    except AttributeError:
        built = "unknown"
    else:
        function.restype = ctypes.c_char_p
        built = function().decode()
    if installed and built != installed:
        raise Unavailable(f"{path} was built from other sources: python setup.py build_ext --inplace builds it again")


def _torch_library() -> Path:
    return Path(torch.__file__).parent / "lib" / TORCH_LIBRARIES.get(sys.platform, "libtorch_cpu.so")


def _address(library: ctypes.CDLL, symbol: str) -> int | None:
    try:
        return ctypes.cast(library[symbol], ctypes.c_void_p).value
    except AttributeError:
        return None
