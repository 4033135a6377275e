"""Which evaluation is the best so far: a pure function of its score and its loss."""

from __future__ import annotations

from weft.score.table import Metric

NEAR_ZERO = 1.0  # percent: two scores below it differ by luck


def improves(
    metric: Metric,
    by_loss: Metric,
    score: float,
    loss: float,
    best_score: float | None,
    best_loss: float | None,
) -> bool:
    """Return whether an evaluation beats the best so far by `metric`.

    Equal scores are told apart by the loss, and so are scores near zero: until a model begins to get lines right, the
    loss says more about it than one lucky line.
    """
    if best_score is None:
        return True
    near_zero = metric.unit == "percent" and metric.better == "higher" and max(score, best_score) < NEAR_ZERO
    if near_zero or score == best_score:
        return by_loss.is_better(loss, best_loss)
    return metric.is_better(score, best_score)
