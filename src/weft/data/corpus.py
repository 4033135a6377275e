"""Encoded pairs in memory-mapped files: memory grows with the batch, not with the corpus.

A corpus is a folder: the ids of each side one after the other (`source.ids`, `target.ids`), where each row begins
(`source.rows`, `target.rows`), and `corpus.json`. It is written aside and renamed, so it is whole or absent.
A pair with several references is as many rows, one after the other; `pairs.rows` says where each pair begins.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from weft.core.pair import END, Pair
from weft.data.batches import EpochPlan, References, Thinning, plan
from weft.data.blocks import Block, blocks_of
from weft.data.text.tokens import Tokeniser, encode_block

if TYPE_CHECKING:
    from weft.core.kinds import Batch

Ints = npt.NDArray[np.int64]
FORMAT = 1
BLOCK = 1 << 18  # row ends looked at together
MANY = 20_000_000  # symbols that are counted
SMALL = 1 << 24  # bytes of a file that is read whole: mapping it again for every batch costs a small model a tenth


class _Mapped:
    """One side: rows of ids in a memory-mapped file."""

    def __init__(self, folder: Path, side: str, kind: str) -> None:
        self._ids, self._ids_map = _map(folder / f"{side}.ids", kind)
        self._rows, self._rows_map = _map(folder / f"{side}.rows", "int64")
        self.lengths = self._lengths()

    def __getitem__(self, row: int) -> Ints:
        return self._ids[self._rows[row] : self._rows[row + 1]].astype(np.int64)

    def _lengths(self) -> npt.NDArray[np.int32]:
        """Of each row, END included: that is what it costs in a batch."""
        lengths = np.empty(len(self._rows) - 1, dtype=np.int32)
        for first in range(0, len(lengths), BLOCK):
            lengths[first : first + BLOCK] = np.diff(self._rows[first : first + BLOCK + 1]) + 1
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
        self._source = _Mapped(folder, "source", self.facts["kind"])
        self._target = _Mapped(folder, "target", self.facts["kind"])

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
        return self._source.lengths

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
        """How often each target symbol is wanted, END after every row."""
        counts = self._target.counts(symbols)
        counts[END] += max(1, round(counts.sum() / max(1.0, float(self.target_lengths.mean()) - 1)))
        return counts

    def batch(self, rows: Sequence[int] | Ints) -> Batch:
        from weft.core.kinds import Batch  # torch, which those who only look at data need not wait for

        sources, targets = ([side[r] for r in rows] for side in (self._source, self._target))
        self._source.release()
        self._target.release()
        return Batch.of(sources, targets)


def is_corpus(folder: Path) -> bool:
    """Whether a folder holds a whole corpus of this format."""
    try:
        facts = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
        return bool(facts["format"] == FORMAT and facts["sizes"] == _sizes(folder))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.suffix in (".ids", ".rows")}


def write_corpus(pairs: Iterable[Pair], source: Tokeniser, target: Tokeniser, folder: Path) -> Corpus:
    """Encode pairs into `folder` (made whole or not at all) and open it."""
    return write_blocks(blocks_of(pairs), source, target, folder)


def write_blocks(blocks: Iterable[Block], source: Tokeniser, target: Tokeniser, folder: Path) -> Corpus:
    """Encode pairs that come in blocks."""
    aside = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        kind = "uint16" if max(len(source), len(target)) < 2**16 else "uint32"
        rows = _write_sides(blocks, source, target, aside, kind)
        facts = {"format": FORMAT, "kind": kind, "rows": rows, "sizes": _sizes(aside)}
        (aside / "corpus.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")
        if not is_corpus(folder):  # another run may have made the same meanwhile
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
    except OSError:
        if not is_corpus(folder):
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Corpus(folder)


def _write_sides(blocks: Iterable[Block], source: Tokeniser, target: Tokeniser, folder: Path, kind: str) -> int:
    targets_of_pairs = array("i")  # how many each pair has
    with _Writer(folder, "source", kind) as sources, _Writer(folder, "target", kind) as targets:
        for block in blocks:
            read, written = encode_block(block, source, target)
            sources.add(*read)
            targets.add(*written)
            targets_of_pairs.extend(
                1 + len(block.extras[row].references) if row in block.extras else 1 for row in range(len(block))
            )
    begins = np.concatenate([[0], np.cumsum(targets_of_pairs, dtype=np.int64)])
    if begins[-1] > len(targets_of_pairs):
        (folder / "pairs.rows").write_bytes(begins.tobytes())
    return int(begins[-1])


class _Writer:
    """Appends rows of ids to one side's two files."""

    def __init__(self, folder: Path, side: str, kind: str) -> None:
        self._ids: BinaryIO = (folder / f"{side}.ids").open("wb")
        self._rows: BinaryIO = (folder / f"{side}.rows").open("wb")
        self._kind, self._end = kind, 0
        self._rows.write(np.zeros(1, dtype=np.int64).tobytes())

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *problem: object) -> None:
        for file in (self._ids, self._rows):
            file.flush()
            os.fsync(file.fileno())
            file.close()

    def add(self, ids: npt.NDArray[np.int32], lengths: Ints) -> None:
        ends = self._end + np.cumsum(lengths)
        self._end = int(ends[-1])
        self._rows.write(ends.tobytes())
        self._ids.write(ids.astype(self._kind).tobytes())
