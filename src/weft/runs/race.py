"""A race: where the data leave open which settings are best, each candidate trains for a while, and the best goes on.

RUN/race has the candidates (candidates.json), their runs (1, 2, …), and when it is over the outcome (result.json); a
race that was broken off goes on like any run. Candidates are compared by their validation loss in nats per character
of a target, which does not depend on how text is cut. The winner's settings become the run's, and its time is counted.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weft.core.errors import WentAstray
from weft.core.reporting import Reporter
from weft.learn.loop import Trainer
from weft.runs.folder import RunFolder
from weft.runs.job import Ready, learn_tokenisers
from weft.runs.members import Among
from weft.runs.report import clock
from weft.settings import Composed, compose
from weft.spec import Spec

SHARE = 0.15  # of the budget, for all candidates together
PAIRS = 200  # to validate on, at most
RESULT = "result.json"


@dataclass(frozen=True)
class Candidate:
    name: str
    composed: Composed
    reasons: list[list[str]]


def winner(folder: RunFolder) -> Path | None:
    """The winner's own run, if there was a race."""
    result = _read(folder, RESULT)
    return folder.race / str(result["winner"]) if result else None


def run(
    ready: Ready, folder: RunFolder, reporter: Reporter, train: Callable[[Ready, RunFolder, Reporter], Trainer]
) -> Ready:
    """What the run goes on as: `ready` itself, if there is no race or it is over."""
    candidates = _candidates(folder)
    if not candidates or ready.spec.train.raced:
        return ready
    if not _read(folder, RESULT):
        _hold(candidates, ready, folder, reporter, train)
    return _install(candidates, ready, folder)


def _hold(
    candidates: Sequence[Candidate],
    ready: Ready,
    folder: RunFolder,
    reporter: Reporter,
    train: Callable[[Ready, RunFolder, Reporter], Trainer],
) -> None:
    assert ready.spec.train.budget_seconds is not None
    seconds = SHARE * ready.spec.train.budget_seconds / len(candidates)
    losses, spent = list[float](), 0.0
    for number, candidate in enumerate(candidates, 1):
        reporter.note(f"trying {candidate.name} for {clock(seconds)}")
        own = RunFolder(folder.race / str(number))
        one = _opened(_trial(candidate.composed.spec, seconds), candidate, ready, folder, own)
        try:
            trainer = train(one, own, Among(reporter, number - 1, len(candidates), seconds))
        except WentAstray as error:  # the run itself may do well
            if number == len(candidates) and all(map(math.isinf, losses)):
                raise
            reporter.note(f"{candidate.name} is out: {error.what}")
            losses.append(math.inf)
            continue
        losses.append(_nats_per_character(trainer))
        spent += trainer.progress.seconds
    best = min(range(len(losses)), key=losses.__getitem__)
    names = {c.name: round(loss, 4) for c, loss in zip(candidates, losses)}
    told = ", ".join(f"{name} {loss:.3f}" for name, loss in names.items())
    reporter.note(f"{candidates[best].name} goes on (nats per character: {told})")
    finite = {name: loss for name, loss in names.items() if math.isfinite(loss)}
    result = {"winner": best + 1, "nats_per_character": finite, "seconds": round(spent, 2)}
    RunFolder(folder.race).write(RESULT, json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def _trial(spec: Spec, seconds: float) -> Spec:
    """The same for a short time, judged once."""
    pairs = min(PAIRS, max(20, spec.train.valid_pairs // 5))
    own = {"budget_seconds": seconds, "members": 1, "evaluations": 1, "valid_pairs": pairs}
    return spec.model_copy(update={"train": spec.train.model_copy(update=own)})


def _opened(spec: Spec, candidate: Candidate, ready: Ready, folder: RunFolder, own: RunFolder) -> Ready:
    """A run of its own; one that was begun is read."""
    if own.is_run:
        spec, (source, target) = own.read_spec(), own.read_tokenisers()
    else:
        source, target = learn_tokenisers(ready.prepared, spec)
        own.create()
        own.write_tokenisers(source, target)
        own.write_facts({**folder.read_facts(), "folder": str(own.path)})
        own.write_spec(spec, candidate.composed.origins, candidate.reasons)
    corpus = ready.prepared.corpus(source, target, spec.data.augmented)
    return Ready(spec, source, target, corpus, ready.prepared)


def _nats_per_character(trainer: Trainer) -> float:
    validator, loss = trainer.validator, trainer.progress.best_loss
    symbols = sum(len(target) + 1 for target in validator.targets)
    characters = sum(len(pair.target) + 1 for pair in validator.pairs)
    return math.inf if loss is None else loss * symbols / characters


def _install(candidates: Sequence[Candidate], ready: Ready, folder: RunFolder) -> Ready:
    """The run becomes what won; `train.raced` is written last, so that this is done again if it is broken off."""
    result = _read(folder, RESULT)
    home, candidate = RunFolder(folder.race / str(result["winner"])), candidates[result["winner"] - 1]
    spec = candidate.composed.spec
    spec = spec.model_copy(update={"train": spec.train.model_copy(update={"raced": result["seconds"]})})
    source, target = home.read_tokenisers()
    corpus = ready.prepared.corpus(source, target, spec.data.augmented)
    facts = {key: fact for key, fact in folder.read_facts().items() if key != "sums"}
    folder.write("data.json", json.dumps(facts) + "\n")  # without the sums of tokenisers that are about to change
    folder.write_tokenisers(source, target)
    folder.write_facts(facts)
    told = ", ".join(f"{name} {loss:.3f}" for name, loss in result["nats_per_character"].items())
    why = ["train.raced", str(result["seconds"]), f"{candidate.name} won a race (nats per character: {told})"]
    folder.write_spec(spec, {**candidate.composed.origins, "train.raced": "autopilot"}, [*candidate.reasons, why])
    for number in range(1, len(candidates) + 1):
        if number != result["winner"]:
            shutil.rmtree(folder.race / str(number) / "checkpoints", ignore_errors=True)
    return replace(ready, spec=spec, source=source, target=target, corpus=corpus)


def _candidates(folder: RunFolder) -> list[Candidate]:
    return [
        Candidate(one["name"], Composed(compose(("file", one["spec"])).spec, one["origins"]), one["reasons"])
        for one in _read(folder, "candidates.json") or []
    ]


def _read(folder: RunFolder, name: str) -> Any:
    """What is in a file of the race; None where there is no such file."""
    path = folder.race / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
