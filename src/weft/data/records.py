"""Formats that name their fields: JSON lines, JSON lists and Parquet → rows of the wanted fields as text.

A field inside an object is named with dots (`translation.en`). A list of texts in the target field is several
references: the first is the cell, and the others follow after all cells. A list of numbers, or of lists of them (notes
are such lists, too), becomes its JSON text (a `NumbersText`). Any other list is a bad row.

A reader is given `choose`, which turns the fields it finds into the wanted ones, in the order of the cells it yields.

Limits: a .json list and a .parquet.gz are read into memory; the "line" of a Parquet row is its number.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.core.errors import UserError, did_you_mean
from weft.data import squad
from weft.data.files import BOM, File, raw_lines
from weft.data.formats import BadRowPolicy, Cells, Fault, Rows, decoded, kind_of, not_utf8

BATCH_ROWS = 10_000
Records = Iterator[tuple[int, dict[str, Any] | None]]


@dataclass(frozen=True)
class Fields:
    """The fields of a file: those at the top, and all names that have a value, with whether it is text."""

    top: Sequence[str]
    leaves: Mapping[str, bool]  # `translation.en`: True


Choose = Callable[[Fields], list[str]]


def json_rows(file: File, choose: Choose, target: int | None, policy: BadRowPolicy) -> Rows:
    """Yield the fields of one object a line, or of one list of objects; the first object decides which.

    `target` is the place of the target among the wanted fields, which may have several references.
    """
    is_list = kind_of(file.path) == "json" and file.start().lstrip()[:1] == b"["
    records: Records = (_listed if is_list else _lined)(file, policy)
    if kind_of(file.path) == "json" and squad.is_squad(file.start()):
        records = squad.records(_whole_text(file), file.name, policy.spans, policy.report.note)
    wanted: list[str] = []
    for line, record in records:
        if record is None:
            yield line, []
            continue
        if not wanted:
            wanted = choose(Fields(list(record), {name: _is_text(value) for name, value in _leaves(record)}))
        try:
            values = [_field(record, name) for name in wanted]
            if policy.spans and target is not None and values[target] == []:
                values[target] = ""  # no answer
            yield line, _cells(values, wanted, target)
        except Fault as fault:
            policy.bad(f"{file.name}:{line}", fault)


def _cells(values: Sequence[Any], names: Sequence[str], target: int | None) -> Cells:
    """Return the text of each field, and after them the further references of a target that is a list."""
    if target is None or not isinstance(values[target], list) or is_numbers(values[target]):
        return [_text(value, name) for value, name in zip(values, names)]
    first, *others = _references(values[target], names[target])
    return [*_cells([*values[:target], first, *values[target + 1 :]], names, None), *others]


def _empty_list(name: str) -> Fault:
    return Fault(f"the field {name!r} is an empty list", "write at least one text, number or step in it")


def _references(values: list[Any], name: str) -> list[str]:
    """Return the texts of a list, each one a right output."""
    if not values:
        raise _empty_list(name)
    if all(isinstance(value, list) for value in values):
        todo = "write numbers, or MIDI numbers for notes ([[60, 64, 67], [], [62]]); middle C is 60"
        raise Fault(f"the field {name!r} is a list of lists, but not of numbers or notes", todo)
    if not all(isinstance(value, str) for value in values):
        raise Fault(f"the field {name!r} is a list, but not of texts", _as_text(values, name))
    return [_text(value, name) for value in values]


def _leaves(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object, and of the objects in it, by their dotted names."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def _lined(file: File, policy: BadRowPolicy) -> Records:
    for line, raw in enumerate(raw_lines(file.stream), 1):
        try:
            text = decoded(raw)
            yield line, _object(_parsed(text)) if text.strip() else None
        except Fault as fault:
            policy.bad(f"{file.name}:{line}", fault)


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


def _listed(file: File, policy: BadRowPolicy) -> Records:
    """Yield the objects of one JSON list, with the lines they begin on; broken JSON has no next line to go on from."""
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
            policy.bad(f"{file.name}:{line}", fault)
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
    return UserError("the JSON list is not valid here", f"{file.name}:{line}", todo)


def _field(record: dict[str, Any], name: str) -> Any:
    """Return the value of a field; dots lead into objects, where no field has the very name."""
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            fields = [name for name, _ in _leaves(record)]
            hint = did_you_mean(name, fields)
            known = f"add the field {name!r} to this row (it has: {', '.join(fields)})"
            raise Fault(f"the field {name!r} is missing", hint if hint.startswith("did you mean") else known)
        value = value[part]
    return value


def _text(value: Any, name: str) -> str:
    """Return the text of a field; a number is written as Python writes it."""
    try:
        if isinstance(value, bytes):  # Parquet files of old writers do not mark their text as text
            return value.decode()
        if isinstance(value, str):
            return value if value.isascii() else value.encode().decode()
    except UnicodeError as error:
        raise Fault(f"the field {name!r} is not valid Unicode", "write it as UTF-8, without lone surrogates") from error
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if is_numbers(value):
        return NumbersText(json.dumps(value))
    if value == []:
        raise _empty_list(name)
    raise Fault(f"the field {name!r} is {_called(value)}, not text", _as_text(value, name))


class NumbersText(str):
    """The JSON text of a list of numbers, or of lists of them, which a column of numbers holds."""

    __slots__ = ()


def is_numbers(value: Any) -> bool:
    """Return whether a value is a list that begins with a number, a missing one, or a list of them.

    Empty lists, which are rests among notes, may come before it.
    """
    if not isinstance(value, list) or not value:
        return False
    first = next((item for item in value if item != []), [None])
    first = first[0] if isinstance(first, list) else first
    return first is None or (isinstance(first, int | float) and not isinstance(first, bool))


def _as_text(value: Any, name: str) -> str:
    """Return how to make text of what is none."""
    if isinstance(value, dict):
        inside = ", ".join(f"{name}.{key}" for key, _ in _leaves(value)) or "nothing"
        return f"choose a field inside it: {inside}"
    if not isinstance(value, list):
        return "write text there"
    path = f".{name}" if name.isidentifier() and name.isascii() else f".[{json.dumps(name)}]"
    return (
        "only a target can be a list, and only of texts: join its items into one text, or keep one of them "
        f"(of JSON lines: `jq -c '{path} |= join(\" \")'` or `jq -c '{path} |= .[0]'`)"
    )


def _called(value: Any) -> str:
    names = {type(None): "null", bool: "true or false", list: "a list", dict: "an object", str: "a text"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else f"of type {type(value).__name__}")


def parquet_rows(file: File, choose: Choose, target: int | None, policy: BadRowPolicy) -> Rows:
    """Yield the wanted columns, batch by batch."""
    line = 0
    for names, columns in _batches(file, choose):
        for values in zip(*columns):
            line += 1
            try:
                yield line, _cells(values, names, target)
            except Fault as fault:
                policy.bad(f"{file.name}:{line}", fault)


def _batches(file: File, choose: Choose) -> Iterator[tuple[list[str], list[list[Any]]]]:
    import pyarrow as pa  # slow to import, and only Parquet needs it
    import pyarrow.parquet as pq

    packed = file.path.lower().endswith(".gz")
    rows = 0
    try:
        with pq.ParquetFile(io.BytesIO(file.stream.read()) if packed else file.path) as table:
            schema = table.schema_arrow
            names = choose(Fields(list(schema.names), dict(_schema_leaves(schema))))
            for batch in table.iter_batches(BATCH_ROWS, columns=list(dict.fromkeys(names))):
                rows += batch.num_rows
                file.read_share = rows / table.metadata.num_rows
                yield names, [_values(batch, name) for name in names]
    except (pa.ArrowException, OSError) as error:
        todo = "write the file again; `parquet-tools inspect` or pyarrow shows what is in it"
        raise UserError(f"this is not a Parquet file, or it is damaged: {error}", file.name, todo) from error


def _schema_leaves(fields: Any, before: str = "") -> Iterator[tuple[str, bool]]:
    """Yield the columns of a schema, and of the structs in it, by their dotted names, with whether they hold text."""
    import pyarrow as pa

    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _schema_leaves(field.type, f"{before}{field.name}.")
        else:
            yield f"{before}{field.name}", _holds_text(field.type)


def _holds_text(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_dictionary(kind):
        return _holds_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind))


def _values(batch: Any, name: str) -> list[Any]:
    """Return a column as Python values; text that is not UTF-8 as bytes, so that only its own row is bad."""
    import pyarrow as pa
    import pyarrow.compute as pc

    top, *inside = [name] if name in batch.schema.names else name.split(".")
    column = pc.struct_field(batch.column(top), inside) if inside else batch.column(top)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        values = column.cast(pa.large_binary()).to_pylist()
    return values
