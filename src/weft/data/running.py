"""Running text: a plain file as one long sequence, in which newlines, tabs and blank lines are data.

A file is read in pieces (`pieces.py`), which are the rows that are surveyed, held out and encoded. Encoded, they are
one sequence again, and training reads windows of it. `carried`: the windows of a batch go on where those of the batch
before ended, so that the state of a recurrent model can be carried over; otherwise they are drawn in random order.
"""

# N tokens of the text · B windows of a batch · W tokens of a window

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from weft.core.pair import START
from weft.data.corpus import Corpus

if TYPE_CHECKING:
    from weft.core.kinds import Batch

FEWEST_WINDOWS = 4  # of a stream, where the text has so many
TOGETHER = 1 << 20  # windows that are put into random order together
Ints = npt.NDArray[np.int64]


class WindowPlan(Protocol):
    """The windows of an epoch, batch by batch. Nothing is kept for each window: a long text has many."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int) -> Ints:
        """Return the windows of a batch, a row (begin, end, goes on) for each."""
        ...


@dataclass(frozen=True)
class Streams:
    """Equally long parts of the text that are read side by side; each window goes on from the one before."""

    firsts: Ints  # (B,) where each stream begins
    length: int
    window: int

    def __len__(self) -> int:
        return -(-self.length // self.window)

    def __getitem__(self, number: int) -> Ints:
        place = range(0, self.length, self.window)[number]
        begins = self.firsts + place
        return _windows(begins, begins + min(self.window, self.length - place), goes_on=place > 0)


@dataclass(frozen=True)
class Shuffled:
    """Windows in random order, none of which goes on from another."""

    order: RandomOrder
    offset: int  # where the first window begins
    tokens: int  # of the text
    window: int
    rows: int  # of a batch

    def __len__(self) -> int:
        return -(-len(self.order) // self.rows)

    def __getitem__(self, number: int) -> Ints:
        first = range(0, len(self.order), self.rows)[number]
        begins = self.offset + self.window * self.order[first : first + self.rows]
        return _windows(begins, np.minimum(begins + self.window, self.tokens), goes_on=False)


class RandomOrder:
    """The numbers below `count` in random order; beyond TOGETHER, so many neighbours in random order at a time."""

    def __init__(self, count: int, random: np.random.Generator) -> None:
        self._count, self._groups = count, np.zeros(1, dtype=np.int64)
        self._known: tuple[int, Ints] = -1, np.zeros(0, dtype=np.int64)
        if count <= TOGETHER:
            self._known = 0, random.permutation(count)
        else:
            whole = count // TOGETHER  # the last group, which is not full, comes last
            self._groups = np.append(random.permutation(whole), range(whole, -(-count // TOGETHER)))
            self._seed = int(random.integers(2**63))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, places: slice) -> Ints:
        wanted = np.arange(*places.indices(self._count))
        parts = [self._group(int(n))[wanted[wanted // TOGETHER == n] % TOGETHER] for n in np.unique(wanted // TOGETHER)]
        return np.concatenate(parts)

    def _group(self, number: int) -> Ints:
        """Return the numbers of a group in their order; that of one group is remembered."""
        if self._known[0] != number:
            group = int(self._groups[number])
            size = min(TOGETHER, self._count - group * TOGETHER)
            random = np.random.default_rng((self._seed, group))
            self._known = number, group * TOGETHER + random.permutation(size)
        return self._known[1]


def _windows(begins: Ints, ends: Ints, goes_on: bool) -> Ints:
    rows: Ints = np.stack([begins, ends, np.full_like(begins, goes_on)], axis=1)
    return rows


class RunningText(Corpus):
    """An encoded text as one sequence, in windows."""

    def __init__(self, folder: Path, window: int, carried: bool) -> None:
        super().__init__(folder)
        self._tokens = self._target.all_ids
        self._window, self._carried = min(window, len(self._tokens)), carried

    @property
    def tokens(self) -> int:
        return len(self._tokens)

    def __len__(self) -> int:
        return -(-self.tokens // self._window)

    @property
    def target_lengths(self) -> npt.NDArray[np.int32]:
        return np.broadcast_to(np.int32(self._window), len(self))  # which takes no memory

    @property
    def source_lengths(self) -> npt.NDArray[np.int32]:
        return np.broadcast_to(np.int32(0), len(self))

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
    ) -> Any:  # a WindowPlan
        """Return the windows of one epoch, a pure function of seed and epoch."""
        random = np.random.default_rng((seed, number))
        rows = max(1, min(batch_tokens // self._window, len(self)))
        if self._carried:
            rows = max(1, min(rows, len(self) // FEWEST_WINDOWS))
            return self._streams(rows, int(random.integers(self._window)))
        return self._shuffled(rows, random)

    def _streams(self, rows: int, offset: int) -> Streams:
        """Cut the text into equally long streams, which are read side by side."""
        offset = offset if self.tokens > FEWEST_WINDOWS * self._window else 0
        length = (self.tokens - offset) // rows
        return Streams(offset + length * np.arange(rows), length, self._window)

    def _shuffled(self, rows: int, random: np.random.Generator) -> Shuffled:
        """Cut the text into windows from a random place on, and put them into random order."""
        offset = int(random.integers(self._window)) if len(self) > FEWEST_WINDOWS else 0
        order = RandomOrder(-(-(self.tokens - offset) // self._window), random)
        return Shuffled(order, offset, self.tokens, self._window, rows)

    def batch(self, rows: Any, augment: Any = None) -> Batch:
        from weft.core.kinds import Batch, Column

        windows = [self._tokens[begin:end].astype(np.int64) for begin, end, _ in rows]
        before = [int(self._tokens[begin - 1]) if goes_on else START for begin, _, goes_on in rows]
        self._target.release()
        wanted = Column.of_labels(windows)
        return Batch.between(Column.of_nothing(len(windows)), wanted).begun_with(before)
