"""The model of a run: its settings and its tokenisers to an assembled model."""

from __future__ import annotations

from typing import Any

from weft.core.shapes import Symbols
from weft.data.text.tokens import Tokeniser
from weft.nn.assemble import assemble
from weft.nn.heads import copied_as
from weft.nn.model import Aligned, Seq2Seq
from weft.spec import Spec


def model_of(spec: Spec, source: Tokeniser, target: Tokeniser) -> Seq2Seq[Any] | Aligned:
    """Freshly initialised from torch's random state."""
    apart = spec.head.kind == "copy" and not spec.embed.shared
    shapes = Symbols(len(source)), Symbols(len(target))
    return assemble(spec, *shapes, copies=copied_as(source.names, target.names) if apart else None)
