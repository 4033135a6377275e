"""Encoded pairs in memory-mapped files: memory grows with the batch, not with the corpus.

A corpus is a folder: the ids or vectors of each side one after the other (`source.ids`, `target.vectors`), where each
row begins (`source.rows`, `target.rows`), and `corpus.json`. It is written aside and renamed, so it is whole or absent.
A pair with several references is as many rows, one after the other; `pairs.rows` says where each pair begins.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
from array import array
from collections.abc import Iterable, Sequence
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
from weft.core.shapes import Shape, Shapes, Symbols, Vectors
from weft.data.batches import EpochPlan, References, Thinning, plan
from weft.data.blocks import Block, blocks_of
from weft.data.sides.side import Side
from weft.data.sides.sides import Sides

if TYPE_CHECKING:
    from weft.core.kinds import Batch

Ints = npt.NDArray[np.int64]
FORMAT = 2
BLOCK = 1 << 18  # row ends looked at together
MANY = 20_000_000  # symbols that are counted
SMALL = 1 << 24  # bytes of a file that is read whole: mapping it again for every batch costs a small model a tenth


class _Mapped:
    """One side: rows of ids, or of vectors, in a memory-mapped file."""

    def __init__(self, folder: Path, role: str, shape: Shape, id_type: str) -> None:
        vectors = isinstance(shape, Vectors)
        self._ids, self._ids_map = _map(_file_of(folder, role, shape), "float32" if vectors else id_type)
        self._rows, self._rows_map = _map(folder / f"{role}.rows", "int64")
        if isinstance(shape, Vectors):
            self._ids = self._ids.reshape(-1, shape.width)
        self._type = np.float32 if vectors else np.int64
        self._end = int(isinstance(shape, Symbols) and shape.ended)
        self.lengths = self._lengths()

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        return self._ids[self._rows[row] : self._rows[row + 1]].astype(self._type)

    def _lengths(self) -> npt.NDArray[np.int32]:
        """Of each row, with END if it has one: that is what it costs in a batch."""
        lengths = np.empty(len(self._rows) - 1, dtype=np.int32)
        for first in range(0, len(lengths), BLOCK):
            lengths[first : first + BLOCK] = np.diff(self._rows[first : first + BLOCK + 1]) + self._end
            self.release()
        return lengths

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
        self._source, self._target = self._columns["source"], self._columns["target"]

    def __len__(self) -> int:
        return len(self._source.lengths)

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
        """Of sources, or of their contexts where these are longer."""
        context = self._columns.get("context")
        return self._source.lengths if context is None else np.maximum(self._source.lengths, context.lengths)

    @property
    def target_lengths(self) -> npt.NDArray[np.int32]:
        return self._target.lengths

    def lengths(self, aligned: bool) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Of sources and targets; `aligned`: a target that CTC cannot lay out over its source exceeds any batch."""
        if not aligned:
            return self.source_lengths, self.target_lengths
        return self.source_lengths, np.where(self.alignable, self.target_lengths, np.iinfo(np.int32).max)

    @cached_property
    def alignable(self) -> npt.NDArray[np.bool_]:
        """Whether each target has a place of the source for every symbol, and for a blank between equal ones."""
        needed = self._target.repeats() + self.target_lengths - 1  # without END
        return needed <= self.source_lengths

    def epoch(
        self, number: int, batch_tokens: int, seed: int, *, aligned: bool = False, repeat_power: float = 1.0
    ) -> EpochPlan:
        """Return the batches of one epoch; `repeat_power` is the setting of that name."""
        thinning = None if repeat_power == 1 else Thinning(self._sources, repeat_power)
        return plan(*self.lengths(aligned), batch_tokens, seed, number, thinning, self._references)

    @cached_property
    def _sources(self) -> npt.NDArray[np.int32]:
        return self._source.numbers()

    def target_counts(self, symbols: int) -> Ints:
        """How often each target symbol is wanted, with END after every row that has one."""
        counts = self._target.counts(symbols)
        if not isinstance(self.shapes.target, Symbols) or not self.shapes.target.ended:
            return counts
        counts[END] += max(1, round(counts.sum() / max(1.0, float(self.target_lengths.mean()) - 1)))
        return counts

    def batch(self, rows: Sequence[int] | Ints) -> Batch:
        from weft.core.batching import batch_of  # torch, which those who only look at data need not wait for

        columns = {role: [side[r] for r in rows] for role, side in self._columns.items()}
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
    files = (path for path in sorted(folder.iterdir()) if path.suffix in (".ids", ".vectors", ".rows"))
    return {path.name: path.stat().st_size for path in files}


def _file_of(folder: Path, role: str, shape: Shape) -> Path:
    return folder / f"{role}.{'vectors' if isinstance(shape, Vectors) else 'ids'}"


def _most_symbols(shapes: Shapes) -> int:
    return max((shape.count for shape in shapes.by_role.values() if isinstance(shape, Symbols)), default=0)


def _written(shape: Shape) -> dict[str, Any]:
    """Return a shape as JSON can hold it."""
    return {"shape": type(shape).__name__, **asdict(shape)}


def _shapes(columns: dict[str, dict[str, Any]]) -> Shapes:
    """Return the shapes that `_written` wrote."""
    kinds: dict[str, type[Symbols] | type[Vectors]] = {"Symbols": Symbols, "Vectors": Vectors}
    shapes = {role: dict(column) for role, column in columns.items()}
    return Shapes(**{role: kinds[column.pop("shape")](**column) for role, column in shapes.items()})


def write_corpus(pairs: Iterable[Pair], source: Side, target: Side, folder: Path) -> Corpus:
    """Encode pairs into `folder` (made whole or not at all) and open it."""
    return write_blocks(blocks_of(pairs), Sides(source, target), folder)


def write_blocks(blocks: Iterable[Block], sides: Sides, folder: Path) -> Corpus:
    """Encode pairs that come in blocks."""
    aside = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        shapes = sides.shapes
        kind = "uint16" if _most_symbols(shapes) < 2**16 else "uint32"
        rows = _write_sides(blocks, sides, aside, kind)
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


def _write_sides(blocks: Iterable[Block], sides: Sides, folder: Path, kind: str) -> int:
    targets_of_pairs = array("i")  # how many each pair has
    with ExitStack() as stack:
        writers = {
            role: stack.enter_context(_Writer(folder, role, shape, kind))
            for role, shape in sides.shapes.by_role.items()
        }
        for block in blocks:
            for role, encoded in sides.flat(block).items():
                writers[role].add(*encoded)
            targets_of_pairs.extend(
                1 + len(block.extras[row].references) if row in block.extras else 1 for row in range(len(block))
            )
    begins = np.concatenate([[0], np.cumsum(targets_of_pairs, dtype=np.int64)])
    if begins[-1] > len(targets_of_pairs):
        (folder / "pairs.rows").write_bytes(begins.tobytes())
    return int(begins[-1])


class _Writer:
    """Appends rows of ids or vectors to one side's two files."""

    def __init__(self, folder: Path, role: str, shape: Shape, kind: str) -> None:
        self._ids: BinaryIO = _file_of(folder, role, shape).open("wb")
        self._rows: BinaryIO = (folder / f"{role}.rows").open("wb")
        self._kind, self._end = "float32" if isinstance(shape, Vectors) else kind, 0
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
        self._ids.write(ids.astype(self._kind).tobytes())
