"""Encoded pairs in memory-mapped files: memory grows with the batch, not with the corpus.

A corpus is a folder: the ids, vectors, notes or pixels of each side one after the other (`source.ids`,
`target.vectors`, a bit for each note in `target.notes`, a byte for each number in `source.pixels`), where each row
begins (`source.rows`, `target.rows`), and `corpus.json`. It is written aside and renamed, so it is whole or absent.
A pair with several references is as many rows, one after the other; `pairs.rows` says where each pair begins, and
`tags.rows` which rows share a tag, where there are several tags.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from weft.core import manifest
from weft.core.files import sync_folder, write_whole
from weft.core.pair import END, Pair
from weft.core.shapes import Frames, Notes, Nothing, Picture, Places, Shape, Shapes, Symbols, Vectors
from weft.data.batches import EpochPlan, Mixing, References, Thinning, plan
from weft.data.blocks import Block, blocks_of, unswapped
from weft.data.sides.side import Side
from weft.data.sides.sides import Sides

if TYPE_CHECKING:
    from weft.core.kinds import Batch

Ints = npt.NDArray[np.int64]
Augment = Callable[[str, int, npt.NDArray[Any]], npt.NDArray[Any]]
FORMAT = 3
BLOCK = 1 << 18  # row ends looked at together
MANY = 20_000_000  # symbols that are counted
SMALL = 1 << 24  # bytes of a file that is read whole: mapping it again for every batch costs a small model a tenth


NUMBER_TYPES: dict[type, str] = {
    Vectors: "float32",
    Frames: "float32",
    Notes: "uint8",
    Picture: "uint8",
}  # by shape; of ids, by how many there are
SUFFIXES: dict[type, str] = {
    Places: "ids",
    Symbols: "ids",
    Vectors: "vectors",
    Frames: "vectors",
    Notes: "notes",
    Picture: "pixels",
}


def _values_of(shape: Vectors | Notes | Picture) -> int:
    """Return how many numbers a step takes in its file; of notes, bytes with a bit for each note."""
    if isinstance(shape, Picture):
        return shape.column
    return shape.width if isinstance(shape, Vectors) else -(-shape.width // 8)


class _Mapped:
    """One side: rows of ids, or of vectors, in a memory-mapped file."""

    def __init__(self, folder: Path, role: str, shape: Shape, id_type: str) -> None:
        self._ids, self._ids_map = _map(_file_of(folder, role, shape), NUMBER_TYPES.get(type(shape), id_type))
        self._rows, self._rows_map = _map(folder / f"{role}.rows", "int64")
        if isinstance(shape, Vectors | Notes | Picture):
            self._ids = self._ids.reshape(-1, _values_of(shape))
        self._notes = shape.width if isinstance(shape, Notes) else 0
        self._type = NUMBER_TYPES.get(type(shape), "int64")
        self._end = int(isinstance(shape, Symbols) and shape.ended)
        self.lengths = self._lengths()

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        part = self._ids[self._rows[row] : self._rows[row + 1]]
        return np.unpackbits(part, axis=1, count=self._notes) if self._notes else part.astype(self._type)

    def _lengths(self) -> npt.NDArray[np.int32]:
        """Of each row, with END if it has one: that is what it costs in a batch."""
        lengths = np.empty(len(self._rows) - 1, dtype=np.int32)
        for first in range(0, len(lengths), BLOCK):
            lengths[first : first + BLOCK] = np.diff(self._rows[first : first + BLOCK + 1]) + self._end
            self.release()
        return lengths

    @property
    def all_ids(self) -> npt.NDArray[Any]:
        """The ids of all rows, one after the other."""
        return self._ids

    def counts(self, symbols: int) -> Ints:
        """How often each symbol occurs, in the first MANY of them."""
        counts = np.bincount(self._ids[:MANY], minlength=symbols)
        self.release()
        return counts.astype(np.int64)

    def repeats(self) -> npt.NDArray[np.int32]:
        """How often a symbol stands after itself in each row."""
        counts = np.zeros(len(self.lengths), dtype=np.int32)
        for first in range(0, len(counts), BLOCK):
            ends = self._rows[first : first + BLOCK + 1].astype(np.int64)
            ids = self._ids[ends[0] : ends[-1]]
            same = np.concatenate([[0], np.cumsum(ids[1:] == ids[:-1])])  # how many up to each place
            begins, lasts = ends[:-1] - ends[0], ends[1:] - ends[0] - 1
            inside = same[lasts] - same[np.minimum(begins, len(same) - 1)]
            counts[first : first + BLOCK] = np.where(lasts >= begins, inside, 0)
            self.release()
        return counts

    def numbers(self) -> npt.NDArray[np.int32]:
        """A number for each row, the same for the same ids."""
        sums = np.empty(len(self.lengths), dtype=np.uint64)
        for row in range(len(sums)):
            sums[row] = int.from_bytes(blake2b(self[row].tobytes(), digest_size=8).digest())
            if row % BLOCK == 0:
                self.release()
        return np.unique(sums, return_inverse=True)[1].astype(np.int32)

    def release(self) -> None:
        """Give the pages that were read back: each row read maps 64 KB around it. They come again when needed."""
        for mapped in (self._ids_map, self._rows_map):
            if mapped is not None:
                mapped.madvise(mmap.MADV_DONTNEED)


def _map(path: Path, kind: str) -> tuple[npt.NDArray[Any], mmap.mmap | None]:
    if path.stat().st_size <= SMALL:
        return np.fromfile(path, dtype=kind), None
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, dtype=kind), mapped


class Corpus:
    """Encoded pairs on disk, read row by row."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
        self.shapes = _shapes(self.facts["columns"])
        self._columns = {
            role: _Mapped(folder, role, shape, self.facts["kind"]) for role, shape in self.shapes.by_role.items()
        }
        self._target = self._columns["target"]

    def __len__(self) -> int:
        return len(self._target.lengths)

    @property
    def pairs(self) -> int:
        """Return how many pairs the rows belong to."""
        return len(self) if self._references is None else int(self._references.pairs[-1]) + 1

    @cached_property
    def _references(self) -> References | None:
        path = self.folder / "pairs.rows"
        if not path.exists():
            return None
        begins = np.fromfile(path, dtype=np.int64)
        return References(np.repeat(np.arange(len(begins) - 1, dtype=np.int32), np.diff(begins)))

    @property
    def source_lengths(self) -> npt.NDArray[np.int32]:
        """Of sources, or of their contexts where these are longer; 0 where there is no source."""
        lengths = [self._columns[role].lengths for role in ("source", "context") if role in self._columns]
        return np.maximum.reduce(lengths) if lengths else np.zeros(len(self), dtype=np.int32)

    @property
    def target_lengths(self) -> npt.NDArray[np.int32]:
        return self._target.lengths

    def lengths(self, aligned: bool, factor: int = 1) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Of sources and targets; `aligned`: a target that CTC cannot lay out over its source exceeds any batch.

        So does a span that does not stand in its source.
        """
        if isinstance(self.shapes.target, Places):
            return self.source_lengths, np.where(self.target_lengths > 0, 1, np.iinfo(np.int32).max)
        if not aligned:
            return self.source_lengths, self.target_lengths
        return self.source_lengths, np.where(self.alignable(factor), self.target_lengths, np.iinfo(np.int32).max)

    def alignable(self, factor: int = 1) -> npt.NDArray[np.bool_]:
        """Whether each target has a place of the source for every symbol, and for a blank between equal ones.

        `factor` positions of the source are one place.
        """
        return self._needed <= -(-self.source_lengths // factor)

    @cached_property
    def _needed(self) -> npt.NDArray[np.int32]:
        """How many places each target needs."""
        return self._target.repeats() + self.target_lengths - 1  # without END

    def epoch(
        self,
        number: int,
        batch_tokens: int,
        seed: int,
        *,
        aligned: bool = False,
        factor: int = 1,
        repeat_power: float = 1.0,
        tag_temperature: float = 1.0,
    ) -> EpochPlan:
        """Return the batches of one epoch; `repeat_power` and `tag_temperature` are the settings of these names."""
        thinning = None if repeat_power == 1 else Thinning(self._sources, repeat_power)
        tags = None if tag_temperature == 1 else self._tags
        mixing = None if tags is None else Mixing(tags, tag_temperature)
        return plan(*self.lengths(aligned, factor), batch_tokens, seed, number, thinning, self._references, mixing)

    @cached_property
    def _tags(self) -> npt.NDArray[np.int32] | None:
        """Return a number for each row, the same for the same tag; None where there is only one tag."""
        path = self.folder / "tags.rows"
        return np.fromfile(path, dtype=np.int32) if path.exists() else None

    @cached_property
    def _sources(self) -> npt.NDArray[np.int32]:
        return self._columns.get("source", self._target).numbers()

    @cached_property
    def target_numbers(self) -> npt.NDArray[np.int32]:
        """Return a number for each row, the same for the same target."""
        return self._target.numbers()

    def rows(self, role: str, numbers: Iterable[int]) -> list[npt.NDArray[Any]]:
        """Return the values of a column in some rows."""
        side = self._columns[role]
        values = [side[int(row)] for row in numbers]
        side.release()
        return values

    def target_counts(self, symbols: int) -> Ints:
        """How often each target symbol is wanted, with END after every row that has one."""
        counts = self._target.counts(symbols)
        if not isinstance(self.shapes.target, Symbols) or not self.shapes.target.ended:
            return counts
        counts[END] += max(1, round(counts.sum() / max(1.0, float(self.target_lengths.mean()) - 1)))
        return counts

    def batch(self, rows: Sequence[int] | Ints, augment: Augment | None = None) -> Batch:
        """Return some rows, changed by `augment`, which is given the role, the row's number and its values."""
        from weft.core.batching import batch_of  # torch, which those who only look at data need not wait for

        columns: dict[str, list[npt.NDArray[Any]]] = {"source": [np.zeros(0)] * len(rows)}
        columns |= {role: [side[r] for r in rows] for role, side in self._columns.items()}
        if augment is not None:
            columns = {
                role: [augment(role, int(r), v) for r, v in zip(rows, values)] for role, values in columns.items()
            }
        for side in self._columns.values():
            side.release()
        return batch_of(columns["source"], columns["target"], columns.get("context"), self.shapes)


