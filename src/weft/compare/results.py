"""The result of one run, and the folder of a comparison.

    FOLDER/
      comparison.json      the request, what was chosen, and every variant's settings
      results.jsonl        one line per run, written as it ends
      runs/NAME-sN/        ordinary run folders, with outputs.jsonl: every validation output
      README.md            the ranked table, and what was compared
      score-time.png score-length.png

A run that is in results.jsonl as done is not trained again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from weft.compare.plan import ComparisonPlan
from weft.compare.scoring import LengthClass, Scores
from weft.core.errors import UserError
from weft.core.files import check_plain
from weft.core.pair import Pair
from weft.data.sides.table import shown
from weft.runs.folder import RunFolder, differences
from weft.runs.log import LogFile, finite
from weft.score.metrics import with_current_names
from weft.score.retrieval import Ranking
from weft.score.table import Likelihood
from weft.settings import flatten

VALIDATION = "outputs.jsonl"
CLOCKS = ("tokens_per_second", "seconds", "curve")  # of a result: they depend on the clock (of the curve, its seconds)
AnyOutput = str | Likelihood | Ranking


@dataclass(frozen=True)
class Result:
    """One line of results.jsonl; `cell` is the name of the variant."""

    cell: str
    seed: int
    status: Literal["done", "failed", "impossible"]
    settings: dict[str, Any]
    run: str = ""
    reason: str = ""
    metric: str = ""
    score: float | None = None
    valid: Scores | None = None
    tests: dict[str, Scores] = field(default_factory=dict)
    parameters: int = 0
    tokens_per_second: float = 0.0
    seconds: float = 0.0
    steps: int = 0
    curve: list[list[float]] = field(default_factory=list)  # seconds and score of each evaluation

    @property
    def done(self) -> bool:
        return self.status == "done"

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Result:
        valid = content["valid"] and _scores_from(content["valid"])
        return cls(**{**content, "valid": valid, "tests": {k: _scores_from(v) for k, v in content["tests"].items()}})


def _scores_from(content: dict[str, Any]) -> Scores:
    lengths = [LengthClass(**length_class) for length_class in content["lengths"]]
    metrics, blocks = with_current_names(content["metrics"]), [(total, n) for total, n in content["blocks"]]
    return Scores(metrics, content["pairs"], lengths, blocks)


class ComparisonFolder:
    """Paths and files of one comparison."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.plan_file = self.path / "comparison.json"
        self.results_file = self.path / "results.jsonl"
        self._files = RunFolder(self.path)

    def run(self, name: str, seed: int) -> RunFolder:
        return RunFolder(self.path / "runs" / f"{name}-s{seed}")

    def write(self, name: str, text: str) -> None:
        self._files.write(name, text)

    def open(self) -> AbstractContextManager[None]:
        """Make the folder if it is not there, and lock it against other processes."""
        if self.path.exists():
            check_plain(self.path)
        if not self.plan_file.exists():
            if self._files.is_run:
                raise UserError("this folder holds a run, not a comparison", str(self.path), "choose another --out")
            self._files.create()
        return self._files.locked()

    def read_plan(self) -> ComparisonPlan | None:
        if not self.plan_file.exists():
            return None
        try:
            return ComparisonPlan.from_json(self.plan_file.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError):
            todo = "restore the file, or choose another --out"
            raise UserError("the plan of this comparison cannot be read", str(self.plan_file), todo) from None

    def resume(self, plan: ComparisonPlan, request: dict[str, Any]) -> ComparisonPlan:
        """Return the plan to resume, with more seeds if the request has more; refuse another comparison."""
        more_seeds = request["seeds"] > len(plan.seeds)
        if more_seeds and not differences({**plan.request, "seeds": request["seeds"]}, request):
            plan = plan.with_seeds_of(request)
            self.write(self.plan_file.name, plan.to_json())
        if differences(plan.request, request):
            raise UserError(
                f"this folder holds a different comparison: {_contrast(plan.request, request)}",
                str(self.path),
                "run the same command as before to resume it, or choose another --out",
            )
        return plan

    def results(self) -> list[Result]:
        """Return the last line of each run; a line that a killed process left unfinished is dropped."""
        results: dict[tuple[str, int], Result] = {}
        for line in LogFile(self.results_file).lines():
            try:
                result = Result.from_dict(line)
            except (ValueError, KeyError, TypeError):
                continue
            results[result.cell, result.seed] = result
        return list(results.values())

    def cut_unfinished_line(self) -> None:
        """Cut off a line that a killed process left unfinished."""
        if self.results_file.exists():
            content = self.results_file.read_bytes()
            LogFile(self.results_file).cut(content.rfind(b"\n") + 1)

    def rewrite(self, results: Sequence[Result]) -> None:
        """Write all results in this order, each once, so that a comparison that was killed leaves what any other does.

        Only the fields that CLOCKS names differ.
        """
        text = "".join(json.dumps(finite(asdict(result)), ensure_ascii=False) + "\n" for result in results)
        if self.results_file.read_text(encoding="utf-8", errors="replace") != text:
            self.write(self.results_file.name, text)

    def add(self, result: Result) -> None:
        LogFile(self.results_file).write(asdict(result))


