"""Sources that are no symbols, as the attention view shows them: curves, a spectrogram, a picture."""

# F features · S positions that are attended to · H, W height and width in pixels

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from weft.core.shapes import Frames, Picture, Vectors
from weft.look.inspect.plots import Array
from weft.look.inspect.subject import Line
from weft.predict.looks import drawn, grid_height

MOST_BANDS = 40  # rows of a spectrogram or of columns of pixels
MOST_PIXELS = 64  # on each side of a picture


def nothing() -> Array:
    return np.zeros((0, 0))


@dataclass(frozen=True)
class SourcePicture:
    """What stands above the columns of a map (F, S), or a picture (H, W) whose grid the columns are; from 0 to 1."""

    track: Array = field(default_factory=nothing)
    picture: Array = field(default_factory=nothing)
    grid_rows: int = 0
    grid_columns: int = 0


def source_picture(line: Line) -> SourcePicture:
    """Return how the source of a line looks; nothing of symbols."""
    shape = line.subject.sides.source.shape
    if isinstance(shape, Frames | Picture):
        return _image(line, shape)
    if isinstance(shape, Vectors):
        return SourcePicture(_from_0_to_1(line.batch.source.values[0].float().cpu().numpy().T, axis=1))
    return SourcePicture()


def _image(line: Line, shape: Frames | Picture) -> SourcePicture:
    """Return a spectrogram, high tones above, or a picture in grey, in as many columns as positions."""
    predictor = line.subject.predictor
    with torch.no_grad():
        positions = line.subject.model.source_reader.read(line.batch.source)[1].shape[1]
    image = np.asarray(drawn(np.asarray(line.rows.source[0]), shape, predictor), dtype=np.float64)
    grey = image.mean(axis=2) if image.ndim == 3 else image
    if isinstance(shape, Frames):
        return SourcePicture(_from_0_to_1(pooled(grey[::-1], MOST_BANDS, positions)))
    height = grid_height(predictor, positions)
    if height == 1:
        return SourcePicture(pooled(grey / 255, MOST_BANDS, positions))
    small = pooled(grey / 255, MOST_PIXELS, MOST_PIXELS)
    return SourcePicture(picture=small, grid_rows=height, grid_columns=positions // height)


def _from_0_to_1(values: Array, axis: int | None = None) -> Array:
    low, span = values.min(axis=axis, keepdims=True), np.ptp(values, axis=axis, keepdims=True)
    return np.asarray(np.round((values - low) / np.where(span > 0, span, 1), 2))


def pooled(image: Array, rows: int, columns: int) -> Array:
    """Return means of an image over `columns` stretches of its width and at most `rows` of its height."""
    return np.round(_pooled(_pooled(image.T, columns, exact=True).T, rows), 3)


def _pooled(values: Array, count: int, exact: bool = False) -> Array:
    """Return the means of `count` stretches of rows; without `exact`, not more than there are rows."""
    count = count if exact else min(count, len(values))
    edges = np.linspace(0, len(values), count + 1)
    starts = np.minimum(edges[:-1].astype(int), len(values) - 1)
    ends = np.maximum(edges[1:].astype(int), starts + 1)
    return np.array([values[start:end].mean(axis=0) for start, end in zip(starts, ends)])
