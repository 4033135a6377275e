"""Vectors of many rows, how sources rank targets by them, and which wrong targets a model takes for right."""

# N sources · M targets · D width · H hard negatives of a row

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import normalize

from weft.core.batching import column_of
from weft.core.kinds import Batch, Column
from weft.core.pair import Pair
from weft.core.shapes import Shape, Shapes
from weft.data.corpus import Corpus
from weft.data.sides.side import Encoded, Rows
from weft.data.sides.sides import Sides
from weft.nn.model import Model, Tower, Towers
from weft.score.retrieval import Ranking
from weft.search.once import Inputs, text_groups

Vectors = npt.NDArray[np.float32]
TOGETHER = 256  # rows that are read together
BLOCK = 1024  # sources that are compared with all targets at a time
MOST_CANDIDATES = 20_000  # different targets that hard negatives are taken from


@torch.inference_mode()
def vectors_of(
    models: Sequence[Towers], rows: Sequence[Rows], role: str, shape: Shape, device: torch.device
) -> Vectors:
    """Return vectors of length 1 (N, D); of several models side by side, so that similarities are means."""
    each = [_by_one(model.tower(role), part, shape, device) for model, part in zip(models, rows)]
    return np.concatenate(each, axis=1) * np.float32(len(models) ** -0.5)


def _by_one(tower: Tower, rows: Rows, shape: Shape, device: torch.device) -> Vectors:
    parts = _alike(rows, shape, device) if tower.alike else _grouped(rows, shape, device)
    vectors: Vectors | None = None
    for numbers, column in parts:
        encoded = normalize(tower(column).float(), dim=-1)[: len(numbers)].cpu().numpy()
        vectors = np.zeros((len(rows), encoded.shape[1]), np.float32) if vectors is None else vectors
        vectors[numbers] = encoded
    assert vectors is not None, "there are rows"
    return vectors


def _alike(rows: Rows, shape: Shape, device: torch.device) -> Iterator[tuple[npt.NDArray[np.int64], Column]]:
    """Yield rows of like length, for towers whose vectors do not depend on the batch."""
    order = np.argsort([len(row) for row in rows], kind="stable")
    for first in range(0, len(rows), TOGETHER):
        numbers = order[first : first + TOGETHER]
        yield numbers, column_of([rows[n] for n in numbers], shape).to(device)


def _grouped(rows: Rows, shape: Shape, device: torch.device) -> Iterator[tuple[list[int], Column]]:
    """Yield rows of equal length in groups of fixed size, so that a vector never depends on the other rows."""
    for numbers, columns in text_groups([Inputs(rows, None)], Shapes(shape, shape), device):
        yield numbers, columns[0][0]


def ranking_of(scores: Vectors, relevant: Sequence[int], gains: Sequence[float]) -> Ranking:
    """Return where the relevant targets stand by scores (M,); of equal scores, the earlier target is first."""
    ranks = []
    for target in relevant:
        ahead = scores > scores[target]
        ranks.append(1 + int(ahead.sum()) + int((scores[:target] == scores[target]).sum()))
    return Ranking(tuple(ranks), tuple(gains))


def evaluate_pairs(
    models: Sequence[Towers], rows: Sequence[Encoded], pairs: Sequence[Pair], sides: Sequence[Sides],
    device: torch.device, tick: Callable[[int], None] | None = None,
) -> tuple[list[Ranking], float]:  # fmt: skip
    """Rank the different targets of the pairs for each source; also return the mean −log p of the right ones.

    Of each model there are the encoded `rows` and the `sides`.
    """
    numbers: dict[str, int] = {}
    relevant = [[numbers.setdefault(text, len(numbers)) for text in pair.targets] for pair in pairs]
    targets = [_targets(each, numbers, pairs) for each in sides]
    shapes = sides[0].shapes
    of_targets = vectors_of(models, targets, "target", shapes.target, device)
    of_sources = vectors_of(models, [each.source for each in rows], "source", shapes.source, device)
    scale = float(np.mean([float(model.head.scale().detach()) for model in models]))
    rankings: list[Ranking] = []
    nats = 0.0
    for first in range(0, len(pairs), BLOCK):
        scores = of_sources[first : first + BLOCK] @ of_targets.T  # (N, M)
        for row, line in enumerate(scores, first):
            rankings.append(ranking_of(line, relevant[row], [1.0] * len(relevant[row])))
            nats += float(np.logaddexp.reduce(scale * line) - np.logaddexp.reduce(scale * line[relevant[row]]))
        if tick is not None:
            tick(len(scores))
    return rankings, nats / max(1, len(pairs))


def _targets(sides: Sides, numbers: dict[str, int], pairs: Sequence[Pair]) -> Rows:
    """Return the encoded rows of different targets, each as in the first pair that has it."""
    first: dict[str, Pair] = {}
    for pair in pairs:
        for text in pair.targets:
            first.setdefault(text, Pair(pair.source, text))
    return sides.target.rows([first[text] for text in numbers], "target")


def hard_negatives(model: Towers, corpus: Corpus, count: int, device: torch.device) -> npt.NDArray[np.int64]:
    """Return for each row of the corpus the rows of the nearest targets that differ from its own (N, H)."""
    same = corpus.target_numbers
    different, first = np.unique(same, return_index=True)
    chosen = np.linspace(0, len(different) - 1, min(len(different), MOST_CANDIDATES)).astype(int)
    candidates = np.asarray(first[chosen])
    shapes = corpus.shapes
    of_targets = vectors_of([model], [corpus.rows("target", candidates)], "target", shapes.target, device)
    negatives = np.empty((len(corpus), count), np.int64)
    for begin in range(0, len(corpus), BLOCK):
        rows = np.arange(begin, min(begin + BLOCK, len(corpus)))
        sources = vectors_of([model], [corpus.rows("source", rows)], "source", shapes.source, device)
        scores = sources @ of_targets.T  # (N, M)
        scores[same[rows][:, None] == same[candidates]] = -np.inf
        negatives[rows] = candidates[np.argsort(-scores, axis=1, kind="stable")[:, :count]]
    return negatives


class Mined:
    """Hard negatives of every row, by the weights of the last evaluation; a checkpoint holds them."""

    def __init__(self, model: Model, corpus: Corpus, count: int, device: torch.device) -> None:
        """`count` is how many there are for each row; 0: none."""
        self._model, self._corpus, self._device = model, corpus, device
        self._count = min(count, len(np.unique(corpus.target_numbers)) - 1) if count else 0
        self._negatives: npt.NDArray[np.int64] | None = None

    def update(self) -> None:
        """Find them by the weights of the model as they are."""
        if self._count and isinstance(self._model, Towers):
            training = self._model.training
            self._negatives = hard_negatives(self._model.eval(), self._corpus, self._count, self._device)
            self._model.train(training)

    def added(self, batch: Batch, rows: npt.NDArray[Any]) -> Batch:
        """Return a batch of some rows with their hard negatives; as it is before the first evaluation."""
        if self._negatives is None:
            return batch
        further = self._corpus.rows("target", self._negatives[rows].flatten())
        return replace(batch, others=column_of(further, self._corpus.shapes.target).to(batch.wanted.device))

    def tensors(self) -> list[Tensor]:
        """Return them for a checkpoint."""
        return [] if self._negatives is None else [torch.from_numpy(self._negatives)]

    def carry_on(self, tensors: Sequence[Tensor]) -> None:
        """Go on with those that `tensors` returned."""
        if self._count and tensors:
            self._negatives = tensors[0].numpy()
