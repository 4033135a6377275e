"""Back-translation: sources in languages that the data never pair with the target, written by the model itself.

Where all pairs contain the same language (the pivot, such as English), a model takes every German source for one that
is to be written in English. So the model translates the English sources of French targets into German once it can, and
then learns to write French from these, too (Sennrich 2016; for directions without data: Gu 2019, Zhang 2020).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from weft.core.pair import Pair
from weft.data.corpus import Augment, Corpus
from weft.data.sides.sides import Sides
from weft.data.text.tokens import Tokeniser
from weft.nn.model import Model
from weft.nn.packed import packed
from weft.search.decode import Searched, SearchPlan, decode
from weft.spec import Spec

ROUNDS = (0.3, 0.6)  # shares of the training after which sources are written, anew each time
USED = 0.5  # how often a row that has such a source is learned from it
TIME = 0.05  # share of a wall-clock budget that a round takes, at most
CHUNK = 1_000  # sources that are written together
MOST_ROWS = 200_000  # that are looked at in a round
WRITTEN, DRAWN = 4, 5  # tell these draws from others of the same seed

Ids = npt.NDArray[np.int64]


class BackTranslation:
    """The sources that were written, by row; a checkpoint holds them."""

    def __init__(
        self, model: Model, corpus: Corpus, spec: Spec, sides: Sides, plan: SearchPlan, device: torch.device
    ) -> None:
        self._model, self._corpus, self._spec, self._sides = model, corpus, spec, sides
        self._plan, self._device = plan, device
        self._written: dict[int, Ids] = {}
        self._rounds = 0
        self._tensors: list[Tensor] = []
        self.active = spec.data.back_translate

    @property
    def changes(self) -> bool:
        """Whether any row is changed."""
        return bool(self._written)

    def of_epoch(self, epoch: int) -> Augment | None:
        """Return what puts written sources in the place of those of the data, in some of their rows."""
        if not self._written:
            return None
        seed, written = self._spec.train.seed, self._written

        def augment(role: str, row: int, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            if role != "source" or row not in written:
                return values
            used = np.random.default_rng((seed, epoch, row, DRAWN)).random() < USED
            return written[row] if used else values

        return augment

    def update(self, share: float, seen: int, seconds: float | None, tick: Callable[[int], None]) -> bool:
        """Write sources by the weights of the model as they are, if a round is due; return whether it was.

        At most as many are looked at as rows were `seen` in the training so far, which may be a short one.
        """
        due = sum(share >= begin for begin in ROUNDS)
        if not self.active or due <= self._rounds:
            return False
        self._rounds = due
        random = np.random.default_rng((self._spec.train.seed, due, WRITTEN))
        rows = random.permutation(len(self._corpus))[: min(seen, MOST_ROWS)]
        tags = np.array([ids[0] for ids in self._corpus.rows("source", rows)])
        names, counts = np.unique(tags, return_counts=True)
        others = names[names != names[counts.argmax()]]
        if len(others) > 1:
            usable = np.isin(tags, others)
            into = np.array([random.choice(others[others != tag]) for tag in tags[usable]])
            self._write(rows[usable], into, seconds, tick)
        self._tensors = self._as_tensors()
        return True

    def _write(self, rows: Ids, into: Ids, seconds: float | None, tick: Callable[[int], None]) -> None:
        """Write sources for as many rows as there is time for."""
        training, began = self._model.training, time.monotonic()
        self._model.eval()
        try:
            with packed(self._model):
                for first in range(0, len(rows), CHUNK):
                    if seconds is not None and time.monotonic() - began > TIME * seconds:
                        break
                    part = slice(first, first + CHUNK)
                    self._written.update(zip(map(int, rows[part]), self._sources(rows[part], into[part], tick)))
        finally:
            self._model.train(training)

    def _sources(self, rows: Ids, into: Ids, tick: Callable[[int], None]) -> list[Ids]:
        source, target = self._sides.source, self._sides.target
        assert isinstance(source, Tokeniser)
        assert isinstance(target, Tokeniser)
        given = self._corpus.rows("source", rows)
        asked = [[int(tag), *map(int, ids[1:])] for tag, ids in zip(into, given)]
        found = decode(cast(Searched, self._model), asked, self._plan, self._device, tick=tick)
        texts = [target.text(hypotheses[0].ids, Pair("")) for hypotheses in found]
        encoded = source.encode_all(texts)
        return [np.array([ids[0], *new], dtype=np.int64) for ids, new in zip(given, encoded)]

    def tensors(self) -> list[Tensor]:
        """Return them for a checkpoint."""
        return self._tensors

    def _as_tensors(self) -> list[Tensor]:
        ids = list(self._written.values())
        rows, lengths = np.array(list(self._written), dtype=np.int64), np.array([len(each) for each in ids], np.int64)
        flat = np.concatenate([np.zeros(0, np.int32), *ids], dtype=np.int32)
        return [torch.tensor([self._rounds]), *map(torch.from_numpy, (rows, lengths, flat))]

    def carry_on(self, tensors: Sequence[Tensor]) -> None:
        """Go on with those that `tensors` returned."""
        if self.active and tensors:
            rounds, rows, lengths, ids = tensors
            self._rounds, self._tensors = int(rounds), list(tensors)
            parts = torch.split(ids.long(), lengths.tolist())
            self._written = {row: part.numpy() for row, part in zip(rows.tolist(), parts)}
