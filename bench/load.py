"""Clients for loads: plain HTTP over asyncio, so that the clients cost little beside the server that they measure."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Seen:
    """What some clients saw: statuses (0: none), lines that were answered, and the seconds of each answered request."""

    statuses: Counter[int] = field(default_factory=Counter)
    lines: int = 0
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, status: int, lines: int, seconds: float) -> None:
        self.statuses[status] += 1
        if status == 200:
            self.lines += lines
            self.latencies.append(seconds)

    @property
    def lines_per_second(self) -> float:
        return self.lines / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def translation(lines: Sequence[str]) -> bytes:
    body = json.dumps({"q": list(lines), "source": "en", "target": "de"}).encode()
    head = (
        f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    return f"{head}\r\n\r\n".encode() + body


class Client:
    """One connection that is kept open, and opened again where the server closed it."""

    def __init__(self, port: int) -> None:
        self._port, self._streams = port, None

    async def ask(self, request: bytes) -> int:
        """Send a request and return its status; 0 if the connection was lost.

        A kept connection may have been closed by the server while it was idle; then the request goes over a new one.
        """
        kept = self._streams is not None
        try:
            return await self._ask(request)
        except (OSError, asyncio.IncompleteReadError, StopIteration) as error:
            self.close()
            unread = isinstance(error, ConnectionError) or (
                isinstance(error, asyncio.IncompleteReadError) and not error.partial
            )
            return await self.ask(request) if kept and unread else 0

    async def _ask(self, request: bytes) -> int:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-l"))
        await reader.readexactly(length)
        if b"connection: close" in head.lower():
            self.close()
        return int(head[9:12])

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


async def closed_loop(port: int, lines: Sequence[str], clients: int, each: int, seconds: float) -> Seen:
    """Let clients ask one request of `each` lines after the other, for some seconds."""
    seen, position, until = Seen(), iter(range(10**9)), time.monotonic() + seconds

    async def client() -> None:
        connection = Client(port)
        while time.monotonic() < until:
            first = next(position) * each
            batch = [lines[(first + n) % len(lines)] for n in range(each)]
            started = time.monotonic()
            seen.add(await connection.ask(translation(batch)), each, time.monotonic() - started)
        connection.close()

    started = time.monotonic()
    await asyncio.gather(*(client() for _ in range(clients)))
    seen.seconds = time.monotonic() - started
    return seen


async def open_loop(port: int, lines: Sequence[str], rate: float, seconds: float) -> Seen:
    """Send so many single lines a second, whatever comes back; connections are used again where they are free."""
    seen, free, tasks = Seen(), [], set[asyncio.Task[None]]()

    async def once(line: str, due: float) -> None:
        connection = free.pop() if free else Client(port)
        seen.add(await connection.ask(translation([line])), 1, time.monotonic() - due)
        free.append(connection)

    started = time.monotonic()
    for number in range(int(rate * seconds)):
        due = started + number / rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        task = asyncio.create_task(once(lines[number % len(lines)], due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    seen.seconds = time.monotonic() - started
    return seen


@dataclass(frozen=True)
class Server:
    """A server process of `weft serve`."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def megabytes(self) -> float:
        """The memory of the process and of those that it has started."""
        return sum(_resident(pid) for pid in [self.process.pid, *self.workers]) / 1e6

    @property
    def workers(self) -> list[int]:
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        return [int(pid) for pid in listed.split()]

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            return str(answer.read(), "utf-8")


def _resident(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def on_core(core: int | None, command: Sequence[str]) -> list[str]:
    """Return a command that runs on one core only, where that is asked for, so that clients do not slow a server."""
    return [*command] if core is None else ["taskset", "-c", str(core), *command]


@contextmanager
def serving(
    runs: Sequence[str], log: Path, *flags: str, seconds: float = 300, core: int | None = None
) -> Iterator[Server]:
    """Start `weft serve` on a free port, wait until it is ready, and end it with SIGTERM."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = on_core(core, [sys.executable, "-m", "weft", "serve", *runs, "--port", str(port), *flags])
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stderr=stream, stdout=subprocess.DEVNULL)
    try:
        _wait(port, process, log, seconds)
        yield Server(process, port)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"the server has ended:\n{log.read_text(encoding='utf-8')[-2000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the server is not ready")
