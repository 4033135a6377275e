"""The life of a server process: it listens, loads, answers, reloads on SIGHUP, and drains on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from weft.core.errors import UserError
from weft.serve.access import log
from weft.serve.app import application
from weft.serve.connection import connection_class
from weft.serve.service import Service
from weft.serve.settings import Serve

NOTICE = 0.5  # seconds in which a server that stops still takes connections, and answers them with 503
KEEP_ALIVE = 30  # seconds that a connection may be idle


@dataclass(frozen=True)
class Order:
    """What to serve, and how."""

    runs: Mapping[str, Path]
    settings: Serve
    host: str
    key_file: Path | None = None
    strict: bool = False
    early: bool = True  # whether connections are taken while the runs are being loaded; they are answered with 503


class _Server(uvicorn.Server):
    """A server that leaves signals to its process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """Open the socket that clients connect to; UserError if the port is in use, or the host is not here."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except PermissionError:
        raise UserError(f"the port {port} needs more rights", f"--port {port}", "choose one above 1023") from None
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise UserError(f"'{host}' is not an address of this machine", f"--host {host}", "use 127.0.0.1") from None
        what = f"cannot listen on port {port}: {os.strerror(error.errno or 0)}"
        raise UserError(what, f"--port {port}", "stop the other program, or choose another port") from None


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(order: Order, listening: socket.socket) -> None:
    """Serve until a signal ends it; what the runs cannot do is a UserError."""
    asyncio.run(_until_signal(order, listening))


async def _until_signal(order: Order, listening: socket.socket) -> None:
    service = Service(order.runs, order.settings, order.key_file, order.strict)
    stopping = asyncio.Event()
    _on_signals(service, stopping)
    if not order.early:
        await service.load()
    await serve(service, order.host, listening, stopping)


async def serve(service: Service, host: str, listening: socket.socket, stopping: asyncio.Event) -> None:
    """Load the runs and answer requests until `stopping` is set; then end what has begun."""
    settings = service.settings
    config = uvicorn.Config(
        application(service, host), http=connection_class(settings.limits), ws="none", lifespan="off",
        log_config=None, access_log=False, server_header=False, proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=max(1, round(settings.drain_seconds)),
    )  # fmt: skip
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    loading = asyncio.create_task(_load(service))
    try:
        await _first(loading, serving, stopping)
        if loading.done():
            await loading  # which raises what went wrong
            await _first(serving, stopping)
        await _drain(service, server, serving)
    finally:
        server.should_exit = True
        await service.batcher.stop()
        await asyncio.gather(serving, return_exceptions=True)


async def _load(service: Service) -> None:
    if not service.is_ready:
        await service.load()
    log.info({"event": "ready", "runs": list(service.runs)})


async def _first(*events: asyncio.Task[None] | asyncio.Event) -> None:
    """Wait for the first of these."""
    tasks = [asyncio.create_task(each.wait()) if isinstance(each, asyncio.Event) else each for each in events]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


def _on_signals(service: Service, stopping: asyncio.Event) -> None:
    """Stop on SIGTERM and Ctrl-C; load again on SIGHUP."""
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def reload() -> None:
        task = loop.create_task(service.reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    loop.add_signal_handler(signal.SIGHUP, reload)


async def _drain(service: Service, server: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    """Refuse new requests, answer those that are running, and end."""
    service.draining = True
    log.info({"event": "stopping", "running": service.running})
    await asyncio.sleep(NOTICE)
    server.should_exit = True
    await serving
    log.info({"event": "stopped"})
