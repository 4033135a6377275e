"""Running text: a plain file as one long sequence, in which newlines, tabs and blank lines are data.

A file is read in pieces (`pieces.py`), which are the rows that are surveyed, held out and encoded. Encoded, they are
one sequence again, and training reads windows of it. `carried`: the windows of a batch go on where those of the batch
before ended, so that the state of a recurrent model can be carried over; otherwise they are drawn in random order.
"""

# N tokens of the text · B windows of a batch · W tokens of a window

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weft.core.pair import START
from weft.data.corpus import Corpus

if TYPE_CHECKING:
    from weft.core.kinds import Batch

FEWEST_WINDOWS = 4  # of a stream, where the text has so many
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WindowPlan:
    """The windows of an epoch: where those of each batch begin and end, and whether they go on from those before."""

    begins: Ints  # (steps, B)
    ends: Ints  # (steps, B)
    carried: bool

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, number: int) -> Ints:
        """Return the windows of a batch, a row (begin, end, goes on) for each."""
        begins, ends = self.begins[number], self.ends[number]
        goes_on = np.full_like(begins, self.carried and number > 0)
        rows: Ints = np.stack([begins, ends, goes_on], axis=1)
        real: Ints = rows[ends > begins]  # the last batch may not be full
        return real


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
        return np.full(len(self), self._window, dtype=np.int32)

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
    ) -> Any:
        """Return the windows of one epoch, a pure function of seed and epoch."""
        random = np.random.default_rng((seed, number))
        rows = max(1, min(batch_tokens // self._window, len(self)))
        if self._carried:
            rows = max(1, min(rows, len(self) // FEWEST_WINDOWS))
            return self._streams(rows, int(random.integers(self._window)))
        return self._shuffled(rows, random)

    def _streams(self, rows: int, offset: int) -> WindowPlan:
        """Cut the text into equally long streams, which are read side by side."""
        offset = offset if self.tokens > FEWEST_WINDOWS * self._window else 0
        length = (self.tokens - offset) // rows
        firsts = offset + length * np.arange(rows)
        begins = np.arange(0, length, self._window)[:, None] + firsts
        return WindowPlan(begins, np.minimum(begins + self._window, firsts + length), carried=True)

    def _shuffled(self, rows: int, random: np.random.Generator) -> WindowPlan:
        """Cut the text into windows from a random place on, and put them into random order."""
        offset = int(random.integers(self._window)) if len(self) > FEWEST_WINDOWS else 0
        begins = random.permutation(np.arange(offset, self.tokens, self._window))
        begins = np.pad(begins, (0, -len(begins) % rows), constant_values=self.tokens).reshape(-1, rows)
        return WindowPlan(begins, np.minimum(begins + self._window, self.tokens), carried=False)

    def batch(self, rows: Any, augment: Any = None) -> Batch:
        from weft.core.kinds import Batch, Column

        windows = [self._tokens[begin:end].astype(np.int64) for begin, end, _ in rows]
        before = [int(self._tokens[begin - 1]) if goes_on else START for begin, _, goes_on in rows]
        self._target.release()
        wanted = Column.of_labels(windows)
        return Batch.between(Column.of_nothing(len(windows)), wanted).begun_with(before)
