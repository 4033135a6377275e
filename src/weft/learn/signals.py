"""SIGINT and SIGTERM as a flag that the loop checks between steps; a second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from weft.core.stopping import note_signal


class Signals:
    def __init__(self) -> None:
        self.received = False

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Inside, the first signal sets `received`, which is checked after the block too: it may come at its end.

        Outside the main thread nothing is caught.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}
        for kind in before:
            signal.signal(kind, self._on_signal)
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        note_signal(number)
        if self.received:
            raise KeyboardInterrupt
        self.received = True
