"""Servers for tests: on loopback, on a free port, in a thread of the test's own process."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from weft.serve.lifecycle import address_of, listen, serve
from weft.serve.service import Service
from weft.serve.settings import read_settings


class Running:
    """A server that answers while the block lasts."""

    def __init__(
        self, runs: Mapping[str, Path], settings: Mapping[str, Any] | None = None, key_file: Path | None = None
    ) -> None:
        self.service = Service(runs, read_settings({}, settings or {}), key_file)
        listening = listen("127.0.0.1", 0)
        self.address = address_of(listening)
        self.port = listening.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, args=[listening], daemon=True)
        self.client = httpx.Client(base_url=self.address, timeout=30)

    def _serve(self, listening: socket.socket) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(serve(self.service, "127.0.0.1", listening, self._stopping))

    def start(self) -> Running:
        self._thread.start()
        wait_until_ready(self.client)
        return self

    def stop(self) -> None:
        self.client.close()
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server has not ended"
        self._loop.close()

    def __enter__(self) -> Running:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def reload(self) -> None:
        asyncio.run_coroutine_threadsafe(self.service.reload(), self._loop).result(60)

    def send(self, content: bytes, seconds: float = 10, half_close: bool = False) -> bytes:
        """Send bytes as they are, and return all that comes back until the server closes or the time is over."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(content)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            return received(connection)


def received(connection: socket.socket) -> bytes:
    answer = b""
    try:
        while chunk := connection.recv(65536):
            answer += chunk
    except (TimeoutError, ConnectionError):
        pass
    return answer


def wait_until_ready(client: httpx.Client, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.02)
    raise AssertionError("the server is not ready")


def told(response: httpx.Response, status: int, *words: str) -> dict[str, str]:
    """The error of a response: of this status, in three parts that are not empty, with these words."""
    assert response.status_code == status, response.text
    content: dict[str, str] = response.json()
    assert list(content) == ["error", "where", "todo"]
    assert all(content.values()), content
    for word in words:
        assert word in response.text, content
    return content
