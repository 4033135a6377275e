"""Connections that do not wait for ever: a request line and headers have to arrive in time, and whole.

The head and the body of a response are sent together, which halves what the operating system does for each.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.serve.errors import Problem
from weft.serve.settings import Limits

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


class Connection(H11Protocol):
    """A connection; `limits` says how long a client may take to send the head of a request."""

    limits = Limits()
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_Together(transport, self.loop))  # type: ignore[arg-type]
        if len(self.connections) > self.limits.connections:
            transport.abort()
            return
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            self._forget_timer()

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
        if self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete):
            self._refuse(Problem(408, "the head of the request did not arrive in time", "the request", TODO))

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, in place of uvicorn's plain text."""
        self._refuse(Problem(400, "this is not a valid HTTP request", "the request", TODO))

    def _refuse(self, problem: Problem) -> None:
        body = json.dumps(problem.body()).encode()
        headers: Any = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        events = (
            h11.Response(status_code=problem.status, headers=[*headers, (b"connection", b"close")]),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        try:
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass  # an answer has begun already
        self.transport.close()
