"""Predictions as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from weft.predict.predictions import Output, Prediction
from weft.serve.batching import Answer

LABELS = ("label", "labels", "hidden")
TEXTS = ("text", "span", *LABELS)


def shown(answer: Answer, tokens: bool) -> dict[str, Any]:
    """Return an answer as clients of /predict get it."""
    prediction = answer.prediction
    result: dict[str, Any] = {"outputs": [_output(output, prediction, tokens) for output in prediction.outputs]}
    return result if answer.alignment is None else {**result, "alignment": answer.alignment}


def _output(output: Output, prediction: Prediction, tokens: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"text": output.text, "score": number(output.score)}
    if prediction.kind not in TEXTS:
        result["value"] = value(output.text)
    if prediction.kind in LABELS:
        result["probability"] = number(output.probability)
    if tokens:
        result["log_prob"] = number(output.log_prob)
        result["tokens"] = [[name, number(score)] for name, score in zip(output.tokens, output.token_scores)]
    return result


def value(text: str) -> Any:
    """Return the JSON that an output which is not text holds; an empty one is null."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def number(value: float) -> float | None:
    """Return a number that JSON has: what is not finite is null."""
    return round(value, 6) if math.isfinite(value) else None
