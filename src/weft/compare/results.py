"""What a run of the comparison gave, and the folder that holds it all.

    FOLDER/
      comparison.json      what was asked and chosen, and every cell's settings
      results.jsonl        one line a run, written as it ends
      runs/NAME-sN/        ordinary run folders, with outputs.jsonl: every validation output
      README.md            the ranked table, and what was compared
      score-time.png score-length.png

A run that is in results.jsonl as done is not made again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from weft.compare.lengths import LengthClass
from weft.compare.plan import Plan
from weft.compare.scoring import Scored
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.runs.folder import RunFolder, differences
from weft.runs.log import LogFile
from weft.score.metrics import with_current_names

VALIDATION = "outputs.jsonl"


@dataclass(frozen=True)
class Result:
    """One line of results.jsonl."""

    cell: str
    seed: int
    status: Literal["done", "failed", "impossible"]
    settings: dict[str, Any]
    run: str = ""
    reason: str = ""
    metric: str = ""
    score: float | None = None
    valid: Scored | None = None
    tests: dict[str, Scored] = field(default_factory=dict)
    parameters: int = 0
    tokens_per_second: float = 0.0
    seconds: float = 0.0
    steps: int = 0
    curve: list[list[float]] = field(default_factory=list)  # seconds and score at each evaluation

    @property
    def done(self) -> bool:
        return self.status == "done"

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Result:
        valid = content["valid"] and _scored(content["valid"])
        return cls(**{**content, "valid": valid, "tests": {k: _scored(v) for k, v in content["tests"].items()}})


def _scored(content: dict[str, Any]) -> Scored:
    lengths = [LengthClass(**one) for one in content["lengths"]]
    return Scored(
        with_current_names(content["metrics"]),
        content["pairs"],
        lengths,
        [(total, n) for total, n in content["blocks"]],
    )


class GridFolder:
    """Paths and files of one comparison."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.plan_file = self.path / "comparison.json"
        self.results_file = self.path / "results.jsonl"
        self._own = RunFolder(self.path)

    def run(self, cell: str, seed: int) -> RunFolder:
        return RunFolder(self.path / "runs" / f"{cell}-s{seed}")

    def write(self, name: str, text: str) -> None:
        self._own.write(name, text)

    def open(self) -> AbstractContextManager[None]:
        """Make the folder if it is not there; inside, nobody else writes to it."""
        if not self.plan_file.exists():
            if self._own.is_run:
                raise UserError("this folder holds a run, not a comparison", str(self.path), "choose another --out")
            self._own.create()
        return self._own.locked()

    def read_plan(self) -> Plan | None:
        if not self.plan_file.exists():
            return None
        try:
            return Plan.from_json(self.plan_file.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError):
            todo = "restore the file, or choose another --out"
            raise UserError("the plan of this comparison cannot be read", str(self.plan_file), todo) from None

    def go_on(self, plan: Plan, asked: dict[str, Any]) -> Plan:
        """The plan to go on with, of more seeds if that is asked for; another comparison is refused."""
        if asked["seeds"] > len(plan.seeds) and not differences({**plan.asked, "seeds": asked["seeds"]}, asked):
            plan = plan.longer(asked)
            self.write(self.plan_file.name, plan.to_json())
        changed = differences(plan.asked, asked)
        if changed:
            raise UserError(
                f"this folder holds another comparison: {'; '.join(changed)}",
                str(self.path),
                "give the command as it was to go on, or choose another --out",
            )
        return plan

    def results(self) -> list[Result]:
        """What has ended so far, the last line of each run; a line that a killed process left half is dropped."""
        found: dict[tuple[str, int], Result] = {}
        for line in LogFile(self.results_file).lines():
            try:
                result = Result.from_dict(line)
            except (ValueError, KeyError, TypeError):
                continue
            found[result.cell, result.seed] = result
        return list(found.values())

    def mend(self) -> None:
        """Cut off a line that a killed process left half."""
        if self.results_file.exists():
            content = self.results_file.read_bytes()
            LogFile(self.results_file).cut(content.rfind(b"\n") + 1)

    def add(self, result: Result) -> None:
        LogFile(self.results_file).write(asdict(result))


def write_outputs(run: RunFolder, name: str, pairs: Sequence[Pair], outputs: Sequence[str]) -> None:
    rows = [{"source": p.source, "target": p.target, "output": said} for p, said in zip(pairs, outputs)]
    run.write(name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def read_outputs(run: RunFolder, name: str = VALIDATION) -> tuple[list[str], list[str]]:
    """The outputs of a run and the targets that were wanted."""
    try:
        text = (run.path / name).read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.split("\n") if line]  # a text may hold other ends of lines
        return [row["output"] for row in rows], [row["target"] for row in rows]
    except (OSError, ValueError, KeyError):
        todo = "delete results.jsonl of the comparison and give its command again: the runs are not made again"
        raise UserError("the outputs of this run cannot be read", str(run.path / name), todo) from None
