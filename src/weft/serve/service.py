"""What a server process holds: its runs, its keys, its batches and its state."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from weft.core import memory
from weft.core.errors import UserError
from weft.serve.access import log
from weft.serve.batching import Batcher
from weft.serve.errors import Problem, unavailable
from weft.serve.keys import Keys
from weft.serve.metrics import Metrics
from weft.serve.served import Served, unknown_run
from weft.serve.settings import Serve, read_keys


class Service:
    """The runs behind the routes."""

    def __init__(
        self, runs: Mapping[str, Path], settings: Serve, key_file: Path | None = None, strict: bool = False
    ) -> None:
        self._paths, self.settings, self._key_file, self._strict = dict(runs), settings, key_file, strict
        self.metrics = Metrics()
        self.batcher = Batcher(settings, self.metrics)
        self.keys = Keys() if key_file is None else Keys(read_keys(key_file))
        self._runs: dict[str, Served] | None = None
        self._reloading = asyncio.Lock()
        self.draining = False
        self.running = 0  # requests
        self.inspecting = 0  # of them, those that inspect

    @property
    def is_ready(self) -> bool:
        return self._runs is not None and not self.draining

    async def load(self) -> None:
        """Load every run, in a thread; requests are answered with 503 until all are there."""
        memory.keep()
        self._runs = await asyncio.to_thread(self._load)
        self.batcher.start()

    def _load(self) -> dict[str, Served]:
        return {name: Served(name, path, self.settings, self._strict) for name, path in self._paths.items()}

    async def reload(self) -> None:
        """Load the runs and the keys again; what cannot be loaded leaves everything as it is."""
        async with self._reloading:
            try:
                keys = self.keys if self._key_file is None else Keys(read_keys(self._key_file))
                runs = await asyncio.to_thread(self._load)
            except Exception as error:  # a damaged file can fail in any way, and the runs before it are still whole
                self.metrics.reloads.labels("failed").inc()
                log.error({"event": "reload failed, the runs before it answer on", "reason": str(error)})
                return
            self.keys, self._runs = keys, runs
            self.metrics.reloads.labels("done").inc()
            log.info({"event": "reloaded", "runs": list(runs)})

    @property
    def runs(self) -> dict[str, Served]:
        """The runs by name; Problem 503 until they are loaded."""
        if self._runs is None:
            raise unavailable("the runs are being loaded")
        return self._runs

    def served(self, name: str | None) -> Served:
        """Return the run of this name; without one, the only run."""
        runs = self.runs
        if name is None and len(runs) == 1:
            return next(iter(runs.values()))
        if name is None:
            todo = f"choose from: {', '.join(runs)}"
            raise Problem(422, "this server has several runs, and the request names none", "run", todo)
        if name not in runs:
            raise unknown_run(name, list(runs))
        return runs[name]

    def by_languages(self) -> dict[tuple[str, str], Served]:
        """Return the runs that translate, by their languages."""
        return {pair: served for served in self.runs.values() for pair in served.languages}


def check_runs(runs: Mapping[str, Path]) -> None:
    """Refuse a folder that is no run before a server starts; UserError."""
    from weft.runs.folder import RunFolder

    if not runs:
        raise UserError("there is no run to serve", "RUN", "give a run folder")
    for path in runs.values():
        RunFolder(path).read_spec()