def write_outputs(run: RunFolder, name: str, pairs: Sequence[Pair], outputs: Sequence[AnyOutput]) -> None:
    """Write a line per pair: source, target, further references if there are any, and output, likelihood or ranking."""
    rows: list[dict[str, Any]] = []
    for pair, output in zip(pairs, outputs):
        references = {"references": pair.targets[1:]} if pair.references else {}
        rows.append({"source": shown(pair.source), "target": pair.targets[0], **references, "output": _as_json(output)})
    run.write(name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _as_json(output: AnyOutput) -> Any:
    return output if isinstance(output, str) else asdict(output)


def _from_json(output: Any) -> AnyOutput:
    if not isinstance(output, dict):
        return str(output)
    if output.keys() == {"ranks", "gains"}:
        return Ranking(tuple(output["ranks"]), tuple(output["gains"]))
    return Likelihood(**output)


def read_outputs(run: RunFolder, name: str = VALIDATION) -> tuple[list[AnyOutput], list[list[str]]]:
    """Return the outputs of a run (of language models likelihoods, of retrieval rankings), and their references."""
    try:
        text = (run.path / name).read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.split("\n") if line]  # a text may hold other ends of lines
        return [_from_json(row["output"]) for row in rows], [
            [row["target"], *row.get("references", ())] for row in rows
        ]
    except (OSError, ValueError, KeyError, TypeError):
        todo = "delete results.jsonl of the comparison and run its command again; no run is trained again"
        raise UserError("the outputs of this run cannot be read", str(run.path / name), todo) from None


def _contrast(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """`it has gru, and this command has elman instead`: what differs between two requests, in words."""
    before, after = dict(flatten(old)), dict(flatten(new))
    keys = [key for key in [*before, *(k for k in after if k not in before)] if before.get(key) != after.get(key)]
    both = [key for key in keys if before.get(key) is not None and after.get(key) is not None]
    theirs, ours = (
        ", ".join(filter(None, (_in_words(key, side.get(key), key in both) for key in keys)))
        for side in (before, after)
    )
    if not theirs or not ours:
        return f"it has {theirs}, and this command does not" if theirs else f"this command has {ours}, and it does not"
    return f"it has {theirs}, and this command has {ours} instead"


def _in_words(key: str, value: Any, in_both: bool) -> str:
    """Return one part of a request; its value where only that differs."""
    group, _, name = key.partition(".")
    if value is None or value is False:
        return ""
    if group in ("set", "config"):
        return f"{name}={value}"
    if group in ("variants", "tests"):
        label = name if group == "variants" else f"test set {name}"
        return f"{label} ({value})" if in_both else label
    if key == "seeds":
        return f"{value} seed{'' if value == 1 else 's'}"
    return {"match_parameters": "--match-parameters", "tokens": f"--tokens {value}"}.get(key, f"{key} {value}")
