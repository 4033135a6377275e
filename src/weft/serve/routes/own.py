"""`/predict`: every kind of run, with n-best outputs, scores, tokens and alignments; and `/runs`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from weft.serve import body, form
from weft.serve.answering import Question, answer, stream, submit, while_there
from weft.serve.batching import Answer
from weft.serve.body import Text
from weft.serve.errors import Problem, of_validation, too_large
from weft.serve.inputs import Uploads
from weft.serve.outputs import shown
from weft.serve.service import Service
from weft.serve.settings import Limits

MOST_ALIGNED = 32  # inputs of a request; each is computed once more, by itself


class PredictRequest(BaseModel):
    """What /predict reads."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    inputs: list[Any]
    """The inputs: texts; lists of numbers; or objects with source and, as far as the run has them, context, tag and
    features."""
    run: Text | None = None
    """The name of the run; it may be left out if there is only one."""
    search: dict[str, Any] = {}
    """Settings of the search that differ from the run's: kind (greedy, beam, sample), width, temperature, top_k, top_p,
    seed, length_penalty, no_repeat, max_ratio, max_extra."""
    nbest: Annotated[int, Field(ge=1)] = 1
    """The number of outputs of each input."""
    prefix: Text = ""
    """A text that every output begins with."""
    tokens: bool = False
    """Whether each output has its tokens with their log-probabilities."""
    alignment: bool = False
    """Whether each input has the attention of its best output: source tokens, target tokens and weights."""

    def question(self, service: Service) -> Question:
        if self.alignment and len(self.inputs) > MOST_ALIGNED:
            what = f"alignments are computed for at most {MOST_ALIGNED} inputs of a request"
            raise too_large(what, "alignment", "send fewer inputs, or leave alignment out")
        served = service.served(self.run)
        return Question(served, self.inputs, self.search, self.nbest, self.prefix, self.tokens, self.alignment)


async def predict(request: Request, service: Service) -> Response:
    """Answer JSON, or files as multipart/form-data; as NDJSON where the client accepts it."""
    with ExitStack() as stack:
        uploads = stack.enter_context(Uploads())
        asked = await _asked(request, service.settings.limits, uploads)
        question = asked.question(service)
        if body.NDJSON in request.headers.get("accept", ""):
            return await _streamed(request, service, question, uploads, stack)
        pairs, answers = await answer(request, service, question, uploads)
        notes = await run_in_threadpool(question.served.notes, pairs)
    predictions = [shown(each, asked.tokens) for each in answers]
    return JSONResponse({"run": question.served.name, "predictions": predictions, "notes": notes})


async def _asked(request: Request, limits: Limits, uploads: Uploads) -> PredictRequest:
    if body.require_type(request, body.JSON, body.MULTIPART) == body.MULTIPART:
        content = await form.read(request, limits, uploads)
    else:
        content = await body.read_object(request, limits)
    try:
        return PredictRequest.model_validate(content)
    except ValidationError as error:
        raise of_validation(error.errors(include_url=False)) from None


async def _streamed(
    request: Request, service: Service, question: Question, uploads: Uploads, stack: ExitStack
) -> Response:
    """Send a line for each input as soon as it is answered; an error before the first line has a status of its own."""
    ticket = await submit(request, service, question, uploads)
    answers = stream(service, ticket)
    stack.callback(ticket.abandon)
    first = await while_there(request, _first(answers), service.settings.limits.seconds)
    return _Streamed(_lines(first, answers, question.tokens), stack.pop_all())


async def _first(answers: AsyncIterator[Answer]) -> Answer | None:
    return await anext(answers, None)


class _Streamed(StreamingResponse):
    """A stream that cleans up when it ends, however it ends."""

    def __init__(self, lines: AsyncIterator[str], stack: ExitStack) -> None:
        super().__init__(lines, media_type=body.NDJSON)
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._stack:
            await super().__call__(scope, receive, send)


async def _lines(first: Answer | None, rest: AsyncIterator[Answer], tokens: bool) -> AsyncIterator[str]:
    if first is None:
        return
    yield _line(shown(first, tokens))
    try:
        async for each in rest:
            yield _line(shown(each, tokens))
    except Problem as problem:
        yield _line(problem.body())


def _line(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False) + "\n"


async def runs(request: Request, service: Service) -> Response:
    """List the runs, what they read, and the limits."""
    limits = service.settings.limits.model_dump(include={"items", "characters", "beam", "nbest", "output", "body"})
    described = [served.describe() for served in service.runs.values()]
    return JSONResponse({"runs": described, "limits": limits})
