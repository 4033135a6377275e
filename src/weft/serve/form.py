"""Requests with files: forms whose parts are the cells of inputs and the other fields of a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from weft.serve import body
from weft.serve.errors import Problem, unavailable
from weft.serve.inputs import Uploads
from weft.serve.settings import Limits

CELLS = ("source", "context", "tag", "features")
PLAIN = ("run", "prefix", "force")  # fields that are text; the others are JSON


async def read(request: Request, limits: Limits, uploads: Uploads) -> dict[str, Any]:
    """Return the request that a form makes: parts named source, context, tag and features are the inputs, in order.

    The other parts are the other fields of a request, as JSON.
    """
    parser = MultiPartParser(
        request.headers, _generator(body.chunks(request, limits)),
        max_files=limits.files, max_fields=4 * limits.items + 8, max_part_size=limits.body,
    )  # fmt: skip
    try:
        form = await parser.parse()
    except MultiPartException as error:
        what = f"the form cannot be read: {error.message}"
        raise Problem(400, what, "the body", "send multipart/form-data") from None
    except OSError:
        raise unavailable("there is no room for the uploaded file") from None
    columns: dict[str, list[Any]] = {}
    content: dict[str, Any] = {}
    try:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                cell: Any = await run_in_threadpool(uploads.save, value.file, value.filename or "")
                columns.setdefault(name, []).append(cell)
            elif name in CELLS:
                columns.setdefault(name, []).append(value.split() if name == "features" else value)
            else:
                content[name] = value if name in PLAIN else body.parse(value, name)
    finally:
        await form.close()
    return {**content, "inputs": _rows(columns)}


async def _generator(chunks: AsyncIterator[bytes]) -> Any:
    async for chunk in chunks:
        yield chunk


def _rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Return the inputs; a part that comes once is that of every input."""
    count = max(map(len, columns.values()), default=0)
    if not count or any(len(cells) not in (1, count) for cells in columns.values()):
        what = "the fields of the form are not all given the same number of times" if count else "the form has no input"
        raise Problem(
            422, what, "the form", "give the field source, and any other field that the run reads, once for each input"
        )
    return [{name: cells[row % len(cells)] for name, cells in columns.items()} for row in range(count)]
