"""Whether the server lives, what it does, and the description of its interface."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from weft.serve.errors import unavailable
from weft.serve.metrics import CONTENT_TYPE
from weft.serve.openapi import document
from weft.serve.service import Service


async def health(request: Request, service: Service) -> Response:
    """Answer `ok` when requests are answered; 503 while the server loads or stops."""
    if not service.is_ready:
        raise unavailable("the server is stopping" if service.draining else "the runs are being loaded")
    return JSONResponse({"status": "ok"})


async def metrics(request: Request, service: Service) -> Response:
    return Response(service.metrics.text(), headers={"content-type": CONTENT_TYPE})


async def openapi(request: Request, service: Service) -> Response:
    return JSONResponse(document(service.settings.limits, bool(service.keys)))
