"""What a person sees when training is over: the scores, the time, where everything is, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.api import Run
from weft.cli import common
from weft.data.prepare import counted
from weft.look.card import validated_on_training
from weft.look.commands import commands
from weft.runs.log import LogFile
from weft.runs.report import clock, worth_telling
from weft.score.metrics import table_for
from weft.tasks import unit_of


def scored_pairs(final: dict[str, Any], unit: str = "pair", on_training: bool = False) -> str:
    """`450 validation pairs`, or `a sample of 158 of the 450 validation pairs` when time was short."""
    which = "training" if on_training else "validation"
    note = " (none are held out)" if on_training else ""
    if final["pairs"] < final.get("of", 0):
        return f"a sample of {final['pairs']:,} of the {final['of']:,} {which} {unit}s{note}"
    return f"{counted(final['pairs'], f'{which} {unit}')}{note}"


def beside_baseline(rows: list[list[str]], result: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows of a table, [metric, value], with the baseline's value in each if the result has one."""
    baseline = result.get("baseline")
    if not baseline:
        return rows
    table = table_for(result)
    return [[*row, table[row[0]].show(baseline[row[0]]) if row[0] in baseline else ""] for row in rows]


def show_scores(title: str, rows: list[list[str]], result: Mapping[str, Any]) -> None:
    """Show a table of scores, and below it how its baseline is made."""
    baseline = result.get("baseline")
    common.show(title, common.table(["metric", "value", *(["baseline"] if baseline else [])], rows))
    if baseline:
        common.show(f"baseline: {baseline['name']}")


def summarise(run: Run) -> None:
    """Show the scores of a finished run, what it took, and what to do next."""
    final = LogFile(run.folder.log).last()
    rows = beside_baseline([list(row) for row in worth_telling(final).items()], final)
    rows.append(["loss", f"{final['loss']:.3f}" if final.get("loss") is not None else "—"])
    models, unit = final.get("models", 1), unit_of(run.spec.task)
    which = f"checkpoint of step {final['step']:,}" if models == 1 else f"ensemble of {models} models"
    search = [final["search"]] if final.get("target", "text") == "text" else []  # a search over symbols
    on_training = validated_on_training(run.folder.read_facts())
    title = f"{run.path}: {', '.join([scored_pairs(final, unit, on_training), *search, which])}"
    show_scores(title, rows, final)
    for scores in final.get("further") or []:
        of_set = {**scores, "target": final.get("target", "text")}
        shown = " · ".join(f"{name} {value}" for name, value in worth_telling(of_set).items())
        common.show(f"{scores['file']}: {scored_pairs(scores, unit)}: {shown}")
    common.show(
        f"trained {clock(final['seconds'])}, {_steps([final['steps'], *final.get('steps_of_others', [])])}, "
        f"{final['parameters']:,} parameters",
        *([final["ended"]] if "ended" in final else []),
        *_limit(final),
        f"model card {run.path / 'README.md'} · curves {run.path / 'curves.png'} · settings {run.path / 'spec.yaml'}",
        "",
        "next:  " + "   or   ".join(commands(run.spec, run.path)[:2]),
    )


def _steps(each: list[int]) -> str:
    """Return the steps of one model, or the fewest and the most of several."""
    least, most = min(each), max(each)
    if len(each) == 1:
        return counted(most, "step")
    return f"{counted(most, 'step')} each" if least == most else f"{least:,} to {most:,} steps each"


def _limit(final: dict[str, Any]) -> list[str]:
    """Return where the time went, and what limited the speed."""
    if "limit" not in final:  # a run of an earlier version
        return []
    spent = ", ".join(f"{name} {share:.0%}" for name, share in final["spent"].items() if share >= 0.005)
    return [f"time: {spent}", f"limited by {final['limit']}"]
