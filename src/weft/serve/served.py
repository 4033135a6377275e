"""A run that answers under a name: its model, how it reads inputs, and which searches it allows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from weft.api import Run, load
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data.cells import InputChecks
from weft.data.sides.side import measure_of
from weft.predict import engines
from weft.predict.engines import Detail, Translator
from weft.predict.predictions import Prediction
from weft.search.decode import SearchPlan
from weft.serve.errors import Problem, invalid, of_user_error
from weft.serve.fields import fields_of
from weft.serve.settings import Serve

IN_ORDER = json.JSONEncoder(sort_keys=True)
PLANS = 256  # that are kept, so that the same settings are not checked for every request
SEARCHES = ("beam", "greedy", "sample")
CODE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")
LANGUAGES = re.compile(rf"({CODE.pattern})(?:-|:|→)({CODE.pattern})")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Served:
    """A loaded run; everything that reads files has happened when it exists."""

    def __init__(self, name: str, path: str | Path, settings: Serve, strict: bool = False) -> None:
        self.name, self.settings = name, settings
        self.run: Run = load(path, strict=strict)
        if self.run.spec.task == "retrieve":
            what = "a run trained with --task retrieve cannot be served, because the server has no documents to search"
            raise UserError(what, str(path), "use `weft predict RUN --among FILE`")
        self.predictor = self.run.predictor
        sides = self.predictor.sides
        self._source_cost = measure_of(sides.target if sides.alone else sides.source)
        self._context_cost = None if sides.context is None else measure_of(sides.context)
        self.fields = fields_of(self.run)
        self._checks = InputChecks(self.predictor.sides.kinds, self.run.spec.data.longest)
        self.languages = languages_of(name, settings.languages.get(name), self.run)
        self._hidden = [str(self.run.path), str(self.run.path.resolve())]
        self._translator = self._exported()
        self._checked = lru_cache(PLANS)(self._checked_plan)

    def _exported(self) -> Translator | None:
        """Open the run's export once; it is used for what it can search."""
        try:
            return engines.choose(self.settings.engine, self.run.folder, self.predictor, self.predictor.plan(), "score")
        except UserError:
            if self.settings.engine == "ctranslate2" and engines.why_not(self.predictor, SearchPlan(), "score") is None:
                raise
            return None

    def plan(self, search: Mapping[str, Any], nbest: int = 1, prefix: str = "") -> SearchPlan:
        """Plan a search as a client asks for it; Problem if a limit or the run does not allow it."""
        return self._checked(IN_ORDER.encode(dict(search)), nbest, prefix)

    def _checked_plan(self, search: str, nbest: int, prefix: str) -> SearchPlan:
        changes, limits = json.loads(search), self.settings.limits
        for name, given, most in (
            ("search.width", changes.get("width", 1), limits.beam),
            ("nbest", nbest, limits.nbest),
        ):
            if isinstance(given, int) and given > most:
                raise invalid(f"{name} is at most {most:,} on this server", f"{name}={given}", f"give {most} or less")
        if "seconds" in changes:
            raise invalid("the server sets the time of a search", "search.seconds", "leave it out")
        try:
            plan = self.predictor.plan(self.run.search(changes), nbest, prefix)
        except UserError as error:
            raise self.told(error) from None
        if plan.length is not None and plan.length > limits.output:
            raise invalid(f"outputs have at most {limits.output:,} steps", "search.length", "give a smaller length")
        return replace(plan, seconds=0.0, max_symbols=limits.output)

    def engine(self, plan: SearchPlan, detail: Detail) -> Translator | None:
        """Return CTranslate2 for the searches that it can do, where the run has an export."""
        allowed = self._translator is not None and engines.why_not(self.predictor, plan, detail) is None
        return self._translator if allowed else None

    def check(self, pair: Pair, where: str) -> Pair:
        """Return an input that the run can read; Problem otherwise. An empty source has an empty output."""
        given = {"tag": pair.tag.strip(), "features": pair.features, "context": pair.context.strip()}
        missing = [role for role in self.fields if role in given and not given[role]] if pair.source.strip() else []
        if missing:
            example = ", ".join(f'"{role}": …' for role in self.fields)
            name = self.fields[missing[0]].name or missing[0]
            raise invalid(f"this input has no {name}", f"{where}.{missing[0]}", f"add it: {{{example}}}")
        fault = self._checks.fault(pair)
        if fault is not None:
            role, what = fault[0], fault[1].what
            if role == "target":  # an input of a model that continues targets
                role, what = "source", what.replace("the target", "the prompt")
            raise invalid(what, f"{where}.{role}", fault[1].todo)
        return self._checks.read(pair)

    def cost(self, pair: Pair) -> int:
        """Return how much room an input takes in a batch."""
        context = 0 if self._context_cost is None else self._context_cost(pair.context)
        return context + (self._source_cost(pair.source) if pair.source else 0)

    def predict(
        self, pairs: Sequence[Pair], plan: SearchPlan, lines: Sequence[int], detail: Detail
    ) -> list[Prediction]:
        """Predict; the numbers of the lines are those of their requests, so that a sample does not depend on others."""
        try:
            return self.predictor.predict(pairs, plan, lines=lines, engine=self.engine(plan, detail))
        except UserError as error:
            raise self.told(error) from None

    def told(self, error: UserError) -> Problem:
        """Return what a client is told of a mistake in a request."""
        return of_user_error(error, self._hidden)

    def notes(self, pairs: Sequence[Pair]) -> list[str]:
        """Return what is unusual about the inputs."""
        notes = self.predictor.input_notes()
        notes.see(pairs)
        return list(notes.texts())

    def alignment(self, pair: Pair, output: str) -> dict[str, Any] | None:
        """Return what each token of an output looked at; None where the model has no attention to show."""
        if not pair.source.strip() or self.predictor.sides.target_kind != "text":
            return None
        try:
            source, target, weights = self.predictor.alignment(pair, output)
        except (UserError, AssertionError):
            return None
        return {"source": source, "target": target, "weights": [[round(float(w), 4) for w in row] for row in weights]}

    def _can(self, kind: str) -> bool:
        try:
            self.plan({"kind": kind})
        except Problem:
            return False
        return True

    def describe(self) -> dict[str, Any]:
        """Return what a client has to know of the run; nothing about the machine that it is on."""
        search = self.run.spec.search.model_dump(exclude={"seconds"})
        return {
            "name": self.name,
            "task": self.run.spec.task,
            "inputs": [field.described() for field in self.fields.values()],
            "target": self.predictor.sides.target_kind,
            "searches": [kind for kind in SEARCHES if self._can(kind)],
            "search": search,
            "languages": [list(pair) for pair in self.languages],
        }


