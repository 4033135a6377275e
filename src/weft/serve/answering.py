"""From a question to its answers: the way that the routes of all protocols share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from weft.core.pair import Pair
from weft.serve.access import shortened
from weft.serve.batching import Answer, Ticket
from weft.serve.errors import Problem, timed_out
from weft.serve.guard import entry_of
from weft.serve.inputs import Uploads, pairs_of
from weft.serve.served import Served
from weft.serve.service import Service
from weft.serve.settings import Limits

FEW = 64  # inputs that are checked at once, without a thread
Result = TypeVar("Result")


@dataclass(frozen=True)
class Question:
    """What a client asks a run."""

    served: Served
    inputs: Sequence[Any]
    search: Mapping[str, Any] = field(default_factory=dict)
    nbest: int = 1
    prefix: str = ""
    tokens: bool = False
    align: bool = False


async def submit(request: Request, service: Service, question: Question, uploads: Uploads | None = None) -> Ticket:
    """Check a question, and let it wait for its turn; Problem if it cannot be answered."""
    served, limits = question.served, service.settings.limits
    plan = served.plan(question.search, question.nbest, question.prefix)
    pairs, costs = await _checked(question, limits, uploads)
    ticket = Ticket(served, plan, pairs, costs, "tokens" if question.tokens else "score", question.align)
    entry = entry_of(request)
    entry |= {"run": served.name, "inputs": len(pairs)}
    if service.settings.log_texts:
        entry["texts"] = shortened([pair.source for pair in pairs])
    if pairs:
        service.batcher.submit(ticket)
    return ticket


async def _checked(question: Question, limits: Limits, uploads: Uploads | None) -> tuple[list[Pair], list[int]]:
    """Return the inputs and their costs; what takes long (files, long lists) is checked in a thread."""

    def check() -> tuple[list[Pair], list[int]]:
        pairs = pairs_of(question.inputs, question.served, limits, uploads)
        return pairs, [question.served.cost(pair) for pair in pairs]

    takes_long = len(question.inputs) > FEW or (uploads is not None and uploads.any)
    return await run_in_threadpool(check) if takes_long else check()


async def answer(
    request: Request, service: Service, question: Question, uploads: Uploads | None = None
) -> tuple[list[Pair], list[Answer]]:
    """Return the inputs and their answers; a client that goes away, or waits too long, cancels the work."""
    ticket = await submit(request, service, question, uploads)
    try:
        answers = await while_there(request, _all(ticket), service.settings.limits.seconds)
    finally:
        ticket.abandoned = True
    count(service, ticket, answers)
    if service.settings.log_texts:
        entry_of(request)["outputs"] = shortened([each.prediction.text for each in answers])
    return list(ticket.pairs), answers


async def _all(ticket: Ticket) -> list[Answer]:
    return [each async for each in ticket.answers()]


async def while_there(request: Request, work: Coroutine[Any, Any, Result], seconds: float) -> Result:
    """Return what the work returns; Problem if the client goes away before, or if it takes too long."""
    gone = asyncio.create_task(_is_gone(request))
    try:
        async with asyncio.timeout(seconds) as limit:
            gone.add_done_callback(lambda task: None if task.cancelled() else limit.reschedule(0))
            return await work
    except TimeoutError:
        raise (Problem(499, "the client went away") if gone.done() else timed_out(seconds)) from None
    finally:
        gone.cancel()


async def _is_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def stream(service: Service, ticket: Ticket) -> AsyncIterator[Answer]:
    """Yield the answers as they come; when the stream is closed, the rest is not computed any more."""
    answers, until = ticket.answers(), asyncio.get_running_loop().time() + service.settings.limits.seconds
    try:
        while True:
            try:
                async with asyncio.timeout_at(until):
                    each = await anext(answers)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise timed_out(service.settings.limits.seconds) from None
            count(service, ticket, [each])
            yield each
    finally:
        ticket.abandoned = True


def count(service: Service, ticket: Ticket, answers: Sequence[Answer]) -> None:
    """Count what was read and written."""
    metrics, name = service.metrics, ticket.served.name
    metrics.inputs.labels(name).inc(len(answers))
    outputs = [output for each in answers for output in each.prediction.outputs]
    metrics.tokens.labels(name).inc(sum(len(output.tokens) for output in outputs))
    metrics.characters.labels("in").inc(sum(len(each.prediction.source) for each in answers))
    metrics.characters.labels("out").inc(sum(len(output.text) for output in outputs))
