"""Rows of arrays → a Batch, by the shapes of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.nn.functional import pad

from weft.core.kinds import Batch, Column
from weft.core.shapes import Shape, Shapes, Symbols, Vectors


def batch_of(sources: Sequence[Any], targets: Sequence[Any], contexts: Sequence[Any] | None, shapes: Shapes) -> Batch:
    """Pad the rows of each column, and shift the target."""
    source, wanted = column_of(sources, shapes.source), column_of(targets, shapes.target)
    if isinstance(shapes.target, Symbols) and shapes.target.in_step:
        wanted = _as_long_as(source, wanted)
    if contexts is None or shapes.context is None:
        return Batch.between(source, wanted)
    return Batch.between(source, wanted, column_of(contexts, shapes.context))


def column_of(rows: Sequence[Any], shape: Shape) -> Column:
    """Pad rows of one column."""
    if isinstance(shape, Vectors):
        return Column.of_vectors(rows)
    return Column.of_ids(rows) if isinstance(shape, Symbols) and shape.ended else Column.of_labels(rows)


def _as_long_as(source: Column, labels: Column) -> Column:
    """Return labels in step with the source, whose END has none."""
    more = source.mask.shape[1] - labels.mask.shape[1]
    return Column(pad(labels.values, (0, more)), pad(labels.mask, (0, more)))
