"""Formats that name their fields: JSON lines, JSON lists and Parquet → rows of the wanted fields as text.

A reader is given `choose`, which turns the names it finds into the wanted ones, in the order of the cells it yields.

Limits: a .json list and a .parquet.gz are read into memory; the "line" of a Parquet row is its number.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

from weft.core.errors import UserError, did_you_mean
from weft.data.files import BOM, File, raw_lines
from weft.data.formats import Fault, Judge, Rows, decoded, kind_of, not_utf8

Choose = Callable[[list[str]], list[str]]

BATCH_ROWS = 10_000


def json_rows(file: File, choose: Choose, judge: Judge) -> Rows:
    """One object a line, or one list of objects; the first object's fields decide which are the wanted ones."""
    is_list = kind_of(file.path) == "json" and file.first_byte() == b"["
    records: Iterator[tuple[int, dict[str, Any] | None]] = (_listed if is_list else _lined)(file, judge)
    wanted: list[str] = []
    for line, record in records:
        if record is None:
            yield line, []
            continue
        if not wanted:
            wanted = choose(list(record))
        try:
            yield line, [_field(record, name) for name in wanted]
        except Fault as fault:
            judge.bad(f"{file.name}:{line}", fault)


def _lined(file: File, judge: Judge) -> Iterator[tuple[int, dict[str, Any] | None]]:
    for line, raw in enumerate(raw_lines(file.stream), 1):
        try:
            text = decoded(raw)
            yield line, _object(_parsed(text)) if text.strip() else None
        except Fault as fault:
            judge.bad(f"{file.name}:{line}", fault)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at character {error.pos + 1}"
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; thousands of brackets
        reason = str(error)
    raise Fault(f"this is not valid JSON: {reason}", "write one whole object on each line")


def _object(record: Any) -> dict[str, Any]:
    if isinstance(record, dict):
        return record
    raise Fault(f"this is {_called(record)}, not an object", 'write {"source": "…", "target": "…"}')


def _listed(file: File, judge: Judge) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The objects of one JSON list, with the lines they begin on. Broken JSON stops: no next line to go on from."""
    text = _whole_text(file)
    decoder = json.JSONDecoder()
    line, counted, at = 1, 0, _past_blanks(text, text.index("[") + 1)
    while not text.startswith("]", at):
        line, counted = line + text.count("\n", counted, at), at
        try:
            record, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise _broken_list(file, line) from error
        try:
            yield line, _object(record)
        except Fault as fault:
            judge.bad(f"{file.name}:{line}", fault)
        at = _past_blanks(text, at)
        if text.startswith(",", at):
            at = _past_blanks(text, at + 1)
        elif not text.startswith("]", at):
            raise _broken_list(file, line + text.count("\n", counted, at))
    if text[at + 1 :].strip():
        raise _broken_list(file, line + text.count("\n", counted, at))


def _whole_text(file: File) -> str:
    content = file.stream.read().removeprefix(BOM)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        start = content.rfind(b"\n", 0, error.start) + 1
        line = content.count(b"\n", 0, start) + 1
        fault = not_utf8(content[start:], error.start - start)
        raise UserError(fault.what, f"{file.name}:{line}", fault.todo) from error


def _past_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _broken_list(file: File, line: int) -> UserError:
    todo = "check the commas and brackets here, or write one object on each line (.jsonl)"
    return UserError("the JSON list is broken", f"{file.name}:{line}", todo)


def _field(record: dict[str, Any], name: str) -> str:
    if name not in record:
        raise Fault(f"the field {name!r} is missing", did_you_mean(name, record))
    return _text(record[name], name)


def _text(value: Any, name: str) -> str:
    """The text of a field; a number is written as Python writes it."""
    try:
        if isinstance(value, bytes):  # Parquet files of old writers do not mark their text as text
            return value.decode()
        if isinstance(value, str):
            return value if value.isascii() else value.encode().decode()
    except UnicodeError as error:
        raise Fault(f"the field {name!r} is not valid Unicode", "write it as UTF-8, without lone surrogates") from error
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise Fault(f"the field {name!r} is {_called(value)}, not text", _as_text(value, name))


def _as_text(value: Any, name: str) -> str:
    """How to make text of what is none."""
    if not isinstance(value, list):
        return "write text there"
    path = f".{name}" if name.isidentifier() and name.isascii() else f".[{json.dumps(name)}]"
    return (
        "a list is not read as text: join its items into one text, or keep one of them "
        f"(of JSON lines: `jq -c '{path} |= join(\" \")'` or `jq -c '{path} |= .[0]'`)"
    )


def _called(value: Any) -> str:
    names = {type(None): "null", bool: "true or false", list: "a list", dict: "an object", str: "a text"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else f"of type {type(value).__name__}")


def parquet_rows(file: File, choose: Choose, judge: Judge) -> Rows:
    """The wanted columns, batch by batch."""
    line = 0
    for names, columns in _batches(file, choose):
        for values in zip(*columns):
            line += 1
            try:
                yield line, [_text(value, name) for value, name in zip(values, names)]
            except Fault as fault:
                judge.bad(f"{file.name}:{line}", fault)


def _batches(file: File, choose: Choose) -> Iterator[tuple[list[str], list[list[Any]]]]:
    import pyarrow as pa  # slow to import, and only Parquet needs it
    import pyarrow.parquet as pq

    packed = file.path.lower().endswith(".gz")
    rows = 0
    try:
        with pq.ParquetFile(io.BytesIO(file.stream.read()) if packed else file.path) as table:
            names = choose(list(table.schema_arrow.names))
            for batch in table.iter_batches(BATCH_ROWS, columns=list(dict.fromkeys(names))):
                rows += batch.num_rows
                file.told = rows / table.metadata.num_rows
                yield names, [_values(batch.column(name)) for name in names]
    except (pa.ArrowException, OSError) as error:
        todo = "write the file again; `parquet-tools inspect`, or pyarrow, shows what is in it"
        raise UserError(f"this is not a Parquet file, or a broken one: {error}", file.name, todo) from error


def _values(column: Any) -> list[Any]:
    """A column as Python values; text that is not UTF-8 as bytes, so that only its own row is bad."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        values = column.cast(pa.large_binary()).to_pylist()
    return values