def languages_of(name: str, given: str | None, run: Run) -> dict[tuple[str, str], str]:
    """Return the languages that a run translates between, with the tag that asks for each.

    They are those of the setting (en-de, or en-de,en-fr for a run with tags), or of the name of the run, or of the
    names of its columns.
    """
    data = run.spec.data
    by_columns = f"{data.source}-{data.target}" if isinstance(data.source, str) and isinstance(data.target, str) else ""
    for text in (given,) if given is not None else (name, by_columns):
        matches = [LANGUAGES.fullmatch(part.strip()) for part in text.split(",")]
        pairs = [(match[1], match[2]) for match in matches if match is not None]
        if len(pairs) == len(matches):
            return {pair: pair[1] if data.tagged else "" for pair in pairs}
    if given is not None:
        raise UserError(f"'{given}' is not a pair of languages", f"languages.{name}", "write two codes, such as en-de")
    return {}


def named_runs(arguments: Sequence[str]) -> dict[str, Path]:
    """Return the runs by name: `NAME=FOLDER`, or a folder, which is its own name."""
    runs: dict[str, Path] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or not NAME.fullmatch(name):
            name, path = (
                re.sub(r"[^A-Za-z0-9._-]+", "-", Path(argument).resolve().name).lstrip("._-") or "run",
                argument,
            )
        if name in runs:
            what = f"two runs have the name '{name}'"
            raise UserError(what, argument, f"give one of them another name: NAME={path}")
        runs[name] = Path(path)
    return runs


def unknown_run(name: str, known: Sequence[str]) -> Problem:
    return Problem(404, f"there is no run '{name[:100]}'", "run", f"choose from: {', '.join(known)}")
