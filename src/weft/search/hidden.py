"""Hidden symbols: the most probable ones at every position that a line hides, each by itself."""

# N rows of a group · S positions · V symbols

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from weft.core.kinds import Hypothesis
from weft.core.pair import HIDDEN
from weft.core.shapes import Shapes
from weft.search.decode import SearchPlan
from weft.search.once import Inputs, text_groups

NEVER = range(HIDDEN + 1)  # specials and the mask


@torch.inference_mode()
def hidden_symbols(
    models: Sequence[Any], inputs: Sequence[Inputs], shapes: Shapes, plan: SearchPlan, device: torch.device,
    tick: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:  # fmt: skip
    """Return the most probable symbols of all hidden positions of each line; none where nothing is hidden."""
    results: list[list[Hypothesis]] = [[] for _ in inputs[0].source]
    for rows, columns in text_groups(inputs, shapes, device):
        emissions = [model.label(source, context) for model, (source, context) in zip(models, columns)]
        scores = emissions[0].mean(emissions[1:]).logits.float()
        scores = scores.index_fill(-1, torch.tensor(NEVER, device=device), float("-inf"))
        log_probs = torch.log_softmax(scores, dim=-1)  # (N, S, V)
        for row, each in zip(rows, log_probs):
            positions = [place for place, symbol in enumerate(inputs[0].source[row]) if symbol == HIDDEN]
            results[row] = _best(each[positions], plan.nbest)
        if tick is not None:
            tick(len(rows))
    return results


def _best(log_probs: Tensor, nbest: int) -> list[Hypothesis]:
    """Return the best combinations of symbols, one for each position (K, V)."""
    best = [Hypothesis((), (), 0.0)]
    for position in log_probs:
        scores, ids = position.topk(min(nbest, len(position) - len(NEVER)))
        longer = [
            Hypothesis((*h.ids, symbol), (*h.token_scores, score), h.score + score)
            for h in best
            for symbol, score in zip(ids.tolist(), scores.tolist())
        ]
        best = sorted(longer, key=lambda hypothesis: -hypothesis.score)[:nbest]
    return best
