"""Several worker processes that share a port: those that die are started again, and signals are passed on.

Each loads the runs by itself, so each needs their memory. Metrics are summed over all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from types import FrameType

from prometheus_client.multiprocess import mark_process_dead

from weft.core.errors import UserError
from weft.serve.access import log
from weft.serve.lifecycle import NOTICE, Order
from weft.serve.metrics import MULTIPLE
from weft.serve.worker import COULD_NOT_LOAD

QUICK = 5.0  # seconds; a worker that ends sooner is started again only after a pause
PAUSE = 1.0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Supervisor:
    """Keeps a number of workers alive until it is told to stop."""

    def __init__(self, order: Order, listening: socket.socket, workers: int) -> None:
        self._order, self._listening = order, listening
        self._numbers = range(1, workers + 1)
        self._workers: dict[int, subprocess.Popen[str]] = {}
        self._started: dict[int, float] = {}
        self._stopping = False
        self._woken = threading.Event()

    def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C; UserError if a worker cannot load the runs."""
        folder = tempfile.mkdtemp(prefix="weft-metrics-")
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            for number in self._numbers:
                self._start(number, folder)
            while not self._stopping:
                self._woken.wait(0.2)
                self._start_again(folder)
        finally:
            self._end()
            shutil.rmtree(folder, ignore_errors=True)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self, number: int, folder: str) -> None:
        order = self._order
        content = {
            "runs": {name: str(path) for name, path in order.runs.items()},
            "settings": order.settings.model_dump(mode="json"),
            "host": order.host,
            "key_file": None if order.key_file is None else str(order.key_file),
            "strict": order.strict,
            "socket": self._listening.fileno(),
            "number": number,
            "early": number == 1 and number not in self._started,  # later ones would refuse what others can answer
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "weft.serve.worker"],
            stdin=subprocess.PIPE,
            text=True,
            pass_fds=[self._listening.fileno()],
            env={**os.environ, MULTIPLE: folder},
            start_new_session=True,  # Ctrl-C reaches this process, which passes it on once
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(content) + "\n")
        process.stdin.flush()  # stdin stays open: when it closes, the worker knows that this process is gone
        self._workers[number], self._started[number] = process, time.monotonic()

    def _start_again(self, folder: str) -> None:
        """Start those that have ended; one that could not load the runs the first time ends everything."""
        for number, process in list(self._workers.items()):
            if process.poll() is None or self._stopping:
                continue
            mark_process_dead(process.pid, folder)  # type: ignore[no-untyped-call]
            if process.returncode == COULD_NOT_LOAD:
                raise UserError(
                    "a worker could not load the runs", "its message above", "correct that error, and try again"
                )
            log.error({"event": "a worker ended, and is started again", "worker": number, "code": process.returncode})
            if time.monotonic() - self._started[number] < QUICK:
                self._woken.wait(PAUSE)
            if not self._stopping:
                self._start(number, folder)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._pass_on(signal.SIGHUP)
        else:
            self._stopping = True
            self._woken.set()

    def _pass_on(self, number: signal.Signals) -> None:
        for process in self._workers.values():
            if process.poll() is None:
                process.send_signal(number)

    def _end(self) -> None:
        """Let the workers answer what they have begun; those that do not end in time are killed."""
        self._listening.close()
        self._pass_on(signal.SIGTERM)
        until = time.monotonic() + self._order.settings.drain_seconds + NOTICE + 5
        for process in self._workers.values():
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
