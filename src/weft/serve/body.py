"""Reading a request within bounds of size and time, and JSON without surprises."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator
from starlette.requests import Request

from weft.serve.errors import Problem, too_large
from weft.serve.settings import Limits


def _whole_text(text: str) -> str:
    """Return a text that can be written as UTF-8; half of a surrogate pair, which JSON can hold, cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("the text has half of a surrogate pair, which is no character") from None
    return text


Text = Annotated[str, AfterValidator(_whole_text)]
JSON, NDJSON, FORM, MULTIPART = (
    "application/json", "application/x-ndjson", "application/x-www-form-urlencoded", "multipart/form-data",
)  # fmt: skip
MOST_DIGITS = 400  # of a number
TODO_JSON = "send JSON in UTF-8; /docs shows an example"


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def require_type(request: Request, *allowed: str) -> str:
    """Return the content type of the body; Problem 415 if it is none of these, or if the body is compressed."""
    given = content_type(request)
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise Problem(415, "compressed bodies are not read", "header Content-Encoding", "send the body as it is")
    if given not in allowed:
        what = f"the body has the content type '{given[:80]}'" if given else "the body has no content type"
        raise Problem(415, what, "header Content-Type", f"send it as {' or '.join(allowed)}")
    return given


async def chunks(request: Request, limits: Limits) -> AsyncIterator[bytes]:
    """Yield the body as it comes; Problem 413 beyond the size, 408 beyond the time."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 15 or int(declared) > limits.body):
        raise _large(limits)
    size = 0
    until = asyncio.get_running_loop().time() + limits.body_seconds
    while True:
        try:
            async with asyncio.timeout_at(until):
                message = await request.receive()
        except TimeoutError:
            what = f"the body did not arrive within {limits.body_seconds:g} s"
            raise Problem(408, what, "the body", "send it faster, or in parts", {"connection": "close"}) from None
        if message["type"] == "http.disconnect":
            raise Problem(400, "the client went away", "the body", "send it whole")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limits.body:
            raise _large(limits)
        yield chunk
        if not message.get("more_body"):
            return


def _large(limits: Limits) -> Problem:
    todo = "send several requests"
    problem = too_large(f"a body has at most {limits.body:,} bytes on this server", "the body", todo)
    problem.headers["connection"] = "close"
    return problem


async def read(request: Request, limits: Limits) -> bytes:
    return b"".join([chunk async for chunk in chunks(request, limits)])


async def read_object(request: Request, limits: Limits) -> dict[str, Any]:
    """Return the JSON object of the body."""
    require_type(request, JSON)
    return parse_object(await read(request, limits))


def parse_object(body: bytes | str, where: str = "the body") -> dict[str, Any]:
    content = parse(body, where)
    if not isinstance(content, dict):
        raise Problem(422, "the JSON is not an object", where, "send an object: {…}; /docs shows an example")
    return content


def parse(body: bytes | str, where: str = "the body") -> Any:
    """Parse JSON as the standard has it: UTF-8, no NaN, no numbers of thousands of digits, no bottomless nesting."""
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        return json.loads(text, parse_constant=_refuse, parse_int=_whole, parse_float=_fraction)
    except UnicodeDecodeError:
        raise Problem(400, "the JSON is not UTF-8", where, TODO_JSON) from None
    except RecursionError:
        raise Problem(400, "the JSON is nested too deeply", where, TODO_JSON) from None
    except ValueError as error:
        position = f", character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise Problem(400, f"this is not JSON: {reason}", f"{where}{position}", TODO_JSON) from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has more than {MOST_DIGITS} digits")
    return int(digits)


def _fraction(digits: str) -> float:
    value = float(digits) if len(digits) <= MOST_DIGITS else float("inf")
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return value
