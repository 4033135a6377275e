"""Where a model looked in a picture or a recording while it wrote its output."""

# N symbols of the output · S positions that the encoder reads · W columns or frames

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from weft.core.batching import batch_of
from weft.core.kinds import Batch
from weft.core.pair import END, Pair
from weft.core.shapes import Frames, Picture
from weft.core.trace import trace
from weft.data.text.tokens import Tokeniser
from weft.nn.model import Aligned
from weft.predict.predictor import Predictor, attention_weights
from weft.search.ctc import aligned

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Look:
    """What was read, what was written, and the weight of each position for each symbol; no rows where none are known.

    `height` is how many rows of a grid the positions are; 1 where they follow each other.
    """

    picture: npt.NDArray[Any]  # (H, W[, C]): pixels, or the bands of frames from low to high
    sound: bool
    symbols: tuple[str, ...]
    weights: Floats  # (N, S)
    height: int
    wanted: str
    output: str


def can_look(predictor: Predictor) -> bool:
    """Return whether the source is something that can be drawn."""
    return isinstance(predictor.sides.source.shape, Frames | Picture)


@torch.inference_mode()
def look(predictor: Predictor, pair: Pair, output: str) -> Look:
    """Return where the first model of a run looks while it writes `output`."""
    rows = predictor.sides.encode([replace(pair, target=output or pair.target)])
    batch = batch_of(rows.source, rows.target, rows.context, predictor.sides.shapes).to(predictor.device)
    _, mask = predictor.model.source_reader.read(batch.source)
    symbols, weights = _weighed(predictor, pair, batch, mask.shape[1])
    shape = predictor.sides.source.shape
    height = grid_height(predictor, mask.shape[1])
    assert isinstance(shape, Frames | Picture)
    picture = drawn(np.asarray(rows.source[0]), shape, predictor)
    return Look(picture, isinstance(shape, Frames), symbols, weights, height, pair.target, output)


def drawn(row: npt.NDArray[Any], shape: Frames | Picture, predictor: Predictor) -> npt.NDArray[Any]:
    """Return what was read as a picture."""
    if isinstance(shape, Picture):
        pixels = row.reshape(len(row), shape.height, shape.channels).swapaxes(0, 1)
        return pixels[:, :, 0] if shape.channels == 1 else pixels
    bands = shape.width // 2 if predictor.spec.audio.deltas else shape.width
    return row[:, :bands].T


def grid_height(predictor: Predictor, positions: int) -> int:
    """Return how many rows the positions of a grid have."""
    spec, shape = predictor.spec, predictor.sides.source.shape
    if not isinstance(shape, Picture) or spec.image.layout == "columns":
        return 1
    height = shape.height
    for _ in range(spec.image.halvings):
        height = -(-height // 2)
    return height if positions % height == 0 else 1


def _weighed(predictor: Predictor, pair: Pair, batch: Batch, positions: int) -> tuple[tuple[str, ...], Floats]:
    """Return the symbols of the output, and how much each position counted for each."""
    model, target = predictor.model, predictor.sides.target
    if isinstance(model, Aligned):
        assert isinstance(target, Tokeniser)
        ids = [symbol for symbol in batch.wanted.values[0].tolist() if symbol != END]
        return _emitted(tuple(predictor.shown(pair.source, target, ids)), ids, model.frames(batch.source)[0][0])
    with trace() as traced:
        model(batch)
    if traced["decode.cross"] and isinstance(target, Tokeniser):
        names = predictor.shown(pair.source, target, batch.wanted.values[0].tolist())
        return tuple(names), attention_weights(traced["decode.cross"], len(names))[:, :positions]
    if traced["pool.query"]:
        return (pair.target,), traced["pool.query"][-1].float().cpu().numpy()[:, :positions]
    return (), np.zeros((0, positions), dtype=np.float32)


def _emitted(names: tuple[str, ...], ids: list[int], frames: torch.Tensor) -> tuple[tuple[str, ...], Floats]:
    """Return the symbols, each at the position where CTC most probably begins it."""
    begins = aligned(frames.float().cpu().numpy(), ids)
    weights = np.zeros((len(begins), len(frames)), dtype=np.float32)
    weights[np.arange(len(begins)), begins] = 1
    return names[: len(begins)], weights
