"""Connections that do not wait for ever: a request line and headers have to arrive in time, and be of bounded size.

httptools parses what arrives, in C, which halves the time around a request. The head and the body of a response are
sent together, which halves what the operating system does for each.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from weft.serve.errors import Problem
from weft.serve.settings import Limits

LONGEST_HEAD = 65_536  # bytes of a request line and headers
TODO = "send a request as HTTP/1.1 has it"


def connection_class(limits: Limits) -> type[asyncio.Protocol]:
    """Return the class of a server's connections, with its limits."""
    return type("LimitedConnection", (Connection,), {"limits": limits})


class _Together:
    """A transport that sends what is written in one turn of the event loop at once."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._pieces: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self._send)
        self._pieces.append(data)

    def _send(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces:
            self._transport.write(b"".join(pieces))

    def close(self) -> None:
        self._send()
        self._transport.close()


class Connection(HttpToolsProtocol):
    """A connection; `limits` says how long a client may take to send the head of a request."""

    limits = Limits()
    _timer: asyncio.TimerHandle | None = None
    _head: int | None = 0  # bytes that have arrived of the head of the next request; None within a body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_Together(transport, self.loop))  # type: ignore[arg-type]
        if len(self.connections) > self.limits.connections:
            transport.abort()
            return
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += len(data)
            self._wait_for_head()
        super().data_received(data)
        if self._head is not None and self._head > LONGEST_HEAD:
            self._refuse(Problem(431, "the head of the request is too long", "the request", "send shorter headers"))

    def on_headers_complete(self) -> None:
        self._head = None
        self._forget_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._head = 0
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timer()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        """Give the client some time, counted from the first byte."""
        if self._timer is None:
            self._timer = self.loop.call_later(self.limits.body_seconds, self._head_is_late)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _head_is_late(self) -> None:
        self._timer = None
        if self._is_answering:
            self._wait_for_head()  # a client may send its next request early, and slowly
        else:
            self._refuse(Problem(408, "the head of the request did not arrive in time", "the request", TODO))

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, in place of uvicorn's plain text."""
        self._refuse(Problem(400, "this is not a valid HTTP request", "the request", TODO))

    def _refuse(self, problem: Problem) -> None:
        """Answer the request that arrives now with an error; if an earlier one waits for its answer, end after it."""
        if self._is_answering and (self._head is not None or self.pipeline or self.cycle.response_started):
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
        body = json.dumps(problem.body()).encode()
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[problem.status] + head.encode() + body)
        self.transport.close()
