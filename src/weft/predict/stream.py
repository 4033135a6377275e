"""The one way from inputs to predictions: in chunks, while inputs come in; `Run.predict` and `weft predict` use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.predict.predictions import Predictions
from weft.predict.predictor import Engine, Predictor
from weft.search.decode import SearchPlan

CHUNK = 2048  # inputs that are read, sorted by length and decoded together


def predict_stream(
    predictor: Predictor, inputs: Iterable[Pair], plan: SearchPlan, engine: Engine | None, chunk: int = CHUNK
) -> Iterator[Predictions]:
    """Yield the predictions of `chunk` inputs at a time, in order; what is unusual about the inputs is told at the end.

    If an input cannot be read, the predictions of those before it come first, and then its error.
    """
    done, notes = 0, predictor.input_notes()
    try:
        for pairs, problem in _chunks(inputs, chunk):
            notes.see(pairs)
            yield Predictions(predictor.predict(pairs, plan, first_line=done, engine=engine))
            done += len(pairs)
            if problem is not None:
                raise problem
    finally:
        notes.tell(stacklevel=3)  # the caller of Run.predict


def _chunks(inputs: Iterable[Pair], size: int) -> Iterator[tuple[list[Pair], UserError | None]]:
    """Some inputs at a time; those before an input that cannot be read come with the problem."""
    chunk: list[Pair] = []
    try:
        for pair in inputs:
            chunk.append(pair)
            if len(chunk) == size:
                yield chunk, None
                chunk = []
    except UserError as problem:
        yield chunk, problem
        return
    if chunk:
        yield chunk, None
