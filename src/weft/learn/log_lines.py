"""The lines that training writes to the log and hands to the reporter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.reporting import Example
from weft.learn.effort import share_of_speed
from weft.learn.progress import Progress, Window
from weft.score.evaluation import Evaluation


def report_line(
    progress: Progress, window: Window, epochs: float, share: float, rate: float, speed: float
) -> dict[str, Any]:
    """Describe the steps since the last report; `speed` is the matrix speed that they could reach."""
    return {
        "kind": "report",
        "step": progress.step,
        "epoch": round(epochs, 4),
        "loss": window.total / window.count,
        "rate": rate,
        "gradient": window.gradient / window.steps,
        "tokens_per_second": round(window.count / max(1e-9, window.seconds)),
        "effort": round(share_of_speed(window.operations, window.seconds, speed), 3),
        "seconds": round(progress.seconds, 2),
        "share": round(share, 4),
    }


def evaluation_line(
    progress: Progress,
    evaluation: Evaluation,
    metric: str,
    epochs: float,
    share: float,
    all_pairs: int,
    examples: Sequence[Example],
    scored_as: str = "text",
) -> dict[str, Any]:
    """Describe an evaluation, and whether it is the best so far by `metric`."""
    return {
        **({} if scored_as == "text" else {"target": scored_as}),
        "kind": "evaluation",
        "step": progress.step,
        "epoch": round(epochs, 4),
        **evaluation.metrics,
        "pairs": evaluation.n,
        "of": all_pairs,
        "metric": metric,
        "score": evaluation.metrics[metric],
        "best": progress.best_step == progress.step,
        "best_score": progress.best_score,
        "seconds": round(progress.seconds, 2),
        "share": round(share, 4),
        "examples": [[example.source, example.wanted, example.output] for example in examples],
    }
