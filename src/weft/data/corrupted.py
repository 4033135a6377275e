"""Encoded texts whose sources are their corruption, drawn anew in each epoch (`data/corrupt.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from weft.core.shapes import Shapes, Symbols
from weft.data.corpus import Augment, Corpus, Ints

if TYPE_CHECKING:
    from weft.core.kinds import Batch


class CorruptedCorpus(Corpus):
    """A corpus that stores targets only; `shapes` are those of batches."""

    def __init__(self, folder: Path, shapes: Shapes) -> None:
        super().__init__(folder)
        self._batch_shapes = shapes

    @property
    def source_lengths(self) -> npt.NDArray[np.int32]:
        """Of texts, with END."""
        stored = self.shapes.target
        ended = isinstance(stored, Symbols) and stored.ended
        return self.target_lengths if ended else self.target_lengths + 1

    def batch(self, rows: Sequence[int] | Ints, augment: Augment | None = None) -> Batch:
        """Return some rows, corrupted by `augment`."""
        from weft.core.batching import batch_of

        assert augment is not None, "these texts are corrupted before they are learned from"
        numbers = [int(row) for row in rows]
        texts = [self._target[row] for row in numbers]
        self._target.release()
        sources = [augment("source", row, text) for row, text in zip(numbers, texts)]
        targets = [augment("target", row, text) for row, text in zip(numbers, texts)]
        return batch_of(sources, targets, None, self._batch_shapes)
