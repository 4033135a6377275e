"""Finishing a run: the scores of its models together, the model card, and the curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.pair import Pair
from weft.learn.effort import limits
from weft.learn.loop import Trainer
from weft.learn.validate import examples
from weft.look.card import card
from weft.predict.plans import make_plan
from weft.predict.predictor import Predictor
from weft.runs.curves import Curves
from weft.runs.folder import CONFUSION, FINISHED, RunFolder
from weft.runs.log import LogFile
from weft.runs.ready import Ready
from weft.runs.weights import newest_progress
from weft.score.confusion import Confusion, confusion
from weft.score.metrics import table_of
from weft.search.decode import SearchPlan

LABEL_KINDS = ("label", "labels")
FINAL_PAIRS = 5000  # validation pairs that a run without a clock is scored on, at most
FEWEST_PAIRS = 20  # that any run is scored on, if there are so many


def finish(ready: Ready, folder: RunFolder, trainers: Sequence[Trainer], last_line: dict[str, Any]) -> None:
    """Score the best weights by the run's own search, and write the model card and the curves.

    `trainers` are those of this process, the first model's first. `last_line` is the last line of the log when the run
    was opened: a run that was finished already keeps its scores.
    """
    finished = last_line.get("kind") == "final" and last_line.get("steps") == trainers[0].progress.step
    final = last_line if finished else _final_scores(ready, folder, trainers)
    try:
        text = _card(ready, folder, final)
    except (KeyError, TypeError, ValueError, AttributeError):  # the last line is not one that a run writes
        final = _final_scores(ready, folder, trainers)
        text = _card(ready, folder, final)
    LogFile(folder.log).write(final)
    folder.write("README.md", text)
    Curves(folder).draw()
    folder.seal((*FINISHED, *_draw_confusion(folder, final)))


def _draw_confusion(folder: RunFolder, final: dict[str, Any]) -> tuple[str, ...]:
    """Draw which labels are taken for which, of runs that predict labels; return the names of the files."""
    if "confusion" not in final:
        return ()
    from weft.look.confusion import draw_confusion  # matplotlib takes half a second to load

    draw_confusion(Confusion.from_dict(final["confusion"]), folder.path / CONFUSION, folder.path.name)
    return (CONFUSION,)


def _card(ready: Ready, folder: RunFolder, final: dict[str, Any]) -> str:
    facts = {**folder.read_facts(), "parameters": final["parameters"]}
    return card(folder.path.name, ready.spec, facts, folder.read_choices()["reasons"], final)


def _final_scores(ready: Ready, folder: RunFolder, trainers: Sequence[Trainer]) -> dict[str, Any]:
    """Return the last line of the log: the scores of the finished run, and what it took."""
    trainer, spec = trainers[0], ready.spec
    progress = trainer.progress
    predictor = Predictor.load(folder.path)
    plan, valid = make_plan(spec.search, ready.sides.target), ready.prepared.valid
    further = dict(zip(spec.data.valid[1:], ready.prepared.further_valid))
    share = _affordable_share(trainer, len(valid) + sum(map(len, further.values())))
    sample = _sample(valid, share)
    evaluation = predictor.evaluate(sample, plan)
    spent, limit = limits(progress, trainer.effort.most)
    target_kind, references = ready.sides.target_kind, [pair.targets for pair in sample]
    confused = confusion(evaluation.outputs, references, target_kind) if target_kind in LABEL_KINDS else None
    return {
        "kind": "final",
        **({} if target_kind == "text" else {"target": target_kind}),
        "step": progress.best_step,
        "steps": progress.step,
        **evaluation.metrics,
        "pairs": evaluation.n,
        "of": len(valid),
        "metric": spec.train.select,
        "search": plan.name,
        "signatures": table_of(target_kind).signatures(references),
        **({} if confused is None else {"confusion": confused.to_dict()}),
        "models": 1 + len(predictor.others),
        "steps_of_others": [newest_progress(member).evaluated_step for member in folder.trained_members()],
        "parameters": sum(p.model.parameter_count for p in (predictor, *predictor.others)),
        "examples": [[e.source, e.wanted, e.output] for e in examples(sample, evaluation.outputs, 6)],
        "seconds": round(sum(each.progress.seconds for each in trainers), 2),
        "spent": spent,
        "limit": limit,
        "further": [_further_scores(predictor, plan, path, pairs, share) for path, pairs in further.items()],
    }


def _further_scores(
    predictor: Predictor, plan: SearchPlan, path: str, pairs: Sequence[Pair], share: float
) -> dict[str, Any]:
    """Return the scores of a validation set after the first."""
    evaluation = predictor.evaluate(_sample(pairs, share), plan)
    return {"file": path, **evaluation.metrics, "pairs": evaluation.n, "of": len(pairs)}


def _sample(pairs: Sequence[Pair], share: float) -> list[Pair]:
    """Return a share of the pairs, evenly spread; at least FEWEST_PAIRS, if there are so many."""
    count = min(len(pairs), max(FEWEST_PAIRS, math.floor(share * len(pairs))))
    return [pairs[i] for i in np.linspace(0, len(pairs) - 1, count).astype(int)]


def _affordable_share(trainer: Trainer, pairs: int) -> float:
    """Return the share of the validation pairs that can be decoded in the time left for it: 1, if possible."""
    seconds = trainer.final_seconds(pairs)
    if trainer.budget.seconds is None or seconds == 0:
        return min(1.0, FINAL_PAIRS / pairs)
    left = max(trainer.budget.seconds - trainer.progress.seconds, 0.02 * trainer.budget.seconds)
    return min(1.0, left / seconds)
