"""The heads: from the name of a head, and for numbers and notes of an objective, to a class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from torch import nn

from weft.core.facts import TokenFacts
from weft.core.shapes import Notes, Places, Shape, Symbols, Vectors
from weft.nn.heads import Copy, Ctc, Joint, Label, Tokens
from weft.nn.number_heads import GaussianHead, MixtureHead, NotesHead, NumberHead, PointHead, TrackHead
from weft.nn.span_head import SentenceHead, SpanHead
from weft.nn.towers import VectorHead
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
    facts: TokenFacts | None = None  # of the tokens of the source


def _token_head(kind: type[Tokens], output: Output) -> Tokens:
    assert output.table is not None, "tokens have a table of embeddings"
    settings, spec = output.spec.head, output.spec
    turned = settings.tied and (spec.encoder if settings.kind == "hidden" else spec.decoder).kind == "transformer"
    return kind(output.width, output.memory_width, output.table, settings.tied, turned, output.copies)


def _written_head(output: Output) -> Tokens:
    return _token_head(Joint if output.spec.objective.ctc_share else Tokens, output)


def _label_head(output: Output) -> Label:
    assert isinstance(output.target, Symbols)
    return Label(output.width, output.target.count)


def _number_head(output: Output) -> NumberHead:
    assert isinstance(output.target, Vectors | Notes)
    objective, stop = output.spec.objective, output.spec.numbers.stop == "learned"
    width, steps = output.target.width, output.spec.numbers.differences
    return NUMBER_HEADS[objective.kind](output.width, width, objective.components, stop, steps)


def _span_head(output: Output) -> SpanHead | SentenceHead:
    assert isinstance(output.target, Places)
    if output.spec.answer.unit == "sentence":
        assert output.facts is not None, "sentences are known by the tokens that end them"
        sizes = output.width, output.target.longest, output.target.none
        return SentenceHead(*sizes, output.facts.ends, output.spec.train.dropout)
    return SpanHead(output.width, output.target.longest, output.target.none)


def _vector_head(output: Output) -> VectorHead:
    return VectorHead(output.spec.retrieve.temperature)


NUMBER_HEADS: dict[str, Callable[[int, int, int, bool, bool], NumberHead]] = {  # by objective
    "squared": PointHead,
    "distance": TrackHead,
    "gaussian": GaussianHead,
    "mixture": MixtureHead,
    "notes": NotesHead,
}
AnyHead = Tokens | Label | NumberHead | SpanHead | SentenceHead | VectorHead
HEADS: dict[str, Callable[[Output], AnyHead]] = {
    "tokens": _written_head,
    "copy": partial(_token_head, Copy),
    "ctc": partial(_token_head, Ctc),
    "hidden": partial(_token_head, Tokens),
    "label": _label_head,
    "numbers": _number_head,
    "notes": _number_head,
    "span": _span_head,
    "vector": _vector_head,
}
