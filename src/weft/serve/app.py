"""The application: the table of routes, the page, and the layers around them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from importlib.resources import files

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from weft.look.inspect import page as inspection
from weft.serve.errors import Problem
from weft.serve.guard import Guard, entry_of
from weft.serve.routes import inference, inspect, libretranslate, operations, own
from weft.serve.service import Service

Handler = Callable[[Request, Service], Awaitable[Response]]
MODEL = "/v2/models/{name}"
VERSIONED = MODEL + "/versions/{version}"
ROUTES: list[tuple[str, str, Handler]] = [
    ("POST", "/predict", own.predict),
    ("POST", "/inspect", inspect.look),
    ("GET", "/runs", own.runs),
    ("POST", "/translate", libretranslate.translate),
    ("GET", "/languages", libretranslate.languages),
    ("POST", "/detect", libretranslate.detect),
    ("GET", "/spec", operations.openapi),
    ("GET", "/openapi.json", operations.openapi),
    ("GET", "/health", operations.health),
    ("GET", "/metrics", operations.metrics),
    ("GET", "/v2", inference.server),
    ("GET", "/v2/health/live", inference.live),
    ("GET", "/v2/health/ready", inference.ready),
    *((("GET", path, inference.model)) for path in (MODEL, VERSIONED)),
    *((("GET", f"{path}/ready", inference.model_ready)) for path in (MODEL, VERSIONED)),
    *((("POST", f"{path}/infer", inference.infer)) for path in (MODEL, VERSIONED)),
]
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
FRAMED = {  # pages that our own page shows within itself
    "views.html": {
        "x-frame-options": "SAMEORIGIN",
        "content-security-policy": "default-src 'self'; img-src data:; style-src 'self' 'unsafe-inline'; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    }
}
PAGES = {"/": "index.html", "/docs": "docs.html", "/favicon.ico": "icon.svg"}


def application(service: Service, host: str) -> ASGIApp:
    """Return the application of a service that listens on this host."""
    app: ASGIApp = Guard(_Router(service), service, host)
    if service.settings.cors:
        app = CORSMiddleware(
            app, allow_origins=service.settings.cors, allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-api-key"],
        )  # fmt: skip
    return app


class _Router:
    """Passes each request to the handler of its path and method."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._handlers: dict[str, dict[str, Handler]] = {}
        for method, path, handler in (*ROUTES, *_pages()):
            self._handlers.setdefault(path, {})[method] = handler
        self._patterns = {path: _pattern(path) for path in self._handlers if "{" in path}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        route, scope["path_params"] = self._route(scope["path"])
        entry_of(request)["route"] = route
        handlers = self._handlers[route]
        handler = handlers.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            what, todo = f"this route has no method {request.method}", "see /docs for the methods of each route"
            raise Problem(405, what, "the request", todo, {"allow": ", ".join(handlers)})
        response = await handler(request, self._service)
        await response(scope, receive, send)

    def _route(self, path: str) -> tuple[str, dict[str, str]]:
        """Return the route of a path, and the names that the path holds; Problem 404 if there is none."""
        if path in self._handlers and path not in self._patterns:
            return path, {}
        for route, pattern in self._patterns.items():
            if match := pattern.fullmatch(path):
                return route, match.groupdict()
        raise Problem(404, "there is nothing at this path", "the path", "see /docs for every route")


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path))


def _pages() -> list[tuple[str, str, Handler]]:
    """Return routes for the files of the page; only these files exist, so no name can lead elsewhere."""
    content = {
        file.name: file.read_bytes() for file in files("weft.serve").joinpath("page").iterdir() if file.is_file()
    }
    drawn = f'"use strict";\n(() => {{\n{inspection.script()}\n}})();\n'
    content |= {"views.css": inspection.style().encode(), "views.js": drawn.encode()}
    names = {**PAGES, **{f"/page/{name}": name for name in content}}
    return [("GET", path, _page(name, content[name])) for path, name in names.items()]


def _page(name: str, content: bytes) -> Handler:
    kind = TYPES.get(name.rpartition(".")[2], "")
    headers = {"content-type": f"{kind}; charset=utf-8", "cache-control": "no-cache", **FRAMED.get(name, {})}

    async def handler(request: Request, service: Service) -> Response:
        return Response(content, headers=headers)

    return handler
