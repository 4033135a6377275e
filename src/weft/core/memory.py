"""Memory that is free in the process but not yet given back to the system."""

from __future__ import annotations

import ctypes
import gc


def give_back() -> None:
    """Return what the stage before has freed (glibc keeps it otherwise); elsewhere nothing happens."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
