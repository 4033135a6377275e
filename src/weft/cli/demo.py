"""`weft demo`"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli import common

PAIRS, SHARES = 24_000, (0.92, 0.03)
SHOWN = 12
OWN = re.compile(r"weft (?:--\S+ (?:[^-\s]\S* )?)*demo\b")  # the command of a run that it may make anew
ABOUT = "about.txt"  # of a folder that the demo may write over


def demo(
    out: Annotated[Path, typer.Option(help="The run folder to create.", metavar="RUN")] = Path("dates-run"),
    budget: Annotated[str, typer.Option(help="The time for training.", metavar="TIME")] = "170s",
    seed: Annotated[int, typer.Option(help="The seed of the dates and of training.", metavar="N")] = 1,
) -> None:
    """Train a model that reads dates in ten languages and writes them as ISO 8601.

    Dates come in many styles ("dimanche 15 novembre 2026", "15.11.26", "Nov 15, 2026"). The locale is given as a tag,
    because 03/04/26 means 4 March in some countries and 3 April in others.

    [bold]Examples[/]
      weft demo
      weft demo --out /tmp/dates --budget 5m
    """
    import shutil

    from weft.api import train
    from weft.cli.train import command_line
    from weft.core.errors import Interrupted, UserError
    from weft.learn.budget import parse_seconds
    from weft.recipes.dates import dates, split_by_target, write_tsv
    from weft.runs.folder import RunFolder
    from weft.runs.report import reporter

    parse_seconds(budget)  # before anything is written
    data = out.with_name(f"{out.name}-data")
    if data.exists() and not (data / ABOUT).exists():
        what = "this folder exists already, and the demo would write its dates into it"
        raise UserError(what, str(data), "choose another --out, or remove the folder")
    if RunFolder(out).is_run and OWN.match(str(RunFolder(out).read_facts().get("command"))):  # a demo of before
        shutil.rmtree(out)
    RunFolder(out).check_free()
    data.mkdir(parents=True, exist_ok=True)
    parts = split_by_target(dates(PAIRS, seed), SHARES)
    (data / ABOUT).write_text("Dates that `weft demo` made, and makes again.\n", encoding="utf-8")
    for name, part in zip(("train", "valid", "test"), parts):
        write_tsv(part, data / f"{name}.tsv")
    counts = [len(part) for part in parts]
    common.show(
        f"Learning to write dates as ISO 8601: {counts[0]:,} dates in ten languages for training, "
        f"{counts[1]:,} for validation, and {counts[2]:,} on unseen days for testing.",
        f"By hand:  weft train {data}/train.tsv --valid {data}/valid.tsv --tag 3 --budget {budget}",
        "",
    )
    try:
        run = train(
            str(data / "train.tsv"),
            valid=str(data / "valid.tsv"),
            tag=3,
            out=out,
            budget=budget,
            seed=seed,
            reporter=reporter(),
            command=command_line(),
        )
    except Interrupted as stopped:
        todo = f"resume it with `weft train --out {out} --resume`; weft demo starts again"
        raise Interrupted(stopped.what, stopped.where, todo) from stopped
    _show(run, parts[2])


def _show(run: Any, test: list[Any]) -> None:
    from weft.look.attention import heat_maps

    scores = run.evaluate(test)
    chosen = [test[len(test) * i // SHOWN] for i in range(SHOWN)]
    outputs = dict(zip(test, scores.outputs))
    rows = [
        [
            "✓" if outputs[p] == p.target else "✗",
            p.tag,
            p.source,
            outputs[p],
            "" if outputs[p] == p.target else p.target,
        ]
        for p in chosen
    ]
    table = common.table(["", "locale", "input", "output", "expected"], rows, words=True)
    picture = run.path / "attention.png"
    longest = sorted(chosen, key=lambda p: -len(p.source))[:2] + sorted(chosen, key=lambda p: len(p.source))[:2]
    heat_maps([(*run.predictor.alignment(p, outputs[p]), f"{p.tag}: {p.source}") for p in longest], picture)
    wrong = [p for p in test if outputs[p] != p.target]
    common.show(table, f"exact on {scores.n:,} dates of unseen days: {scores['exact']:.2f} %")
    if wrong:
        common.show("wrong: " + "; ".join(f"{p.tag} {p.source} → {outputs[p]} ({p.target})" for p in wrong[:3]))
    page = run.path / "inspection.html"
    inspection = f" · inspection of six examples: {page}" if page.exists() else ""
    common.show(
        "",
        f"attention: {picture}{inspection} · model card: {run.path / 'README.md'} · curves: {run.path / 'curves.png'}",
        f"next:  printf 'lundi 3 mars 1997\\tfr\\n' | weft predict {run.path}",
    )