def is_corpus(folder: Path) -> bool:
    """Whether a folder holds a whole corpus of this format."""
    try:
        facts = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
        return bool(
            facts["format"] == FORMAT and facts["sizes"] == _sizes(folder) and (folder / manifest.NAME).exists()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _sizes(folder: Path) -> dict[str, int]:
    files = (path for path in sorted(folder.iterdir()) if path.suffix[1:] in (*SUFFIXES.values(), "rows"))
    return {path.name: path.stat().st_size for path in files}


def _file_of(folder: Path, role: str, shape: Shape) -> Path:
    return folder / f"{role}.{SUFFIXES[type(shape)]}"


def _most_symbols(shapes: Shapes) -> int:
    return max((shape.count for shape in shapes.by_role.values() if isinstance(shape, Symbols)), default=0)


def _written(shape: Shape) -> dict[str, Any]:
    """Return a shape as JSON can hold it."""
    return {"shape": type(shape).__name__, **asdict(shape)}


def _shapes(columns: dict[str, dict[str, Any]]) -> Shapes:
    """Return the shapes that `_written` wrote."""
    known_shapes = (Symbols, Vectors, Frames, Notes, Picture, Places)
    kinds: dict[str, Callable[..., Shape]] = {each.__name__: each for each in known_shapes}
    shapes = {role: dict(column) for role, column in columns.items()}
    known = {role: kinds[column.pop("shape")](**column) for role, column in shapes.items()}
    return Shapes(known.get("source", Nothing()), known["target"], known.get("context"))


def write_corpus(pairs: Iterable[Pair], source: Side, target: Side, folder: Path) -> Corpus:
    """Encode pairs into `folder` (made whole or not at all) and open it."""
    return write_blocks(blocks_of(pairs), Sides(source, target), folder)


def write_blocks(blocks: Iterable[Block], sides: Sides, folder: Path, swapped: bool = False) -> Corpus:
    """Encode pairs that come in blocks; `swapped`: every second row is the one before it, the other way round."""
    aside = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        shapes = sides.stored
        kind = "uint16" if _most_symbols(shapes) < 2**16 else "uint32"
        rows = _write_sides(blocks, sides, aside, kind, swapped)
        columns, sizes = {role: _written(shape) for role, shape in shapes.by_role.items()}, _sizes(aside)
        facts = {"format": FORMAT, "kind": kind, "rows": rows, "sizes": sizes, "columns": columns}
        write_whole(aside, "corpus.json", json.dumps(facts) + "\n")
        manifest.seal(aside, ["corpus.json", *sizes])
        if not is_corpus(folder):  # another run may have made the same meanwhile
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
            sync_folder(folder.parent)
    except OSError:
        if not is_corpus(folder):
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Corpus(folder)


def _write_sides(blocks: Iterable[Block], sides: Sides, folder: Path, kind: str, swapped: bool) -> int:
    targets_of_pairs = array("i")  # how many each pair has
    tags = _TagWriter(swapped)
    with ExitStack() as stack:
        writers = {
            role: stack.enter_context(_Writer(folder, role, shape, kind))
            for role, shape in sides.stored.by_role.items()
        }
        for block in blocks:
            for part in sides.parts(block):
                for role, encoded in sides.flat(part).items():
                    writers[role].add(*encoded)
            counts = [1 + len(block.extras[row].references) if row in block.extras else 1 for row in range(len(block))]
            targets_of_pairs.extend(counts)
            tags.add(block, counts)
    tags.write(folder)
    begins = np.concatenate([[0], np.cumsum(targets_of_pairs, dtype=np.int64)])
    if begins[-1] > len(targets_of_pairs):
        (folder / "pairs.rows").write_bytes(begins.tobytes())
    return int(begins[-1])


class _TagWriter:
    """Collects which rows share a tag; of pairs that are learned both ways, both have that of the first way."""

    def __init__(self, swapped: bool) -> None:
        self._swapped, self._numbers, self._rows = swapped, dict[str, int](), array("i")

    def add(self, block: Block, rows_of_pairs: Sequence[int]) -> None:
        if not block.extras:
            self._rows.extend([self._numbers.setdefault("", len(self._numbers))] * len(block))
            return
        block = unswapped(block) if self._swapped else block
        tags = [block.extras[row].tag if row in block.extras else "" for row in range(len(block))]
        numbers = [self._numbers.setdefault(tag, len(self._numbers)) for tag in tags]
        for number, count in zip(numbers, rows_of_pairs):
            self._rows.extend([number] * count)

    def write(self, folder: Path) -> None:
        if len(self._numbers) > 1:
            (folder / "tags.rows").write_bytes(np.asarray(self._rows, dtype=np.int32).tobytes())


class _Writer:
    """Appends rows of ids or vectors to one side's two files."""

    def __init__(self, folder: Path, role: str, shape: Shape, kind: str) -> None:
        self._ids: BinaryIO = _file_of(folder, role, shape).open("wb")
        self._rows: BinaryIO = (folder / f"{role}.rows").open("wb")
        self._kind, self._end, self._packed = NUMBER_TYPES.get(type(shape), kind), 0, isinstance(shape, Notes)
        self._rows.write(np.zeros(1, dtype=np.int64).tobytes())

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *problem: object) -> None:
        for file in (self._ids, self._rows):
            file.flush()
            os.fsync(file.fileno())
            file.close()

    def add(self, ids: npt.NDArray[Any], lengths: Ints) -> None:
        ends = self._end + np.cumsum(lengths)
        self._end = int(ends[-1])
        self._rows.write(ends.tobytes())
        self._ids.write((np.packbits(ids, axis=1) if self._packed else ids.astype(self._kind)).tobytes())
