"""`weft inspect`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import common

if TYPE_CHECKING:
    from weft.api import Run
    from weft.core.pair import Pair


def inspect(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help="The inputs to look at, each in quotes.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The page or the picture to write.", show_default="report.FORMAT", metavar="FILE"),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="Look at a table of pairs instead, the worst lines first.", metavar="FILE")
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            help="Names of views, separated by commas, or all.",
            show_default="attention and beam; for language models surprise; with --table also errors",
            metavar="NAMES",
        ),
    ] = None,
    force: Annotated[
        str | None, typer.Option(help="Look at this output instead of what the model writes.", metavar="TEXT")
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            help="Change something and decode again: input:3=x, input:3=, output:2=y, attention:4=2, head:cross.1.2 or "
            "unit:decode.1.17; can be repeated.",
            metavar="CHANGE",
        ),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            help="A unit to show in the views cells and neighbours, such as decode.1.c.17; can be repeated.",
            metavar="NAME",
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Numbers, one per symbol of the text; the view cells searches for units that track them.",
            metavar="FILE",
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            help="The time after which no further line or summary is begun; the rest is left out.", min=0, metavar="N"
        ),
    ] = 120,
    form: Annotated[
        str,
        typer.Option("--format", help="html (a page), or svg, png or pdf: a picture of one view.", metavar="FORMAT"),
    ] = "html",
    as_json: Annotated[
        Path | None, typer.Option("--json", help="Also write the numbers, as one JSON object.", metavar="FILE")
    ] = None,
) -> None:
    """Show what a run did and why, on one page that opens in any browser, without a network.

    Views: attention (what the model attended to), beam (the search), what-if (change something and decode again),
    surprise (what each symbol cost),
    errors (the mistakes in a table), faithful (whether attention can be trusted), heads (what each attention head
    does), gradients and field (how far back an input has influence), cells (what single units keep track of),
    neighbours (similar training lines), bottleneck (what the state passed from encoder to decoder contains), and
    storage (which part of the model the task depends on). With --view all, the page shows every view that
    suits the run, and says why the rest are missing.

    [bold]Examples[/]
      weft inspect my-run "a line" --out report.html
      weft inspect my-run --table test.tsv --out errors.html
      weft inspect my-run "a line" --view attention --force "an output" --json numbers.json
      weft inspect my-run "a line" --what-if input:3=x --what-if head:cross.1.1
      weft inspect my-run --table book.txt --view cells
    """
    from weft.api import load
    from weft.core.errors import UserError
    from weft.core.files import check_writable
    from weft.look.inspect.pictures import check_format

    if bool(inputs) == (table is not None):
        what = "give either input lines or --table" if inputs else "there is nothing to look at"
        raise UserError(what, "the command line", 'give an input ("a line"), or a table of pairs (--table FILE)')
    if force is not None and table is not None:
        raise UserError("--force is for single inputs", "--force", "leave out --force or --table")
    names = [] if view is None else [name.strip() for name in view.split(",") if name.strip()]
    check_format(form, names)
    out = Path(f"report.{form}") if out is None else out
    for path in (out, as_json):
        if path is not None:
            check_writable(path)
    loaded = load(run, strict=common.strict())
    report = loaded.inspect(
        _given(loaded, inputs or []),
        table=table,
        force=force,
        views=names,
        what_if=what_if or (),
        units=unit or (),
        labels=() if labels is None else _numbers(labels),
        seconds=seconds,
    )
    report.save(out, form)
    if as_json is not None:
        report.save_json(as_json)
    seen = {name for line in report.numbers["lines"] for name in line["views"]} | set(report.numbers["summary"])
    common.show(f"{out} · {', '.join(sorted(seen)) or 'no view'}")
    for name, reason in report.numbers["left_out"].items():
        common.complain(f"{name} is left out: {reason}", label="note")
    for note in report.numbers["notes"]:
        common.complain(note, label="note")


def _numbers(path: Path) -> list[float]:
    """Return the numbers in a file, separated by white space."""
    from weft.core.errors import UserError
    from weft.core.files import read_regular

    todo = "give a file with one number for each symbol of the text, separated by white space"
    try:
        return [float(cell) for cell in read_regular(path.parent, path.name, 1 << 26).decode().split()]
    except OSError as error:
        raise UserError(f"this file cannot be read: {error.strerror}", str(path), todo) from None
    except ValueError as error:
        raise UserError(f"this file does not hold numbers only: {error}", str(path), todo) from None


def _given(run: Run, inputs: list[str]) -> list[Pair]:
    """Return the input lines as pairs: source, context, tag and features, separated by tabs."""
    from weft.core.pair import Pair
    from weft.data.inputs import parse_inputs

    kinds, longest = run.predictor.sides.kinds, run.spec.data.longest
    each = [parse_inputs([line], run.columns, longest=longest, kinds=kinds) or [Pair("")] for line in inputs]
    return [pair for pairs in each for pair in pairs]
