"""What a client is told when a request fails: a status, and JSON with what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse

from weft.core.errors import UserError
from weft.data.named_files import name_of

REASONS = {  # by status, as the metrics name a failure
    400: "malformed",
    401: "unauthorised",
    403: "forbidden",
    404: "unknown",
    405: "method",
    408: "slow_body",
    413: "too_large",
    415: "media_type",
    422: "invalid",
    429: "overload",
    431: "headers",
    500: "internal",
    503: "unavailable",
    504: "timeout",
}


class Problem(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, status: int, what: str, where: str = "", todo: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(what)
        self.status = status
        self.what, self.where, self.todo = (  # what a client sent may hold half of a surrogate pair
            text.encode("utf-8", "replace").decode("utf-8") for text in (what, where, todo)
        )
        self.headers = dict(headers or {})

    @property
    def reason(self) -> str:
        return REASONS.get(self.status, str(self.status))

    def body(self) -> dict[str, str]:
        """Return the three parts; clients of every protocol look for the text under `error`."""
        return {"error": self.what, "where": self.where, "todo": self.todo}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status, headers={"cache-control": "no-store", **self.headers})


def invalid(what: str, where: str, todo: str) -> Problem:
    """Return the problem of a request that is well-formed, but cannot be answered."""
    return Problem(422, what, where, todo)


def too_large(what: str, where: str, todo: str) -> Problem:
    return Problem(413, what, where, todo)


def busy(what: str, seconds: int = 1) -> Problem:
    """Return the problem of a server that has too much to do; the client should come back."""
    return Problem(
        429, what, "the server", f"try again in {seconds} s, with fewer requests at a time", _retry_after(seconds)
    )


def unavailable(what: str, seconds: int = 2) -> Problem:
    return Problem(503, what, "the server", f"try again in {seconds} s", _retry_after(seconds))


def timed_out(seconds: float) -> Problem:
    todo = "send fewer or shorter inputs, or use a cheaper search (greedy, or a smaller width)"
    return Problem(504, f"the answer took more than {seconds:g} s", "the request", todo)


def of_user_error(error: UserError, hidden: Sequence[str] = ()) -> Problem:
    """Return a mistake that Weft has found in a request; the paths in `hidden` are left out of the message."""
    parts = [error.what, name_of(error.where), error.todo]
    for path in hidden:
        parts = [part.replace(path, "the run") for part in parts]
    return invalid(*parts)


def of_validation(details: Sequence[Any], root: str = "the request") -> Problem:
    """Return the first of pydantic's complaints about a request."""
    first = details[0]
    where = ".".join(str(part) for part in first["loc"]) or root
    if first["type"] == "extra_forbidden":
        return invalid(f"there is no field {where!r}", where, "leave it out; /openapi.json lists the fields")
    if first["type"] == "missing":
        return invalid(f"the field {where!r} is missing", where, "add it; /docs shows an example")
    message = str(first["msg"])
    return invalid(f"{where}: {message[:1].lower()}{message[1:]}", where, "correct it; /docs shows an example")


def _retry_after(seconds: int) -> dict[str, str]:
    return {"retry-after": str(seconds)}
