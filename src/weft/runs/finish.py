"""Finishing a run: the scores of its models together, the model card, and the curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from weft.core.pair import Pair
from weft.data.sides.document import body
from weft.data.sides.notes import Tune, may_be_notes, parse
from weft.data.sides.numbers import Numbers, NumbersKind
from weft.data.sides.sides import Sides
from weft.data.sides.table import READ_ONLY, shown
from weft.data.text.stems import STEMMERS
from weft.learn.effort import limits
from weft.learn.loop import Trainer
from weft.learn.validate import examples
from weft.look.card import card, tunes_of
from weft.predict import lexical
from weft.predict.continuations import continuations
from weft.predict.lexicon import Lexicon
from weft.predict.looks import look
from weft.predict.plans import make_plan
from weft.predict.predictor import Predictor
from weft.predict.retriever import learn_weight
from weft.runs.curves import Curves
from weft.runs.folder import CONFUSION, FINISHED, INSPECTION, ROLLS, SEEN, SERIES, WORDS, RunFolder
from weft.runs.inspection import write_inspection
from weft.runs.log import LogFile
from weft.runs.ready import Ready
from weft.runs.report import clock
from weft.runs.weights import newest_progress
from weft.score.confusion import Confusion, confusion
from weft.score.metrics import table_of
from weft.score.series import SeriesExample, series_examples
from weft.score.table import NOT_APPLICABLE
from weft.search.decode import SearchPlan
from weft.spec import Spec
from weft.tasks import continues

LABEL_KINDS = ("label", "labels")
SAMPLES = 3  # of a language model in its card
LEXICAL_PAIRS, DISTRACTORS = 1000, 5000  # queries and further documents that BM25 is weighed by
FINAL_PAIRS = 5000  # validation pairs that a run without a clock is scored on, at most
FEWEST_PAIRS = 20  # that any run is scored on, if there are so many


def is_finished(trainers: Sequence[Trainer], last_line: dict[str, Any]) -> bool:
    """Return whether the last line of a log has the scores of these steps: a run that was opened was over."""
    return last_line.get("kind") == "final" and last_line.get("steps") == trainers[0].progress.step


def finish(ready: Ready, folder: RunFolder, trainers: Sequence[Trainer], last_line: dict[str, Any]) -> None:
    """Score the best weights by the run's own search, and write the model card and the curves.

    `trainers` are those of this process, the first model's first. `last_line` is the last line of the log when the run
    was opened: a run that was finished already keeps its scores.
    """
    predictor = Predictor.load(folder.path)
    final = last_line if is_finished(trainers, last_line) else _final_scores(ready, folder, trainers, predictor)
    try:
        text = _card(ready, folder, final)
    except (KeyError, TypeError, ValueError, AttributeError):  # the last line is not one that a run writes
        final = _final_scores(ready, folder, trainers, predictor)
        text = _card(ready, folder, final)
    LogFile(folder.log).write(final)
    page = (INSPECTION,) if write_inspection(ready, folder, final, predictor) else ()
    folder.write("README.md", _card(ready, folder, final, inspected=True) if page else text)
    Curves(folder).draw()
    drawn = *_draw_pictures(folder, final), *_draw_rolls(ready, folder, final), *page
    written = (WORDS,) if (folder.path / WORDS).exists() else ()
    folder.seal((*FINISHED, *drawn, *written, *_draw_seen(ready, folder, final, predictor)))


def _draw_pictures(folder: RunFolder, final: dict[str, Any]) -> list[str]:
    """Draw what the last line of the log has for pictures; return the names of the files."""
    drawn = {name: draw for key, (name, draw) in PICTURES.items() if final.get(key)}
    for name, draw in drawn.items():
        draw(final, folder.path / name, folder.path.name)
    return list(drawn)


def _confusion_picture(final: dict[str, Any], path: Path, title: str) -> None:
    from weft.look.confusion import draw_confusion  # matplotlib takes half a second to load

    draw_confusion(Confusion.from_dict(final["confusion"]), path, title)


def _series_picture(final: dict[str, Any], path: Path, title: str) -> None:
    from weft.look.series import draw_series

    draw_series([SeriesExample.from_dict(each) for each in final["series"]], path, title)


PICTURES: dict[str, tuple[str, Callable[[dict[str, Any], Path, str], None]]] = {  # by the key of their data
    "confusion": (CONFUSION, _confusion_picture),
    "series": (SERIES, _series_picture),
}


def _draw_rolls(ready: Ready, folder: RunFolder, final: dict[str, Any]) -> tuple[str, ...]:
    """Draw tunes of the data and of the model, of runs that predict notes; return the names of the files."""
    shown = tunes_of(final)
    if ready.sides.target_kind != "notes" or not shown:
        return ()
    from weft.look.roll import draw_rolls  # matplotlib takes half a second to load

    examples = [(_tune(given), _tune(wanted), _tune(output)) for given, wanted, output in shown]
    draw_rolls(examples, folder.path / ROLLS, folder.path.name, continued="continuations" in final)
    return (ROLLS,)


def _draw_seen(ready: Ready, folder: RunFolder, final: dict[str, Any], predictor: Predictor) -> tuple[str, ...]:
    """Draw pictures or recordings with truth and output, and where the model looked; return the names of the files."""
    if ready.spec.source.kind not in READ_ONLY or not final.get("examples"):
        return ()
    from weft.look.seen import draw_seen  # matplotlib takes half a second to load

    known = {(shown(pair.source), target): pair for pair in ready.prepared.valid for target in pair.targets}
    rows = [
        (known[source, wanted], output) for source, wanted, output in final["examples"] if (source, wanted) in known
    ]
    if not rows:
        return ()
    draw_seen([look(predictor, pair, output) for pair, output in rows], folder.path / SEEN, folder.path.name)
    return (SEEN,)


def _tune(cell: str) -> Tune:
    """Return the tune of a cell; nothing, where it holds something else."""
    return parse(cell) if may_be_notes(cell) else []


def _card(ready: Ready, folder: RunFolder, final: dict[str, Any], inspected: bool = False) -> str:
    facts = {**folder.read_facts(), "parameters": final["parameters"]}
    return card(folder.path.name, ready.spec, facts, folder.read_choices()["reasons"], final, inspected)


def _final_scores(ready: Ready, folder: RunFolder, trainers: Sequence[Trainer], predictor: Predictor) -> dict[str, Any]:
    """Return the last line of the log: the scores of the finished run, and what it took."""
    trainer, spec = trainers[0], ready.spec
    progress = trainer.progress
    plan, valid = make_plan(spec.search, ready.sides), ready.valid
    further = dict(zip(spec.data.valid[1:], ready.prepared.further_valid))
    share = _affordable_share(trainer, len(valid) + sum(map(len, further.values())))
    running = ready.sides.running is not None
    sample = _sample(valid, share, running)
    evaluation = predictor.evaluate(sample, plan)
    spent, limit = limits(progress, trainer.effort.most, bool(trainer.augmentation.changes))
    shown_pairs = ready.sides.with_sources(sample)
    scored_as, references = ready.sides.scored_as, [pair.targets for pair in sample]
    confused = confusion(evaluation.outputs, references, scored_as) if scored_as in LABEL_KINDS else None
    return {
        "kind": "final",
        **({} if scored_as == "text" else {"target": scored_as}),
        "step": progress.best_step,
        "steps": progress.step,
        **evaluation.metrics,
        **({} if evaluation.baseline is None else {"baseline": evaluation.baseline.to_dict()}),
        **({NOT_APPLICABLE: without} if (without := table_of(scored_as).not_applicable(references)) else {}),
        "pairs": evaluation.n,
        "of": len(valid),
        "metric": spec.train.select,
        "search": plan.name,
        "signatures": table_of(scored_as).signatures(references),
        **_lexical(ready, folder, predictor),
        **({} if confused is None else {"confusion": confused.to_dict()}),
        **({"series": _series(ready.sides, sample, evaluation.outputs)} if scored_as == "numbers" else {}),
        "models": 1 + len(predictor.others),
        "steps_of_others": [newest_progress(member).evaluated_step for member in folder.trained_members()],
        "parameters": sum(p.model.parameter_count for p in (predictor, *predictor.others)),
        "examples": [[e.source, e.wanted, e.output] for e in examples(shown_pairs, evaluation.outputs, 6, scored_as)],
        **({"continuations": continuations(predictor, sample, SAMPLES)} if continues(spec.task) else {}),
        "seconds": round(sum(each.progress.seconds for each in trainers), 2),
        "spent": spent,
        "limit": limit,
        **({"ended": _ended(spec)} if trainer.ended_by_epochs else {}),
        "further": [_further_scores(predictor, plan, path, pairs, share) for path, pairs in further.items()],
    }


def _ended(spec: Spec) -> str:
    """Return what ended a training before its time."""
    assert spec.train.budget_seconds is not None
    return (
        f"the budget was {clock(spec.train.budget_seconds)}, but training ended at "
        f"train.max_epochs={spec.train.max_epochs:g} (0: use all of the time)"
    )


def _series(sides: Sides, pairs: Sequence[Pair], outputs: Sequence[str]) -> list[dict[str, Any]]:
    """Return a few predicted series with their truth, and their sources where these are numbers."""
    contents = NumbersKind().contents
    sources = [contents(pair.source) if isinstance(sides.source, Numbers) else "" for pair in pairs]
    targets = [contents(pair.targets[0]) for pair in pairs]
    return [example.to_dict() for example in series_examples(sources, outputs, targets)]


def _lexical(ready: Ready, folder: RunFolder, predictor: Predictor) -> dict[str, Any]:
    """Write what BM25 knows of words; return its weight beside the vectors, and what each brings on validation."""
    given = ready.spec.retrieve.lexical
    if ready.spec.task != "retrieve" or given == 0 or not lexical.is_installed():
        return {}
    valid = _sample(ready.valid, LEXICAL_PAIRS / max(1, len(ready.valid)), running=False)
    documents = {body(pair): None for pair in valid}
    for pair in islice(ready.prepared.training(), DISTRACTORS):
        documents[body(pair)] = None
    numbers = {text: row for row, text in enumerate(documents)}
    right = [numbers[body(pair)] for pair in valid]
    lexicons = [Lexicon.of(ready.prepared.training(), stemmer) for stemmer in STEMMERS]
    weights = lexical.WEIGHTS if given is None else (given,)
    queries = [pair.source for pair in valid]
    weighed = learn_weight(predictor, queries, right, list(documents), lexicons, weights)
    folder.write(WORDS, weighed.lexicon.to_json())
    parts = {name: getattr(weighed, name) for name in ("weight", "vectors", "bm25", "both")}
    return {"lexical": {"stemmer": weighed.lexicon.stemmer, **parts}}


def _further_scores(
    predictor: Predictor, plan: SearchPlan, path: str, pairs: Sequence[Pair], share: float
) -> dict[str, Any]:
    """Return the scores of a validation set after the first."""
    evaluation = predictor.evaluate(_sample(pairs, share, predictor.sides.running is not None), plan)
    without = table_of(predictor.sides.scored_as).not_applicable([pair.targets for pair in pairs])
    scores = {**evaluation.metrics, **({NOT_APPLICABLE: without} if without else {})}
    return {"file": path, **scores, "pairs": evaluation.n, "of": len(pairs)}


def _sample(pairs: Sequence[Pair], share: float, running: bool) -> list[Pair]:
    """Return a share of the pairs, evenly spread (of a running text the first); FEWEST_PAIRS, if there are so many."""
    count = min(len(pairs), max(FEWEST_PAIRS, math.floor(share * len(pairs))))
    if running:
        return list(pairs[:count])
    return [pairs[i] for i in np.linspace(0, len(pairs) - 1, count).astype(int)]


def _affordable_share(trainer: Trainer, pairs: int) -> float:
    """Return the share of the validation pairs that can be decoded in the time left for it: 1, if possible."""
    seconds = trainer.final_seconds(pairs)
    if trainer.budget.seconds is None or seconds == 0:
        return min(1.0, FINAL_PAIRS / pairs)
    left = max(trainer.budget.seconds - trainer.progress.seconds, 0.02 * trainer.budget.seconds)
    return min(1.0, left / seconds)
