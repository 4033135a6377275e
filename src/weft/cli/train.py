"""`weft train`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import common


def train(
    pairs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PAIRS…",
            help="TSV, CSV, JSONL (also .gz) or Parquet; - for stdin; or two parallel files as source.en:target.de",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder to create.", show_default="named after PAIRS: PAIRS-run", metavar="RUN"),
    ] = None,
    valid: Annotated[
        list[str] | None,
        typer.Option(
            help="Pairs to validate on; can be repeated. The best checkpoint is chosen by the score on the first file.",
            show_default="5 % of the pairs, at least 10, at most 1,000; none if there are fewer than 50 pairs",
            metavar="FILE",
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Wall-clock time, such as 90s, 10m, 1h30m.", show_default="10m", metavar="TIME")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="The number of updates, instead of a budget.", metavar="N")] = None,
    epochs: Annotated[
        float | None, typer.Option(help="The number of passes over the data, instead of a budget.", metavar="N")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file of settings.", metavar="FILE")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, such as decoder.cell=gru; can be repeated.", metavar="KEY=VALUE"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="The seed of all random numbers.", show_default="1", metavar="N")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out; if there is none, start it.")
    ] = False,
    init: Annotated[Path | None, typer.Option(help="Start from the weights of another run.", metavar="RUN")] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help=(
                "The task: transduce (write the target), classify (choose a label), "
                "classify-tokens (choose a label for each word), answer (select a span of a document), "
                "retrieve (find documents), language-model (continue a text), masked-lm (predict hidden tokens), "
                "denoise (restore a text)."
            ),
            show_default="transduce",
            metavar="TASK",
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
    features: Annotated[
        str | None, typer.Option(help="The column of features, such as V;PST;3;SG.", metavar="COLUMN")
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(help="A second input sequence, which the model reads along with the source.", metavar="COLUMN"),
    ] = None,
    tag: Annotated[str | None, typer.Option(help="The column of tags, such as a language.", metavar="COLUMN")] = None,
) -> None:
    """Train a model on pairs. What you do not set is chosen to suit the data, the time and the machine.

    [bold]Examples[/]
      weft train words.tsv --valid dev.tsv --budget 5m
      weft train train.en:train.de --valid val.en:val.de --out en-de
      weft train forms.tsv --features 3 --set decoder.cell=gru
      weft train reviews.csv --task classify --source text --target label
      weft train --out en-de --resume
      torchrun --nproc-per-node 2 -m weft train words.tsv --epochs 30

    weft --help lists further options, such as --on-bad-line skip.
    """
    from weft.api import train as train_run
    from weft.cli.summary import summarise
    from weft.runs.report import Quiet, reporter

    speaks = is_first_process()
    run = train_run(
        tuple(pairs or ()),
        out=out,
        valid=tuple(valid or ()) or None,
        budget=budget,
        steps=steps,
        epochs=epochs,
        config=config,
        settings=tuple(set_ or ()),
        seed=seed,
        resume=resume,
        init=init,
        task=task,
        source=common.column(source),
        target=common.column(target),
        context=common.column(context),
        features=common.column(features),
        tag=common.column(tag),
        on_bad_line=common.on_bad_line(),
        strict=common.strict(),
        reporter=reporter() if speaks else Quiet(),
        command=command_line(),
    )
    if speaks:
        summarise(run)


def is_first_process() -> bool:
    """Return whether this process reports; of torchrun's processes only the first does."""
    import os

    return os.environ.get("RANK", "0") == "0"


def command_line() -> str:
    import shlex

    return shlex.join(["weft", *sys.argv[1:]])
