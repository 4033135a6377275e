"""What Prometheus reads at /metrics; of several worker processes, the sum.

With PROMETHEUS_MULTIPROC_DIR in the environment, which the supervisor sets, every process writes its numbers there.
"""

from __future__ import annotations

import os
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

MULTIPLE = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter("weft_requests", "Requests by route and status", ["route", "status"], registry=registry)
        self.failures = Counter("weft_failures", "Requests that failed, by reason", ["reason"], registry=registry)
        self.seconds = Histogram(
            "weft_request_seconds", "Seconds until a request was answered", ["route"], buckets=SECONDS,
            registry=registry,
        )  # fmt: skip
        self.running = Gauge(
            "weft_requests_running", "Requests that are being answered", registry=registry, multiprocess_mode="livesum"
        )
        self.waiting = Gauge(
            "weft_inputs_waiting", "Inputs that wait for a batch", registry=registry, multiprocess_mode="livesum"
        )
        self.batch = Histogram("weft_batch_inputs", "Inputs of a batch", buckets=SIZES, registry=registry)
        self.together = Histogram("weft_batch_requests", "Requests of a batch", buckets=SIZES, registry=registry)
        self.compute = Histogram(
            "weft_batch_seconds", "Seconds that a batch was computed", buckets=SECONDS, registry=registry
        )
        self.inputs = Counter("weft_inputs", "Inputs that were answered, by run", ["run"], registry=registry)
        self.tokens = Counter("weft_tokens", "Output tokens, where the engine counts them", ["run"], registry=registry)
        self.characters = Counter("weft_characters", "Characters by direction", ["direction"], registry=registry)
        self.reloads = Counter("weft_reloads", "Reloads of the runs, by result", ["result"], registry=registry)
        if MULTIPLE in os.environ:
            self.reloads.labels("done")  # so that there is a file of counters, too
            _reserve(Path(os.environ[MULTIPLE]))

    def text(self) -> bytes:
        """Return all of it in the text format of Prometheus."""
        if MULTIPLE not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)


def _reserve(folder: Path) -> None:
    """Take the room of this process's files on the disk now: on a full disk, writing to them would kill the process."""
    for path in folder.glob(f"*_{os.getpid()}.db") if hasattr(os, "posix_fallocate") else ():
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
