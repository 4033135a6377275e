"""Batches that are prepared while the one before is learned from, where rows are augmented."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.core.kinds import Batch
from weft.data.corpus import Corpus
from weft.learn.augmentation import Augmentation
from weft.learn.back_translation import BackTranslation

Rows = npt.NDArray[Any]


class BatchesAhead:
    """Returns batches, and begins with the next one in a thread: a batch depends on its epoch and its rows alone.

    Without augmentation there is nothing to wait for, and no thread.
    """

    def __init__(self, corpus: Corpus, augmentation: Augmentation | BackTranslation) -> None:
        self._corpus, self._augmentation = corpus, augmentation
        self._threads: ThreadPoolExecutor | None = None
        self._begun: tuple[int, Rows, Future[Batch]] | None = None

    def take(self, epoch: int, rows: Rows) -> Batch:
        """Return the batch of some rows of an epoch."""
        begun, self._begun = self._begun, None
        if begun is not None:
            batch = begun[2].result()
            if begun[0] == epoch and np.array_equal(begun[1], rows):
                return batch
        return self._make(epoch, rows)()

    def begin(self, epoch: int, rows: Rows) -> None:
        """Begin to prepare what will be taken next."""
        if not self._augmentation.changes or not len(rows):
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._begun = epoch, rows, self._threads.submit(self._make(epoch, rows))

    def forget(self) -> None:
        """Drop what was prepared: the rows have changed."""
        if self._begun is not None:
            self._begun[2].result()
        self._begun = None

    def _make(self, epoch: int, rows: Rows) -> Callable[[], Batch]:
        augment = self._augmentation.of_epoch(epoch)
        return lambda: self._corpus.batch(rows, augment)
