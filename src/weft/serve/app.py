"""The application: the table of routes, the page, and the layers around them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

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
    routes = [_route(method, path, handler, service) for method, path, handler in ROUTES]
    handlers: dict[int | type[Exception], Callable[[Request, Exception], Response]] = {
        Problem: _problem,
        HTTPException: _unknown,
    }
    app: ASGIApp = Starlette(routes=[*routes, *_pages()], exception_handlers=handlers)
    app = Guard(app, service, host)
    if service.settings.cors:
        app = CORSMiddleware(
            app, allow_origins=service.settings.cors, allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-api-key"],
        )  # fmt: skip
    return app


def _route(method: str, path: str, handler: Handler, service: Service) -> Route:
    async def endpoint(request: Request) -> Response:
        entry_of(request)["route"] = path
        return await handler(request, service)

    return Route(path, endpoint, methods=[method])


def _pages() -> list[Route]:
    """Return routes for the files of the page; only these files exist, so no name can lead elsewhere."""
    content = {
        file.name: file.read_bytes() for file in files("weft.serve").joinpath("page").iterdir() if file.is_file()
    }
    drawn = f'"use strict";\n(() => {{\n{inspection.script()}\n}})();\n'
    content |= {"views.css": inspection.style().encode(), "views.js": drawn.encode()}
    names = {**PAGES, **{f"/page/{name}": name for name in content}}
    return [_page(path, name, content[name]) for path, name in names.items()]


def _page(path: str, name: str, content: bytes) -> Route:
    kind = TYPES.get(name.rpartition(".")[2], "")
    headers = {"content-type": f"{kind}; charset=utf-8", "cache-control": "no-cache", **FRAMED.get(name, {})}

    async def endpoint(request: Request) -> Response:
        entry_of(request)["route"] = path
        return Response(content, headers=headers)

    return Route(path, endpoint, methods=["GET"])


def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


def _unknown(request: Request, error: Exception) -> Response:
    """Answer for what no route does."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        headers = dict(error.headers or {})
        todo = "see /docs for the methods of each route"
        return Problem(405, f"this route has no method {request.method}", "the request", todo, headers).response()
    return Problem(
        error.status_code, "there is nothing at this path", "the path", "see /docs for every route"
    ).response()
