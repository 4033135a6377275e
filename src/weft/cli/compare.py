"""`weft compare`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import common


def compare(
    pairs: Annotated[
        list[str],
        typer.Argument(
            metavar="PAIRS…", help="Pairs to train on, in any form that weft train reads.", show_default=False
        ),
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="A setting and its values, such as decoder.cell=lstm,gru; repeat it to train all combinations.",
            metavar="KEY=A,B,…",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="The budget of each run: a time such as 90s or 5m, or target tokens such as 2Mtokens.",
            show_default="10m",
            metavar="TIME|TOKENS",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="The number of updates per run, instead of a budget.", metavar="N")
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="The number of passes over the data per run, instead of a budget.", metavar="N")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="The task, as for weft train.", show_default="transduce", metavar="TASK")
    ] = None,
    seeds: Annotated[int, typer.Option(help="The number of runs per combination, with seeds 1, 2, …", metavar="N")] = 3,
    valid: Annotated[
        str | None,
        typer.Option(
            help="Pairs to compare the runs on.",
            show_default="5 % of the pairs, at least 10, at most 1,000; none if there are fewer than 50 pairs",
            metavar="FILE",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder to create or to continue.",
            show_default="named after PAIRS: PAIRS-compare",
            metavar="FOLDER",
        ),
    ] = None,
    match_parameters: Annotated[
        bool,
        typer.Option(
            "--match-parameters", help="Choose widths that give every combination the same number of parameters."
        ),
    ] = False,
    config: Annotated[Path | None, typer.Option(help="A YAML file of settings for all runs.", metavar="FILE")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A setting for all runs, such as train.rate=0.001; can be repeated.", metavar="KEY=VALUE"
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="The source column: a number or a name.", show_default="found by name, otherwise 1", metavar="COLUMN"
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The target column.", show_default="found by name, otherwise 2", metavar="COLUMN")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="A second input sequence, as for weft train.", metavar="COLUMN")
    ] = None,
    features: Annotated[str | None, typer.Option(help="The column of features.", metavar="COLUMN")] = None,
    tag: Annotated[str | None, typer.Option(help="The column of tags, such as a language.", metavar="COLUMN")] = None,
) -> None:
    """Train every combination of some settings under equal conditions, and rank them.

    All runs have the same pairs, tokens, budget and seeds. Settings that you do not give are chosen once, ignoring the
    varied settings, and are the same in all runs. Runs differ only in the settings you vary, and in settings that
    depend on them, such as the number of attention heads when encoder.kind varies. To continue after Ctrl-C, run the
    same command again: finished runs are kept.

    [bold]Examples[/]
      weft compare words.tsv --vary decoder.cell=elman,lstm,gru,mut1 --budget 5m
      weft compare words.tsv --vary encoder.layers=1,2 --vary decoder.layers=1,2
      weft compare words.tsv --vary encoder.kind=recurrent,transformer \\
        --valid dev.tsv --budget 2Mtokens --seeds 2 --match-parameters
    """
    from weft.cli.train import command_line
    from weft.compare.compare import compare as run_comparison
    from weft.compare.rank import EXPLANATION

    roles = {"task": task, "data.context": context}
    compared = run_comparison(
        tuple(pairs),
        vary=tuple(vary or ()),
        out=out,
        valid=[valid] if valid else None,
        budget=budget,
        steps=steps,
        epochs=epochs,
        seeds=seeds,
        match_parameters=match_parameters,
        config=config,
        settings=(*(f"{key}={value}" for key, value in roles.items() if value is not None), *(set_ or ())),
        source=common.column(source),
        target=common.column(target),
        features=common.column(features),
        tag=common.column(tag),
        on_bad_line=common.on_bad_line(),
        command=command_line(),
    )
    table = common.table(*compared.table())
    for column in table.columns:
        column.justify = "left" if column.header in compared.word_columns else column.justify
    page, runs = compared.path / "README.md", compared.path / "runs"
    common.show(table, EXPLANATION, "", f"table {page} · plots score-time.png, score-length.png · runs {runs}")
