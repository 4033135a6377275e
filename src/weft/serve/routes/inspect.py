"""`/inspect`: the views of `weft inspect` for one input, as numbers, or as the self-contained page."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.look.inspect.report import Report, inspect
from weft.look.inspect.views import Options
from weft.search.clock import abandoned_if
from weft.serve import body, form
from weft.serve.answering import while_there
from weft.serve.body import Text
from weft.serve.errors import Problem, busy, invalid, of_validation
from weft.serve.guard import entry_of
from weft.serve.inputs import Uploads, pairs_of
from weft.serve.served import Served
from weft.serve.service import Service

MOST_CHANGES = 8
HTML = "text/html"
OWN_POLICY = "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


class InspectRequest(BaseModel):
    """What /inspect reads."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    input: Any
    """The input, as one of those of /predict."""
    run: Text | None = None
    """The name of the run; it may be left out if there is only one."""
    views: list[Text] = []
    """The names of views; without any, those that fit the run."""
    force: Text | None = None
    """An output to look at instead of what the model writes."""
    what_if: Annotated[list[Text], Field(max_length=MOST_CHANGES)] = []
    """Changes after which the model decodes again: input:3=x, output:2=y, attention:4=2, head:cross.1.2."""


async def look(request: Request, service: Service) -> Response:
    """Answer with what the model did with an input; as a page where the client accepts HTML."""
    with Uploads() as uploads:
        asked = await _asked(request, service, uploads)
        served = service.served(asked.run)
        entry_of(request)["run"] = served.name
        (pair,) = await run_in_threadpool(pairs_of, [asked.input], served, service.settings.limits, uploads)
        if not pair.source.strip():
            raise invalid("there is nothing to look at: the input is empty", "input", "fill it in")
        report = await _computed(request, service, served, pair, asked)
    if HTML in request.headers.get("accept", ""):
        return Response(report.page, headers={"content-type": f"{HTML}; charset=utf-8", **_policy()})
    return JSONResponse(report.numbers)


async def _asked(request: Request, service: Service, uploads: Uploads) -> InspectRequest:
    if body.require_type(request, body.JSON, body.MULTIPART) == body.MULTIPART:
        content = await form.read(request, service.settings.limits, uploads)
        inputs = content.pop("inputs")
        content["input"] = inputs[0]
        if len(inputs) > 1:
            raise invalid("only one input is looked at", "the form", "give one part named source")
    else:
        content = await body.read_object(request, service.settings.limits)
    try:
        return InspectRequest.model_validate(content)
    except ValidationError as error:
        raise of_validation(error.errors(include_url=False)) from None


def _policy() -> dict[str, str]:
    return {"content-security-policy": OWN_POLICY, "content-disposition": 'attachment; filename="report.html"'}


async def _computed(request: Request, service: Service, served: Served, pair: Pair, asked: InspectRequest) -> Report:
    """Compute the views, when the batches before them are done; few can wait, because each takes long."""
    limits = service.settings.limits
    if service.inspecting >= limits.inspections:
        raise busy("too many inspections are being computed") if limits.inspections else _off()
    is_over = False
    service.inspecting += 1
    try:
        work = service.batcher.alone(lambda: _report(served, pair, asked, lambda: is_over))
        return await while_there(request, work, limits.seconds)
    finally:
        is_over = True
        service.inspecting -= 1


def _report(served: Served, pair: Pair, asked: InspectRequest, is_over: Any) -> Report:
    try:
        with abandoned_if(is_over):
            options = Options(edits=asked.what_if)
            report = inspect(served.predictor, None, [pair], force=asked.force, views=asked.views, options=options)
    except UserError as error:
        raise served.told(error) from None
    run = {**report.numbers["run"], "name": served.name, "path": ""}
    return Report({**report.numbers, "run": run})


def _off() -> Problem:
    todo = "ask its operator to raise limits.inspections"
    return Problem(404, "this server does not compute inspections", "the server", todo)
