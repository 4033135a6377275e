"""SIGINT and SIGTERM end a command wherever it is: both raise KeyboardInterrupt, and none is lost.

While a model trains, `weft.learn.signals` catches them instead, so that it can save first.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
SOON = 0.02  # seconds
_last = signal.SIGINT


def raise_on_signals() -> None:
    """Let both signals raise KeyboardInterrupt from now on, in the main thread; an ignored one stays ignored."""
    note_signal(signal.SIGINT)  # what stopped an earlier command of this process does not stop this one
    for kind in NAMES:
        if signal.getsignal(kind) is not signal.SIG_IGN:
            signal.signal(kind, _on_signal)
    signal.signal(signal.SIGALRM, _on_alarm)
    sys.unraisablehook = _deliver_again


def ignore_signals() -> None:
    """Ignore both signals from now on: the process ends in a moment."""
    for kind in NAMES:
        signal.signal(kind, signal.SIG_IGN)


def stopped_by() -> str:
    """Return what stopped the command: Ctrl-C or SIGTERM."""
    return NAMES[_last]


def note_signal(number: int) -> None:
    """Remember which signal it was."""
    global _last
    _last = signal.Signals(number)


def _on_signal(number: int, frame: FrameType | None) -> None:
    note_signal(number)
    raise KeyboardInterrupt


def _on_alarm(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _deliver_again(unraisable: Any) -> None:
    """Raise a KeyboardInterrupt again that came where Python drops exceptions, such as in a destructor."""
    if unraisable.exc_type is not None and issubclass(unraisable.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, SOON)
    else:
        sys.__unraisablehook__(unraisable)
