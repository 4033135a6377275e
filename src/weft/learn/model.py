"""The model and the objective of a run, from its settings and its tokenisers."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from weft.core.kinds import Objective
from weft.core.shapes import Symbols
from weft.data.text.tokens import Tokeniser
from weft.learn.objectives import OBJECTIVES, CrossEntropy, class_weights
from weft.nn.assemble import AnyModel, assemble
from weft.nn.heads import copied_as
from weft.spec import Spec


def objective_of(spec: Spec, counts: Callable[[], Tensor]) -> Objective:
    """Return the objective of a run; `counts` returns how often each label occurs, for class weights."""
    if not spec.objective.class_power:
        return OBJECTIVES[spec.objective.kind](spec.objective.smoothing)
    return CrossEntropy(spec.objective.smoothing, class_weights(counts(), spec.objective.class_power))


def model_of(spec: Spec, source: Tokeniser, target: Tokeniser) -> AnyModel:
    """Freshly initialised from torch's random state."""
    apart = spec.head.kind == "copy" and not spec.embed.shared
    shapes = Symbols(len(source)), Symbols(len(target))
    return assemble(spec, *shapes, copies=copied_as(source.names, target.names) if apart else None)
