"""What is written when a run's models are done: their scores together, the model card, and the curves."""

from __future__ import annotations

import math
import time
from typing import Any

from weft.learn.effort import limits
from weft.learn.loop import FINAL_EVALUATIONS, Trainer
from weft.learn.validate import Validator
from weft.look.card import card
from weft.predict.predictor import Predictor, make_plan
from weft.runs.folder import RunFolder
from weft.runs.job import Ready
from weft.runs.log import LogFile
from weft.runs.members import evaluations
from weft.score.metrics import table_of
from weft.spec import Train

SECONDS_BETWEEN_PICTURES = 30.0
FINAL_PAIRS = 2000  # validation pairs that the finished model is scored on


def finish(ready: Ready, folder: RunFolder, trainer: Trainer, later: float, before: dict[str, Any]) -> None:
    """Score the best weights by the run's own search, and write the card and the curves.

    `later` are the seconds that other models took after the first. `before` is the last line of the log when the run
    was opened: a run that was finished already keeps its scores.
    """
    finished = before.get("kind") == "final" and before["steps"] == trainer.progress.step
    final = before if finished else _final_scores(ready, folder, trainer, later)
    LogFile(folder.log).write(final)
    facts = {**folder.read_facts(), "parameters": final["parameters"]}
    folder.write("README.md", card(folder.path.name, ready.spec, facts, folder.read_choices()["reasons"], final))
    Curves(folder).draw()


class Curves:
    """Draws the curves while a run goes on, now and then: a picture takes as long as many steps of a small model."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._drawn = folder, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._drawn >= SECONDS_BETWEEN_PICTURES:
            self.draw()
            self._drawn = time.monotonic()

    def draw(self) -> None:
        from weft.look.curves import draw_curves  # matplotlib takes half a second to load

        draw_curves(self._folder.log, self._folder.path / "curves.png", self._folder.path.name)


def _final_scores(ready: Ready, folder: RunFolder, trainer: Trainer, later: float) -> dict[str, Any]:
    progress, spec = trainer.progress, ready.spec
    predictor = Predictor.load(folder.path)
    valid = Validator.of(ready.prepared.valid, ready.source, ready.target, spec.train.batch_tokens)
    part = valid.part(_affordable(trainer, len(valid.pairs), spec.train))
    found = predictor.evaluate(part.pairs, make_plan(spec.search, ready.target))
    search = spec.search
    spent, limit = limits(progress, trainer.effort.most)
    return {
        "kind": "final",
        "step": progress.best_step,
        "steps": progress.step,
        **found.metrics,
        "pairs": found.pairs,
        "of": len(valid.pairs),
        "metric": spec.train.select,
        "search": f"beam {search.width}" if search.kind == "beam" else search.kind,
        "signatures": table_of().signatures([pair.targets for pair in part.pairs]),
        "models": 1 + len(predictor.others),
        "steps_of_others": [evaluations(member)[-1]["step"] for member in folder.trained_members()],
        "parameters": sum(p.model.parameter_count for p in (predictor, *predictor.others)),
        "examples": [[e.source, e.wanted, e.output] for e in found.examples(part.pairs, 6)],
        "seconds": round(progress.seconds + later, 2),
        "spent": spent,
        "limit": limit,
    }


def _affordable(trainer: Trainer, pairs: int, train: Train) -> int:
    """How many validation pairs can be decoded in what is left of the budget; without a clock, FINAL_PAIRS."""
    wanted = min(pairs, FINAL_PAIRS)
    each = train.members * trainer.progress.evaluation_seconds / max(1, len(trainer.validator.pairs))
    if trainer.budget.seconds is None or train.budget_seconds is None or each == 0:
        return wanted
    left = max(trainer.budget.seconds - trainer.progress.seconds, 0.02 * train.budget_seconds)
    return max(min(wanted, 20), min(wanted, math.floor(left / (each * (FINAL_EVALUATIONS - 1)))))
