"""The model and the objective of a run, from its settings and its sides."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from weft.core.kinds import Objective
from weft.data.sides.sides import Sides
from weft.data.text.facts import token_facts
from weft.data.text.tokens import Tokeniser
from weft.learn.objectives import OBJECTIVES, CrossEntropy, CtcBeside, class_weights
from weft.nn.assemble import AnyModel, assemble
from weft.nn.heads import copied_as
from weft.spec import Spec


def objective_of(spec: Spec, counts: Callable[[], Tensor]) -> Objective:
    """Return the objective of a run; `counts` returns how often each label occurs, for class weights."""
    if spec.objective.ctc_share:
        return CtcBeside(spec.objective.smoothing, spec.objective.ctc_share)
    if not spec.objective.class_power:
        return OBJECTIVES[spec.objective.kind](spec.objective.smoothing)
    return CrossEntropy(spec.objective.smoothing, class_weights(counts(), spec.objective.class_power))


def model_of(spec: Spec, sides: Sides) -> AnyModel:
    """Return a model that is freshly initialised from torch's random state."""
    source, target, copies = sides.source, sides.target, None
    if spec.head.kind == "copy" and not spec.one_table:
        assert isinstance(source, Tokeniser)
        assert isinstance(target, Tokeniser)
        copies = copied_as(source.names, target.names)
    needed = spec.context.needs_facts or spec.answer.unit == "sentence"
    facts = token_facts(source) if needed and isinstance(source, Tokeniser) else None
    shapes = sides.shapes
    return assemble(spec, shapes.source, shapes.target, shapes.context, copies=copies, facts=facts)
