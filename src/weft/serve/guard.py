"""What every request passes: host names, keys, limits and states of the server; and what is counted and logged."""

from __future__ import annotations

import random
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.serve import access
from weft.serve.access import log
from weft.serve.errors import REASONS, Problem, busy, unavailable
from weft.serve.service import Service

CLOSE = {"connection": "close"}
LOOPBACK = ("localhost", "127.0.0.1", "::1")
OPEN = ("/", "/docs", "/openapi.json", "/health", "/spec", "/favicon.ico")  # paths that need no key
OPEN_UNDER = ("/page/", "/v2/health/")
KEY_IN_BODY = ("/translate", "/detect")  # LibreTranslate's clients may send their key there
ALWAYS = ("/health", "/metrics", "/v2/health/live", "/v2/health/ready")  # answered under any load
SECURE = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
        b"style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
)


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, service: Service, host: str) -> None:
        self._app, self._service = app, service
        self._hosts = service.settings.hosts or (LOOPBACK if host in LOOPBACK else ())
        self._cors = service.settings.cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await _Passage(self._app, self._service, scope).run(self, receive, send)

    def check(self, path: str, headers: Headers) -> None:
        """Refuse what no route should see; Problem."""
        self._check_host(headers)
        service = self._service
        if service.draining and path not in ALWAYS:
            problem = unavailable("the server is stopping")
            problem.headers |= CLOSE
            raise problem
        if not (path in (*OPEN, *KEY_IN_BODY) or path.startswith(OPEN_UNDER)):
            service.keys.check(headers)
        if path not in ALWAYS and service.running > service.settings.limits.requests:
            raise busy("too many requests are being answered", service.batcher.seconds_to_wait)

    def _check_host(self, headers: Headers) -> None:
        """Refuse other names of this machine, by which web pages of others could reach it, and their origins."""
        names = headers.getlist("host")
        if len(names) > 1:
            raise Problem(400, "the request names several hosts", "header Host", "send it once", CLOSE)
        host = _host_of("".join(names))
        if self._hosts and host not in self._hosts:
            todo = "use the name that the server was started with, or add it to its setting hosts"
            raise Problem(400, "this server does not answer to that host name", "header Host", todo, CLOSE)
        origin = headers.get("origin")
        if origin and "*" not in self._cors and origin not in self._cors and _host_of(urlsplit(origin).netloc) != host:
            todo = "ask its operator to add the origin of the page to the setting cors"
            raise Problem(403, "this server does not answer web pages of other origins", "header Origin", todo)


def _host_of(netloc: str) -> str:
    """Return the name without its port."""
    if netloc.startswith("["):
        return netloc[1:].partition("]")[0].lower()
    return netloc.partition(":")[0].lower()


class _Passage:
    """One request on its way through the guard."""

    def __init__(self, app: ASGIApp, service: Service, scope: Scope) -> None:
        self._app, self._service, self._scope = app, service, scope
        self._status, self._started = 0, time.perf_counter()
        self._entry: dict[str, object] = {
            "id": f"{random.getrandbits(64):016x}",
            "method": scope["method"],
            "route": "none",
        }
        scope.setdefault("state", {})["entry"] = self._entry

    async def run(self, guard: Guard, receive: Receive, send: Send) -> None:
        service = self._service
        service.running += 1
        service.metrics.running.set(service.running)

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._status = message["status"]
                self._add_headers(message)
            await send(message)

        try:
            guard.check(self._scope["path"], Headers(scope=self._scope))
            await self._app(self._scope, receive, send_on)
        except Problem as problem:
            await problem.response()(self._scope, receive, send_on)
        except Exception as error:
            log.error({"event": "a request failed", "id": self._entry["id"]}, exc_info=error)
            if not self._status:
                what = "the server failed to answer this request"
                response = Problem(500, what, "the server", "tell its operator, who has a log").response()
                await response(self._scope, receive, send_on)
        finally:
            service.running -= 1
            service.metrics.running.set(service.running)
            self._count()

    def _add_headers(self, message: Message) -> None:
        """Add the headers of every response, but for those that a route has set itself."""
        headers = list(message["headers"])
        present = {name for name, _ in headers}
        headers += [header for header in SECURE if header[0] not in present]
        message["headers"] = [*headers, (b"x-request-id", str(self._entry["id"]).encode())]

    def _count(self) -> None:
        """Count the request, and write its line of the log; one whose client went away has the status 499."""
        metrics, seconds = self._service.metrics, time.perf_counter() - self._started
        route, status = str(self._entry["route"]), self._status or 499
        metrics.requests.labels(route, str(status)).inc()
        metrics.seconds.labels(route).observe(seconds)
        if status >= 400:
            metrics.failures.labels("gone" if status == 499 else REASONS.get(status, str(status))).inc()
        access.write({**self._entry, "status": status, "milliseconds": round(1000 * seconds, 1)})


def entry_of(request: Request) -> dict[str, object]:
    """Return the entry of the log that a request will have; routes add to it."""
    entry: dict[str, object] = request.state.entry
    return entry
