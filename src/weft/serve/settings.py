"""The settings of a server: a YAML file (`--config`), `--set key=value` and flags; later ones win.

The text under a field is its help, in `weft serve --help` and in the guide.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from weft.core.errors import UserError, did_you_mean
from weft.settings import flatten, must_be, put
from weft.spec import Part

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class Limits(Part):
    body: Count = 16_000_000
    """The maximum size of a request's body in bytes, uploaded files included."""
    items: Count = 1024
    """The maximum number of inputs in a request."""
    characters: Count = 10_000
    """The maximum number of characters of an input (for a list of numbers: of its JSON)."""
    beam: Count = 32
    """The largest search.width that a client may ask for."""
    nbest: Count = 32
    """The maximum number of outputs per input that a client may ask for."""
    output: Count = 2000
    """The maximum number of tokens or steps of an output."""
    requests: Count = 256
    """The maximum number of simultaneous requests; further ones are answered with 429."""
    queue: Count = 4096
    """The maximum number of waiting inputs; a request that would exceed it is answered with 429."""
    seconds: Seconds = 60.0
    """The maximum time until a request is answered, in seconds; then 504."""
    body_seconds: Seconds = 20.0
    """The maximum time in which a client must send its request, in seconds; then 408."""
    inspections: Annotated[int, Field(ge=0, le=1_000_000)] = 4
    """The maximum number of simultaneous inspections; further ones are answered with 429. 0 turns them off."""
    files: Count = 64
    """The maximum number of uploaded files in a request."""
    connections: Count = 2048
    """The maximum number of open connections of a worker process; further ones are closed."""


class Batch(Part):
    lines: Annotated[int, Field(ge=1, le=100_000)] = 128
    """The maximum number of inputs in a batch."""
    cost: Count = 32_768
    """The maximum number of characters, steps or frames of all inputs in a batch, unless a single input has more."""
    wait_milliseconds: Annotated[float, Field(ge=0, le=10_000)] = 2.0
    """If a batch is smaller than the previous one, it waits for more requests until none has arrived for this many ms,
    or for 5 % of the time that the previous batch took, whichever is longer."""


class Serve(Part):
    """Every setting of a server."""

    limits: Limits = Limits()
    """What a client may ask for."""
    batch: Batch = Batch()
    """How inputs of different requests are computed together."""
    engine: Literal["auto", "torch", "ctranslate2"] = "auto"
    """The engine that searches: auto uses CTranslate2 where a run has been exported to it in float32."""
    languages: Annotated[dict[str, str], Field(default_factory=dict)]
    """The languages of a run for LibreTranslate clients: languages.NAME=en-de; for a run with tags, en-de,en-fr."""
    hosts: tuple[str, ...] = ()
    """Host names that requests may use. Default: loopback names if the server listens on loopback, otherwise any."""
    cors: tuple[str, ...] = ()
    """Origins of web pages that may use the server; * for any. Default: none."""
    drain_seconds: Seconds = 30.0
    """The maximum time after SIGTERM for running requests to end, in seconds."""
    log_texts: bool = False
    """Whether the access log holds inputs and outputs."""


def read_settings(file: Mapping[str, Any], flags: Mapping[str, Any], where: str = "--config") -> Serve:
    """Compose the settings of a file and those of the command line, which win; UserError names the setting."""
    merged: dict[str, Any] = {}
    for layer in (file, flags):
        for key, value in flatten(layer):
            put(merged, key, _tuple_of(key, value))
    try:
        return Serve.model_validate(merged)
    except ValidationError as error:
        raise _readable(error, where) from None


def _tuple_of(key: str, value: Any) -> Any:
    return tuple(value) if key in ("hosts", "cors") and isinstance(value, list) else value


def _readable(error: ValidationError, where: str) -> UserError:
    first = error.errors()[0]
    path = [str(part) for part in first["loc"]]
    key, todo = ".".join(path), "see the guide on serving for every setting"
    if first["type"] == "extra_forbidden":
        what = f"{key}: there is no such setting of a server; {did_you_mean(path[-1], _names(path[:-1]))}"
        return UserError(what, f"setting {key}", todo)
    return UserError(f"{key} {must_be(first)}", f"setting {key}", todo)


def _names(path: list[str]) -> list[str]:
    model: Any = Serve
    for name in path:
        model = model.model_fields[name].annotation
    return list(model.model_fields)


def explained(part: type[BaseModel] = Serve, prefix: str = "") -> list[tuple[str, Any, str]]:
    """Return every setting with its default and its help."""
    rows: list[tuple[str, Any, str]] = []
    for name, field in part.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            rows += explained(field.annotation, f"{name}.")
        else:
            default = None if field.default_factory is not None else field.default
            rows.append((f"{prefix}{name}", default, " ".join((field.description or "").split())))
    return rows


def read_keys(path: str | Path) -> tuple[str, ...]:
    """Read a file of keys, one a line; empty lines and lines that start with # do not count."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        what = f"cannot read the file of keys: {reason}"
        raise UserError(what, f"--key-file {path}", "give a text file with one key on each line") from None
    keys = tuple(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    if not keys:
        raise UserError("the file of keys has no key", f"--key-file {path}", "write one key on each line")
    short = [number for number, key in enumerate(keys, 1) if len(key) < LEAST_KEY]
    if short:
        what = f"key {short[0]} has fewer than {LEAST_KEY} characters, so it can be guessed"
        raise UserError(what, f"--key-file {path}", "make one with: openssl rand -hex 16")
    return keys


LEAST_KEY = 16  # characters
