"""What a run predicts: outputs as text, with their scores, and how they look in a notebook."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import SupportsIndex, overload

SHOWN_LINES = 100  # of a table in a notebook


@dataclass(frozen=True)
class Output:
    """One hypothesis as text: its rank score, its log-probability, and that of each symbol (the last is the end).

    Of models that write in both directions, the score is by all of them, the rest by those that write from the start.
    """

    text: str
    score: float
    log_prob: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]

    @property
    def probability(self) -> float:
        """That of the whole output; of a label, that of the label."""
        return math.exp(self.log_prob)


@dataclass(frozen=True)
class Prediction:
    """The outputs for one source, the best first. `str()` of it is the best output's text."""

    source: str
    outputs: tuple[Output, ...]
    kind: str = "text"  # of the outputs: text, label, labels (one for each word), numbers or notes
    context: str = ""  # that was read with the source, such as a question

    @property
    def text(self) -> str:
        return self.outputs[0].text

    @property
    def score(self) -> float:
        return self.outputs[0].score

    @property
    def probabilities(self) -> dict[str, float]:
        """The probability of each output, the most probable first; `nbest` says how many there are."""
        return {output.text: output.probability for output in self.outputs}

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return _table([self])


class Predictions(list[Prediction]):
    """A list of predictions, in the order of their sources; a notebook shows it as a table."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> Prediction: ...

    @overload
    def __getitem__(self, index: slice) -> Predictions: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Prediction | Predictions:
        return Predictions(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)

    @property
    def texts(self) -> list[str]:
        """The best output of each source."""
        return [prediction.text for prediction in self]

    def _repr_html_(self) -> str:
        return _table(self)


def _table(predictions: Sequence[Prediction]) -> str:
    number = "probability" if predictions and _are_labels(predictions[0]) else "score"
    head = f"<tr><th>source</th><th>output</th><th>{number}</th></tr>"
    rows = "".join(_rows(prediction) for prediction in predictions[:SHOWN_LINES])
    left_out = len(predictions) - SHOWN_LINES
    rest = f"<tr><td colspan='3'>… and {left_out:,} more</td></tr>" if left_out > 0 else ""
    return f"<table>{head}{rows}{rest}</table>"


def _rows(prediction: Prediction) -> str:
    """A row for each output; the source stands beside the first."""
    left = "style='text-align:left'"
    sources = [prediction.source, *[""] * (len(prediction.outputs) - 1)]
    return "".join(
        f"<tr><td {left}>{html.escape(source)}</td><td {left}>{html.escape(output.text)}</td>"
        f"<td style='text-align:right'>{_number(prediction, output):.3f}</td></tr>"
        for source, output in zip(sources, prediction.outputs)
    )


def _are_labels(prediction: Prediction) -> bool:
    return prediction.kind in ("label", "labels", "hidden")


def _number(prediction: Prediction, output: Output) -> float:
    return output.probability if _are_labels(prediction) else output.score
