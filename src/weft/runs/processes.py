"""Worker processes that train the other models of a run while this one trains the first (see worker.py)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

from weft.core.errors import WeftError
from weft.runs.folder import RunFolder
from weft.runs.members import SAVE_SECONDS, Share


class WorkerProcesses:
    """One process per share of models. They end with this process, however that ends, and save first."""

    def __init__(self, folder: RunFolder, shares: Sequence[Share], pairs: Sequence[str]) -> None:
        self._folder, self._shares, self._pairs = folder, shares, pairs
        self._running: list[tuple[subprocess.Popen[str], IO[str]]] = []

    def __enter__(self) -> WorkerProcesses:
        for share in self._shares:
            errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # read when the process ends
            self._running.append((self._started(share, errors), errors))
        return self

    def _started(self, share: Share, errors: IO[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "weft.runs.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(share.threads)},
            start_new_session=True,  # Ctrl-C reaches this process, which passes it on once
        )
        assert process.stdin is not None
        order = {"run": str(self._folder.path), "numbers": share.numbers, "pairs": list(self._pairs)}
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()  # stdin stays open: when it closes, the worker knows that this process is gone
        return process

    def wait(self) -> None:
        """Wait until all are done; WeftError with its last words if one failed."""
        for process, errors in self._running:
            if process.wait():
                errors.seek(0)
                reason = errors.read().strip() or f"it ended with exit code {process.returncode}"
                what = f"the training of another member of the ensemble failed: {reason}"
                raise WeftError(what, str(self._folder.path / "members"), "continue with --resume")

    def __exit__(self, *problem: object) -> None:
        for process, _ in self._running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process, errors in self._running:
            try:
                process.wait(SAVE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()
            errors.close()
