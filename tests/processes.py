"""Processes of `weft` that a test can kill: forked from one that has imported everything, they start at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

PRELOADED = ["pytest", "processes", "weft.cli.train", "weft.cli.compare", "weft.runs.train", "weft.compare.compare"]
PRELOADED += ["weft.look.curves", "weft.look.compared"]
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(PRELOADED)


class Started:
    """`weft` with these arguments; `environment` is that of the test, as far as nothing else is said."""

    def __init__(self, folder: Path, *arguments: object, **environment: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._streams = [folder / f"{len(list(folder.iterdir()))}-{name}" for name in ("stdout", "stderr")]
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "dumb", **environment}
        given = [str(argument) for argument in arguments], self._streams, variables
        self._process = forks.Process(target=_run_weft, args=given)
        self._process.start()

    @property
    def running(self) -> bool:
        return self._process.is_alive()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def out(self) -> str:
        return self._streams[0].read_text(encoding="utf-8")

    @property
    def errors(self) -> str:
        return self._streams[1].read_text(encoding="utf-8")

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def terminate(self) -> None:
        self._process.terminate()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self, timeout: float = 300) -> int:
        """Wait for its end; return its exit code."""
        self._process.join(timeout)
        assert self._process.exitcode is not None, "it has not ended"
        return self._process.exitcode

    def finish(self) -> Started:
        assert self.end() == 0, self.errors
        return self

    def wait_for(self, there: Callable[[], bool], seconds: float = 120) -> None:
        until = time.monotonic() + seconds
        while not there():
            assert self.running, self.errors
            assert time.monotonic() < until
            time.sleep(0.005)


def _run_weft(arguments: list[str], streams: list[Path], environment: dict[str, str]) -> None:
    import torch

    from weft.cli.main import main

    for number, stream in enumerate(streams, start=1):
        os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["weft", *arguments]
    main()
