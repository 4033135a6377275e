"""The spool: pairs on disk as they were read, so that no later pass has to parse the files again.

One file of blocks, each with a header, the shuffle keys of its rows (`survey.shuffle_keys`), the lengths of
their texts in characters, the texts (sources, then targets) as UTF-8, and as JSON what only some rows have.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from weft.data.blocks import Block, Extras

_HEADER = struct.Struct("<III")  # rows, bytes of the texts, bytes of the extras
Keys = npt.NDArray[np.uint32]


def write_block(file: BinaryIO, block: Block, keys: Sequence[int]) -> None:
    """Append a block."""
    texts = "".join(chain(block.sources, block.targets)).encode()
    extras = json.dumps(list(block.extras.items()), ensure_ascii=False).encode() if block.extras else b""
    lengths = np.fromiter(map(len, chain(block.sources, block.targets)), dtype=np.uint32, count=2 * len(block))
    file.write(_HEADER.pack(len(block), len(texts), len(extras)))
    file.write(np.asarray(keys, dtype=np.uint32).tobytes())
    file.write(lengths.tobytes())
    file.write(texts)
    file.write(extras)


def read_blocks(path: Path) -> Iterator[tuple[Block, Keys, float]]:
    """Yield the blocks with the shuffle keys of their rows, and the share of the file that has been read."""
    size = path.stat().st_size
    with path.open("rb", buffering=1 << 20) as file:
        while header := file.read(_HEADER.size):
            rows, text_bytes, extra_bytes = _HEADER.unpack(header)
            keys = np.frombuffer(file.read(4 * rows), dtype=np.uint32)
            lengths = np.frombuffer(file.read(8 * rows), dtype=np.uint32)
            texts = _cut(file.read(text_bytes).decode(), lengths)
            extras = _extras(file.read(extra_bytes)) if extra_bytes else {}
            yield Block(texts[:rows], texts[rows:], extras), keys, file.tell() / size


def _cut(text: str, lengths: npt.NDArray[np.uint32]) -> list[str]:
    return [text[begin:end] for begin, end in pairwise(accumulate(lengths.tolist(), initial=0))]


def _extras(content: bytes) -> dict[int, Extras]:
    return {
        row: Extras(tag, tuple(features), tuple(references), context)
        for row, (tag, features, references, context) in json.loads(content)
    }
