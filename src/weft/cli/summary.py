"""What a person sees when training is over: the score, the time, where everything is, and what to type next."""

from __future__ import annotations

from typing import Any

from weft.api import Run
from weft.cli import common
from weft.runs.log import LogFile
from weft.runs.report import clock, worth_telling


def of_all(final: dict[str, Any]) -> str:
    """`450 validation pairs`, or `158 of 450 …` when the time was not enough for all."""
    part = final["pairs"] < final.get("of", 0)
    return f"{final['pairs']:,} of {final['of']:,} validation pairs" if part else f"{final['pairs']:,} validation pairs"


def summarise(run: Run) -> None:
    final = LogFile(run.folder.log).last()
    rows = [list(scored) for scored in worth_telling(final).items()]
    rows.append(["loss", f"{final['loss']:.3f}" if final.get("loss") is not None else "—"])
    models = final.get("models", 1)
    which = f"best of step {final['step']:,}" if models == 1 else f"{models} models together"
    title = f"{run.path}: {of_all(final)}, {final['search']}, {which}"
    common.show(title, common.table(["metric", "value"], rows))
    common.show(
        f"trained {clock(final['seconds'])}, {_steps([final['steps'], *final.get('steps_of_others', [])])}, "
        f"{final['parameters']:,} parameters",
        *_limit(final),
        f"model card {run.path / 'README.md'} · curves {run.path / 'curves.png'} · settings {run.path / 'spec.yaml'}",
        "",
        f"next:  weft predict {run.path} FILE   or   weft evaluate {run.path} PAIRS",
    )


def _steps(each: list[int]) -> str:
    """Of one model, or of the least and the most trained of several."""
    least, most = min(each), max(each)
    return f"{most:,} steps" if len(each) == 1 else f"{least:,} to {most:,} steps each"


def _limit(final: dict[str, Any]) -> list[str]:
    """Where the time went, and what set the pace."""
    if "limit" not in final:  # a run of an older Weft
        return []
    spent = ", ".join(f"{name} {share:.0%}" for name, share in final["spent"].items() if share >= 0.005)
    return [f"time: {spent}", f"what limits it: {final['limit']}"]
