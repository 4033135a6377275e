"""How a language model continues rows of the validation data: what its card shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from weft.core.pair import Pair
from weft.data.sides.notes import parse
from weft.predict.predictor import Predictor

SYMBOLS = {"text": (80, 200), "notes": (32, 64)}  # of a prompt and of its continuation, at most: characters or steps
Cut = tuple[str, str]  # a prompt, and how the row goes on


def cut_text(text: str) -> Cut:
    """Cut a text at a space near the length of a prompt, at most in its middle."""
    prompt, rest = SYMBOLS["text"]
    end = min(prompt, len(text) // 2)
    end = text.rfind(" ", 0, end) if " " in text[:end] else end
    return text[:end], text[end : end + rest]


def cut_tune(cell: str) -> Cut:
    """Cut a tune, at most in its middle."""
    prompt, rest = SYMBOLS["notes"]
    tune = parse(cell)
    end = min(prompt, len(tune) // 2)
    return json.dumps(tune[:end]), json.dumps(tune[end : end + rest])


CUTS: dict[str, Callable[[str], Cut]] = {"text": cut_text, "notes": cut_tune}


def continuations(predictor: Predictor, pairs: Sequence[Pair], count: int) -> list[list[str]]:
    """Return a few prompts, how they go on in the data, and how the model goes on; nothing for other kinds of rows."""
    kind = predictor.sides.target_kind
    if kind not in CUTS:
        return []
    rows = [len(pairs) * i // count for i in range(min(count, len(pairs)))]
    cuts = [cut for cut in (CUTS[kind](pairs[row].target) for row in rows) if json.dumps([]) != cut[0] != ""]
    length = max((_length(kind, rest) for _, rest in cuts), default=1)
    search = predictor.spec.search.model_copy(update={"length": length})
    outputs = predictor.predict([Pair(prompt, "") for prompt, _ in cuts], predictor.plan(search))
    return [[prompt, rest, _cut_to(kind, output.text, rest)] for (prompt, rest), output in zip(cuts, outputs)]


def _length(kind: str, rest: str) -> int:
    """Return how far a model goes on: in notes as far as the data, of which it need not know the end."""
    return max(1, len(json.loads(rest))) if kind == "notes" else SYMBOLS[kind][1]


def _cut_to(kind: str, output: str, rest: str) -> str:
    return json.dumps(json.loads(output or "[]")[: _length(kind, rest)]) if kind == "notes" else output
