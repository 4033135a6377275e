"""What an output depends on, by changing the input: leave-one-out, gradient × input, integrated gradients.

Integrated gradients (Sundararajan 2017): IGᵢ = (xᵢ − bᵢ) · ∫ ∂f(b + α(x − b))/∂xᵢ dα, f = log p of an output symbol,
x the vectors that the encoder reads, b those of an empty input at the same positions. Σᵢ IGᵢ = f(x) − f(b); what the
sum of finitely many points misses is the completeness error.
"""

# S source positions · T target steps · M points · D width

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core.kinds import Batch, Column
from weft.core.trace import Edit, trace
from weft.data.sides.side import Encoded
from weft.look.inspect.plots import Array
from weft.look.inspect.subject import Line
from weft.nn.assemble import AnyModel
from weft.nn.model import LanguageModel

POINTS = 64  # of the integral
AT_ONCE = 64  # rows


@dataclass(frozen=True)
class Attribution:
    """How much each source position matters for each output step (T, S), three ways, and the completeness error."""

    left_out: Array
    gradient: Array
    integrated: Array
    completeness: Array  # (T,): |Σ IG − (f(x) − f(b))|
    difference: Array  # (T,): f(x) − f(b)


def attribution(line: Line, model: AnyModel) -> Attribution:
    """Return what each output symbol of a line depends on, in a model of the line's run."""
    integrated, completeness, difference = _integrated(line, model)
    return Attribution(left_out(line, model), _gradient(line, model), integrated, completeness, difference)


def step_log_probs(model: AnyModel, batch: Batch) -> Tensor:
    """Return the log-probability of each step of the targets (B, T)."""
    nll: Tensor = model(batch).nll(batch.wanted)
    return -nll


def left_out(line: Line, model: AnyModel) -> Array:
    """Return by how much the log-probability of each output step falls when a source position is left out (T, S)."""
    row = line.rows.source[0]
    shorter = [_without(row, index) for index in range(len(row))]
    with torch.no_grad():
        whole = step_log_probs(model, line.batch)[0]
        parts = [whole - scores for scores in _scores_of(line, model, shorter)]
    return np.asarray(torch.stack(parts, dim=1).float().cpu().numpy())


def _scores_of(line: Line, model: AnyModel, sources: Sequence[Any]) -> list[Tensor]:
    """Return the scores (T,) of the line's output for other sources."""
    scores: list[Tensor] = []
    for start in range(0, len(sources), AT_ONCE):
        some = sources[start : start + AT_ONCE]
        context = None if line.rows.context is None else list(line.rows.context) * len(some)
        rows = Encoded(some, list(line.rows.target) * len(some), context)
        scores += list(step_log_probs(model, line.subject.batch_of_rows(rows)))
    return scores


def _without(row: Any, index: int) -> Any:
    return np.delete(row, index, axis=0) if isinstance(row, np.ndarray) else [*row[:index], *row[index + 1 :]]


class Leaf:
    """Replaces the vectors that the encoder reads, and keeps them to take gradients."""

    def __init__(self, make: Callable[[Tensor], Tensor]) -> None:
        self.make = make
        self.vectors = torch.empty(0)

    def __call__(self, vectors: Tensor) -> Tensor:
        self.vectors = self.make(vectors.detach()).requires_grad_()
        return self.vectors


def _gradient(line: Line, model: AnyModel) -> Array:
    """Return gradient × input (T, S)."""
    leaf = Leaf(lambda vectors: vectors)
    gradients = gradients_of_steps(line, model, leaf, line.batch)  # (T, 1, S, D)
    return _in_order((gradients * leaf.vectors.detach()).sum(-1)[:, 0], model)


def gradients_of_steps(
    line: Line, model: AnyModel, leaf: Leaf, batch: Batch, also: dict[str, Edit] | None = None
) -> Tensor:
    """Return the gradients of every step's log-probability, summed over rows, at the encoder's inputs (T, B, S, D)."""
    with torch.enable_grad(), trace({"encode.inputs": leaf, **(also or {})}, keep=lambda _: False):
        scores = step_log_probs(model, batch).sum(0)  # (T,)
        each = [torch.autograd.grad(score, leaf.vectors, retain_graph=True)[0] for score in scores]
    return torch.stack(each)


def _integrated(line: Line, model: AnyModel) -> tuple[Array, Array, Array]:
    batch, empty = line.batch, _empty(line, model)
    repeated = _repeated(line, POINTS)
    alphas = ((torch.arange(POINTS, device=line.subject.device) + 0.5) / POINTS)[:, None, None]
    leaf = Leaf(lambda vectors: empty + alphas * (vectors - empty))
    slopes = gradients_of_steps(line, model, leaf, repeated).mean(1)  # (T, S, D)
    with torch.no_grad(), trace(keep=lambda name: name == "encode.inputs") as seen:
        whole = step_log_probs(model, batch)[0]
    with torch.no_grad(), trace({"encode.inputs": lambda _: empty}, keep=lambda _: False):
        nothing = step_log_probs(model, batch)[0]
    parts = ((seen["encode.inputs"][0] - empty) * slopes).sum(-1)  # (T, S)
    difference = (whole - nothing).cpu().numpy()
    sums = parts.sum(1).cpu().numpy()
    return _in_order(parts, model), np.abs(sums - difference), difference


def _empty(line: Line, model: AnyModel) -> Tensor:
    """Return the vectors of an empty input at the same positions: padding, or zeros (1, S, D)."""
    source = line.batch.source
    column = Column(torch.zeros_like(source.values), source.mask)
    skipped = _skipped(line)
    assert not isinstance(model, LanguageModel)
    with torch.no_grad():
        vectors: Tensor = model.source_reader.read(Column(column.values[:, skipped:], column.mask[:, skipped:]))[0]
    return vectors


def _skipped(line: Line) -> int:
    """Return how many positions only the decoder reads."""
    return len(line.source_tokens) - len(line.attended_tokens) if line.batch.context is None else 0


def _repeated(line: Line, times: int) -> Batch:
    rows = line.rows
    context = None if rows.context is None else list(rows.context) * times
    return line.subject.batch_of_rows(
        replace(rows, source=list(rows.source) * times, target=list(rows.target) * times, context=context)
    )


def _in_order(parts: Tensor, model: AnyModel) -> Array:
    """Return (T, S) in the order of the source: an encoder may read it from its end."""
    assert not isinstance(model, LanguageModel)
    turned = parts.flip(1) if model.encoder.reverse else parts
    return np.asarray(turned.float().cpu().numpy())
