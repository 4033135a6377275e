"""Rows of arrays → a Batch, by the shapes of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.kinds import Batch, Column
from weft.core.shapes import Hidden, Notes, Nothing, Picture, Shape, Shapes, Symbols, Vectors


def batch_of(sources: Sequence[Any], targets: Sequence[Any], contexts: Sequence[Any] | None, shapes: Shapes) -> Batch:
    """Pad the rows of each column, and shift the target."""
    source = column_of(sources, shapes.source)
    if isinstance(shapes.target, Hidden):  # (k, 2): positions of the source, and what was there
        positions, symbols = (Column.of_labels([row[:, column] for row in targets]) for column in (0, 1))
        return Batch(source, positions, symbols)
    wanted = column_of(targets, shapes.target)
    if contexts is None or shapes.context is None:
        return Batch.between(source, wanted)
    return Batch.between(source, wanted, column_of(contexts, shapes.context))


def column_of(rows: Sequence[Any], shape: Shape) -> Column:
    """Pad rows of one column."""
    if isinstance(shape, Nothing):
        return Column.of_nothing(len(rows))
    if isinstance(shape, Vectors | Notes | Picture):
        return Column.of_vectors(rows)
    return Column.of_ids(rows) if isinstance(shape, Symbols) and shape.ended else Column.of_labels(rows)
