"""Tensors of the Open Inference Protocol: as JSON, or as bytes after the JSON."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from weft.serve.errors import Problem, invalid

DTYPES = {
    "BOOL": "?", "UINT8": "<u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "<i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
MOST_VALUES = 10_000_000


class Tensor(BaseModel):
    """A named tensor."""

    model_config = ConfigDict(extra="ignore")
    name: str
    shape: Annotated[list[Annotated[int, Field(ge=0, le=MOST_VALUES)]], Field(max_length=8)]
    datatype: str
    parameters: dict[str, Any] = {}
    data: list[Any] | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def attach(tensors: Sequence[Tensor], binary: bytes) -> None:
    """Give the tensors whose data are binary their share of the bytes, in order; Problem 400 if they do not fit."""
    position = 0
    for tensor in tensors:
        size = tensor.parameters.get("binary_data_size")
        if size is None:
            continue
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(binary) - position:
            raise _misfit(tensor)
        tensor.data = _from_binary(tensor, binary[position : position + size])
        position += size
    if position != len(binary):
        raise Problem(400, "there are bytes that belong to no tensor", "the body", "correct binary_data_size")


def _misfit(tensor: Tensor) -> Problem:
    what = f"the size of the tensor '{tensor.name[:40]}' does not match its shape"
    return Problem(400, what, "binary_data_size", "send as many bytes as the tensor has")


def _from_binary(tensor: Tensor, content: bytes) -> list[Any]:
    if tensor.datatype == "BYTES":
        return _texts(tensor, content)
    dtype = DTYPES.get(tensor.datatype)
    if dtype is None or len(content) != np.dtype(dtype).itemsize * tensor.size:
        raise _misfit(tensor)
    values: list[Any] = np.frombuffer(content, dtype).tolist()
    return values


def _texts(tensor: Tensor, content: bytes) -> list[str]:
    """Return texts that follow their lengths in four bytes each."""
    texts, position = [], 0
    while position < len(content):
        if position + 4 > len(content):
            raise _misfit(tensor)
        (length,) = struct.unpack_from("<I", content, position)
        piece = content[position + 4 : position + 4 + length]
        if len(piece) != length:
            raise _misfit(tensor)
        try:
            texts.append(piece.decode("utf-8"))
        except UnicodeDecodeError:
            raise Problem(400, f"the tensor '{tensor.name[:40]}' is not UTF-8", "the body", "send UTF-8") from None
        position += 4 + length
    return texts


def cells(tensor: Tensor) -> list[Any]:
    """Return a cell for each row of a tensor: a text, or for a tensor of numbers a list of numbers."""
    flat = _flat(tensor.data or [])
    if len(flat) != tensor.size or not tensor.shape:
        what = f"the tensor '{tensor.name[:40]}' has {len(flat):,} values, but its shape has {tensor.size:,}"
        raise invalid(what, "inputs", "correct its shape or its data")
    if tensor.datatype == "BYTES":
        if not all(isinstance(value, str) for value in flat):
            raise invalid(f"the tensor '{tensor.name[:40]}' holds values that are no texts", "inputs", "give texts")
        return flat
    if tensor.datatype not in DTYPES:
        known = ", ".join(["BYTES", *DTYPES])
        raise invalid(f"the datatype '{tensor.datatype[:20]}' is not supported", "inputs", f"choose from: {known}")
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in flat):
        raise invalid(f"the tensor '{tensor.name[:40]}' holds values that are not numbers", "inputs", "give numbers")
    rows: list[Any] = np.array(flat, dtype=np.float64).reshape(tensor.shape).tolist()
    return rows


def _flat(data: Sequence[Any]) -> list[Any]:
    """Return the values of nested lists, which have eight levels at most."""
    for _ in range(8):
        if not any(isinstance(value, list) for value in data):
            break
        data = [inner for value in data for inner in (value if isinstance(value, list) else [value])]
    return list(data)


def to_binary(tensor: Tensor) -> bytes:
    """Return the data as Triton's clients read them; a number that is missing is NaN."""
    data = tensor.data or []
    if tensor.datatype == "BYTES":
        encoded = [str(text).encode("utf-8") for text in data]
        return b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    values = [math.nan if value is None else value for value in data]
    return np.array(values, dtype=DTYPES[tensor.datatype]).tobytes()
