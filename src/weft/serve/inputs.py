"""From the inputs of a request to pairs: cells are text or JSON; files come as uploads, never by their names."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from weft.core.pair import Pair
from weft.data.named_files import MARK
from weft.serve.errors import invalid, too_large, unavailable
from weft.serve.fields import Field
from weft.serve.served import Served
from weft.serve.settings import Limits

ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}")


class Uploads:
    """The uploaded files of a request, in a private folder that goes away with it."""

    def __init__(self) -> None:
        self._folder: str | None = None
        self._cells: set[str] = set()

    def __enter__(self) -> Uploads:
        return self

    def __exit__(self, *problem: object) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def save(self, content: BinaryIO, name: str) -> str:
        """Write a file, and return the cell that names it; of the client's name for it, only the ending counts."""
        ending = Path(name.replace("\\", "/")).suffix
        try:
            self._folder = self._folder or tempfile.mkdtemp(prefix="weft-serve-")
            number = len(self._cells) + 1
            path = Path(self._folder) / f"{number}{ending.lower() if ENDING.fullmatch(ending) else ''}"
            with path.open("wb") as file:
                shutil.copyfileobj(content, file)
        except OSError:
            raise unavailable("there is no room for the uploaded file") from None
        cell = f"{self._folder}{MARK}{path.name}"  # so that messages have the name alone
        self._cells.add(cell)
        return cell

    @property
    def any(self) -> bool:
        return bool(self._cells)

    def __contains__(self, cell: str) -> bool:
        return cell in self._cells


def pairs_of(items: Sequence[Any], served: Served, limits: Limits, uploads: Uploads | None = None) -> list[Pair]:
    """Return the inputs of a request as the run reads them; Problem names the first that cannot be read."""
    if len(items) > limits.items:
        what = f"a request has at most {limits.items:,} inputs on this server"
        raise too_large(what, "inputs", "send several requests")
    return [_pair(item, number, served, limits, uploads) for number, item in enumerate(items)]


def _pair(item: Any, number: int, served: Served, limits: Limits, uploads: Uploads | None) -> Pair:
    where = f"inputs.{number}"
    given: Mapping[str, Any] = item if isinstance(item, Mapping) else {"source": item}
    for name in given:
        if name not in served.fields:
            what = f"an input of this run has no field '{str(name)[:40]}'"
            raise invalid(what, where, f"give {', '.join(served.fields)}")
    cells = {
        role: _cell(given.get(role, ""), field, f"{where}.{role}", limits, uploads)
        for role, field in served.fields.items()
        if role != "features"
    }
    features = _features(given.get("features", ()), f"{where}.features", limits)
    pair = Pair(cells["source"], "", cells.get("tag", ""), features, (), cells.get("context", ""))
    return served.check(pair, where)


def _features(given: Any, where: str, limits: Limits) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(feature, str) for feature in given):
        raise invalid("features are a list of texts", where, 'give a list: ["V", "PST"]')
    return tuple(_cell(feature, Field("features"), where, limits, None) for feature in given)


def _cell(given: Any, field: Field, where: str, limits: Limits, uploads: Uploads | None) -> str:
    """Return a cell as text; of a column that is not text, only lists and uploads are taken, no names of files."""
    if uploads is not None and isinstance(given, str) and given in uploads:
        if not field.endings:
            raise invalid(f"a file was uploaded, but this run reads {field.kind} there", where, field.todo)
        return given
    cell = given if isinstance(given, str) else _as_json(given, field, where)
    if len(cell) > limits.characters:
        what = f"an input has at most {limits.characters:,} characters on this server, but this one has {len(cell):,}"
        raise too_large(what, where, "shorten it, or split it into several inputs")
    if not field.is_text and cell.strip() and not (field.lists and cell.lstrip().startswith("[")):
        raise invalid(f"a text was given, but this run reads {field.kind}", where, field.todo)
    try:
        cell.encode("utf-8")
    except UnicodeEncodeError:
        raise invalid("the text has half of a surrogate pair, which is no character", where, "remove it") from None
    return cell


def _as_json(given: Any, field: Field, where: str) -> str:
    if not field.lists or not isinstance(given, list):
        raise invalid(f"this run reads {field.kind}, but a JSON {_name(given)} was given", where, field.todo)
    return json.dumps(given)


def _name(given: Any) -> str:
    names = {dict: "object", list: "list", bool: "boolean", type(None): "null"}
    return names.get(type(given), "number")
