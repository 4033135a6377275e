"""The heads: from the name of a head, and for numbers of an objective, to a class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from torch import nn

from weft.core.shapes import Shape, Symbols, Vectors
from weft.nn.heads import Copy, Ctc, Label, Tokens
from weft.nn.number_heads import GaussianHead, MixtureHead, NumberHead, PointHead
from weft.spec import Spec


@dataclass(frozen=True)
class Output:
    """What a head is made for."""

    spec: Spec
    target: Shape
    width: int  # of what it reads
    memory_width: int
    table: nn.Embedding | None  # of the target
    copies: Sequence[int]


def _token_head(kind: type[Tokens], output: Output) -> Tokens:
    assert output.table is not None, "tokens have a table of embeddings"
    settings = output.spec.head
    turned = settings.tied and output.spec.decoder.kind == "transformer"
    return kind(output.width, output.memory_width, output.table, settings.tied, turned, output.copies)


def _label_head(output: Output) -> Label:
    assert isinstance(output.target, Symbols)
    return Label(output.width, output.target.count)


def _number_head(output: Output) -> NumberHead:
    assert isinstance(output.target, Vectors)
    objective, stop = output.spec.objective, output.spec.numbers.stop == "learned"
    return NUMBER_HEADS[objective.kind](output.width, output.target.width, objective.components, stop)


NUMBER_HEADS: dict[str, type[PointHead] | type[GaussianHead] | type[MixtureHead]] = {
    "squared": PointHead,
    "gaussian": GaussianHead,
    "mixture": MixtureHead,
}
HEADS: dict[str, Callable[[Output], Tokens | Label | NumberHead]] = {
    "tokens": partial(_token_head, Tokens),
    "copy": partial(_token_head, Copy),
    "ctc": partial(_token_head, Ctc),
    "label": _label_head,
    "numbers": _number_head,
}
