"""Memory that is free in the process but not yet given back to the system: to give it back, or to keep it."""

from __future__ import annotations

import ctypes
import gc

TRIM, MAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
KEPT, MAPPED = 512 << 20, 32 << 20  # bytes


def give_back() -> None:
    """Return what the stage before has freed (glibc keeps it otherwise); elsewhere nothing happens."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def keep() -> None:
    """Keep what steps free, up to half a gigabyte: to ask for it again costs beam search a seventh of its time."""
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    if option is not None:
        option(MAP, MAPPED)
        option(TRIM, KEPT)
