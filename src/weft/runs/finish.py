"""Finishing a run: the scores of its models together, the model card, and the curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft.learn.effort import limits
from weft.learn.loop import Trainer
from weft.learn.validate import Validator, examples
from weft.look.card import card
from weft.predict.predictor import Predictor, make_plan
from weft.runs.curves import Curves
from weft.runs.folder import RunFolder
from weft.runs.log import LogFile
from weft.runs.ready import Ready
from weft.score.metrics import table_of

FINAL_PAIRS = 5000  # validation pairs that a run without a clock is scored on, at most
FEWEST_PAIRS = 20  # that any run is scored on, if there are so many


def finish(ready: Ready, folder: RunFolder, trainers: Sequence[Trainer], last_line: dict[str, Any]) -> None:
    """Score the best weights by the run's own search, and write the model card and the curves.

    `trainers` are those of this process, the first model's first. `last_line` is the last line of the log when the run
    was opened: a run that was finished already keeps its scores.
    """
    finished = last_line.get("kind") == "final" and last_line["steps"] == trainers[0].progress.step
    final = last_line if finished else _final_scores(ready, folder, trainers)
    LogFile(folder.log).write(final)
    facts = {**folder.read_facts(), "parameters": final["parameters"]}
    folder.write("README.md", card(folder.path.name, ready.spec, facts, folder.read_choices()["reasons"], final))
    Curves(folder).draw()


def _final_scores(ready: Ready, folder: RunFolder, trainers: Sequence[Trainer]) -> dict[str, Any]:
    """Return the last line of the log: the scores of the finished run, and what it took."""
    trainer, spec = trainers[0], ready.spec
    progress = trainer.progress
    predictor = Predictor.load(folder.path)
    valid = Validator.of(ready.prepared.valid, ready.source, ready.target, spec.train.batch_tokens)
    part = valid.part(_affordable(trainer, len(valid.pairs)))
    evaluation = predictor.evaluate(part.pairs, make_plan(spec.search, ready.target))
    search = spec.search
    spent, limit = limits(progress, trainer.effort.most)
    return {
        "kind": "final",
        "step": progress.best_step,
        "steps": progress.step,
        **evaluation.metrics,
        "pairs": evaluation.n,
        "of": len(valid.pairs),
        "metric": spec.train.select,
        "search": f"beam {search.width}" if search.kind == "beam" else search.kind,
        "signatures": table_of().signatures([pair.targets for pair in part.pairs]),
        "models": 1 + len(predictor.others),
        "steps_of_others": [LogFile(member.log).evaluations()[-1]["step"] for member in folder.trained_members()],
        "parameters": sum(p.model.parameter_count for p in (predictor, *predictor.others)),
        "examples": [[e.source, e.wanted, e.output] for e in examples(part.pairs, evaluation.outputs, 6)],
        "seconds": round(sum(each.progress.seconds for each in trainers), 2),
        "spent": spent,
        "limit": limit,
    }


def _affordable(trainer: Trainer, pairs: int) -> int:
    """Return how many validation pairs can be decoded in the time that the trainer kept for it: all, if possible."""
    seconds = trainer.final_seconds(pairs)
    if trainer.budget.seconds is None or seconds == 0:
        return min(pairs, FINAL_PAIRS)
    left = max(trainer.budget.seconds - trainer.progress.seconds, 0.02 * trainer.budget.seconds)
    return min(pairs, max(FEWEST_PAIRS, math.floor(pairs * left / seconds)))
