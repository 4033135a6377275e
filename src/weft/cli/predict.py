"""`weft predict`"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import common
from weft.cli.tunes import STEP_SECONDS, check_flags, tune_writer

if TYPE_CHECKING:
    from weft.api import Run
    from weft.core.pair import Pair
    from weft.data.pairs import ReadReport
    from weft.predict.engines import Detail
    from weft.predict.predictions import Prediction, Predictions

FIRST_LINES = 20  # looked at to see whether they are pairs rather than sources
LABELS = ("label", "labels", "hidden")  # the kinds of outputs whose probability is shown
DETAIL: dict[str, Detail] = {"text": "text", "tsv": "score", "jsonl": "tokens", "midi": "text"}  # by format
SEARCH_FLAGS = {
    "search.width": "--beam",
    "search.kind sample": "--sample",
    "search.temperature": "--temperature",
    "search.top_k": "--top-k",
    "search.top_p": "--top-p",
    "search.seed": "--seed",
    "search.length": "--length",
}
FLAGS = {
    "tag": "--tag",
    "among": "--among",
    "nbest": "--nbest",
    "prefix": "--prefix",
    "engine": "--engine",
    **SEARCH_FLAGS,
}  # what gives each argument


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    file: Annotated[str, typer.Argument(metavar="[FILE|-]", help="The input lines; - is stdin.")] = "-",
    beam: Annotated[
        int | None, typer.Option(help="Beam search of this width.", show_default="the run's", metavar="N")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the most probable token at each step.")] = False,
    sample: Annotated[bool, typer.Option("--sample", help="Draw tokens at random.")] = False,
    temperature: Annotated[
        float | None,
        typer.Option(help="Sampling: values below 1 make outputs vary less, values above 1 more.", metavar="T"),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Sampling: draw only from the k most probable tokens.", metavar="K")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Sampling: draw only from the most probable tokens that together have probability p.", metavar="P"
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Sampling: the seed.", metavar="N")] = None,
    nbest: Annotated[
        int, typer.Option(help="The number of outputs per line, with --format tsv, jsonl or midi.", min=1, metavar="N")
    ] = 1,
    length: Annotated[
        int | None,
        typer.Option(
            help="The number of steps to predict, or the maximum number of tokens to write.",
            show_default="as in training; 200 for language models",
            metavar="N",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="The format of the output.", show_default="text; tsv with --among", metavar="text|tsv|jsonl|midi"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="With --format midi: the folder of the files.", metavar="FOLDER")
    ] = None,
    step: Annotated[
        float | None,
        typer.Option(
            help="With --format midi: the length of a step.", show_default=str(STEP_SECONDS), metavar="SECONDS"
        ),
    ] = None,
    prefix: Annotated[str, typer.Option(help="The text that every output begins with.", metavar="TEXT")] = "",
    with_: Annotated[
        list[Path] | None, typer.Option("--with", help="Another run to combine with; can be repeated.", metavar="RUN2")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="The engine; auto: CTranslate2 if the run has a float32 export, otherwise torch.",
            metavar="auto|torch|ctranslate2",
        ),
    ] = "auto",
    tag: Annotated[
        str, typer.Option(help="The tag of every line, such as the language to write.", metavar="VALUE")
    ] = "",
    among: Annotated[
        str | None,
        typer.Option(help="The documents to search, for a run trained with --task retrieve.", metavar="FILE"),
    ] = None,
) -> None:
    """Print one output line for each input line, in order.

    A file that ends in .tsv, .csv, .jsonl, .parquet or .conll is read with the columns of the training data. Any other
    file holds plain lines; if the run was trained with a tag or features, put them after the source, separated by
    tabs, or give one tag for all lines with --tag. For a language model, each line is a prompt; its continuation is
    printed without the prompt.

    If the run has been exported to CTranslate2 in float32, CTranslate2 is used for all options that it supports, and
    torch otherwise.

    [bold]Examples[/]
      weft predict my-run new.txt > out.txt
      echo "a line" | weft predict my-run --nbest 5 --format tsv
      weft predict my-run new.txt --sample --temperature 0.7 --seed 3 --format jsonl
      weft predict my-run new.txt --with my-run-2 --with my-run-3
      weft predict my-tracks new.jsonl --length 20
      weft predict languages new.en --tag fr
      weft predict my-tunes prompts.txt --sample --format midi --out listen
      weft predict library queries.txt --among documents.tsv --nbest 10
    """
    from weft.api import load
    from weft.core import memory
    from weft.core.errors import UserError
    from weft.data.files import opened
    from weft.data.formats import kind_of
    from weft.data.inputs import read_inputs
    from weft.data.pairs import ReadReport
    from weft.predict.stream import CHUNK
    from weft.runs.folder import RunFolder

    format = format or ("text" if among is None else "tsv")
    if format not in DETAIL:
        raise typer.BadParameter(f"'{format}' is not one of {', '.join(DETAIL)}", param_hint="--format")
    if common.on_bad_line() is not None:
        what = "weft predict writes one output per input line and cannot skip lines"
        raise UserError(what, "--on-bad-line", "leave --on-bad-line out, and correct the bad line")
    check_flags(format, out, step)
    if nbest > 1 and format == "text":
        raise UserError(
            "--format text prints only one output per line", f"--nbest {nbest}", "add --format tsv or --format jsonl"
        )
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    if any(value is not None for value in sampling.values()) and beam is None and not greedy:
        sample = sample or RunFolder(run).read_spec().search.kind == "sample"  # as language models do by default
    changes = search_changes(beam, greedy, sample, sampling) | ({} if length is None else {"length": length})
    if file != "-" and not Path(file).exists():
        with opened(file):  # which tells what is wrong, before models are loaded
            pass
    loaded = load(run, *(with_ or ()), strict=common.strict())
    write_tunes = None if out is None else tune_writer(loaded, out, step).write
    memory.keep()
    report, longest = ReadReport(), loaded.spec.data.longest
    with common.speaking_of_flags(FLAGS):
        columns = loaded.input_columns(tag)
    kinds = loaded.predictor.sides.kinds
    inputs = _with_notes(read_inputs(file, columns, longest=longest, report=report, kinds=kinds), report)
    if among is not None:
        from weft.cli.among import predict_among

        with common.speaking_of_flags(FLAGS):
            predict_among(loaded, (pair.source for pair in inputs), among, nbest, format)
        return
    predictions = partial(
        loaded.predictions,
        (replace(pair, tag=tag) for pair in inputs) if tag else inputs,
        search=changes,
        nbest=nbest,
        prefix=prefix,
        engine=engine,
        detail=DETAIL[format],
        chunk=1 if file == "-" and sys.stdin.isatty() else CHUNK,  # at a terminal a person waits for each line
    )
    with common.speaking_of_flags(FLAGS):
        lines = write_tunes or partial(_lines, format=format)
        count = _write(_with_export(predictions, loaded), loaded, lines, plain=kind_of(file) == "")
    if not count and file != "-":
        common.complain("there is no line to predict", label="note")


def _with_notes(inputs: Iterator[Pair], report: ReadReport) -> Iterator[Pair]:
    """Yield the inputs; notes of their reader are shown before the outputs."""
    shown = 0
    for pair in inputs:
        if len(report.notes) > shown:
            _show_notes(report.notes[shown:])
            shown = len(report.notes)
        yield pair
    _show_notes(report.notes[shown:])


def _show_notes(notes: Sequence[str]) -> None:
    for note in notes:
        common.complain(note, label="note")


def _with_export(predictions: Callable[[], Iterator[Predictions]], run: Run) -> Iterator[Predictions]:
    """Predict; a run that CTranslate2 is to compute is first exported, if it is not yet."""
    from weft.predict.engines import NotExported

    try:
        return predictions()
    except NotExported:
        from weft.export.ctranslate2 import refresh

        refresh(run.folder, run.predictor)
        return predictions()


def _write(
    chunks: Iterator[Predictions], run: Run, lines: Callable[[Prediction, int], Iterator[str]], plain: bool
) -> int:
    """Write the lines of each output, chunk by chunk, and count the outputs."""
    count = 0
    for chunk in chunks:
        if plain and not count:
            _note_tabs([prediction.source for prediction in chunk[:FIRST_LINES]], run)
        for number, prediction in enumerate(chunk, count + 1):
            for line in lines(prediction, number):
                common.write_line(line)
        common.flush()
        count += len(chunk)
    return count


def _note_tabs(sources: Sequence[str], run: Run) -> None:
    """Note lines that all have a tab, if no source in training had one: they are likely to be pairs."""
    lines = [source for source in sources if source.strip()]
    if lines and all("\t" in line for line in lines) and not run.folder.known_facts().get("source_tabs"):
        common.complain(
            "every line has a tab, but no source in training had one: the whole line is read as the source; if the "
            "source ends at the first tab, give only that part (`cut -f1`), or name the file .tsv",
            label="note",
        )


def search_changes(beam: int | None, greedy: bool, sample: bool, sampling: dict[str, Any]) -> dict[str, Any]:
    """Return the search settings that the flags change; `sampling` holds those that need --sample."""
    from weft.core.errors import UserError

    kinds = [name for name, on in (("--beam", beam is not None), ("--greedy", greedy), ("--sample", sample)) if on]
    if len(kinds) > 1:
        raise UserError(f"{' and '.join(kinds)} exclude each other", "the command line", "keep one of them")
    given = {name: value for name, value in sampling.items() if value is not None}
    if given and not sample:
        flag = "--" + next(iter(given)).replace("_", "-")
        raise UserError(f"{flag} has an effect only with --sample", flag, f"add --sample, or leave {flag} out")
    if sample:
        return {"kind": "sample", **given}
    if greedy:
        return {"kind": "greedy"}
    return {"kind": "beam", "width": beam} if beam is not None else {}


def _lines(prediction: Prediction, number: int, format: str) -> Iterator[str]:
    if format == "jsonl":
        yield json.dumps(_record(prediction, number), ensure_ascii=False)
    elif format == "tsv":
        for output in prediction.outputs:
            rank = output.probability if prediction.kind in LABELS else output.score
            yield "\t".join(
                [common.one_line(prediction.source, "\t"), common.one_line(output.text, "\t"), f"{rank:.4f}"]
            )
    else:
        yield common.one_line(prediction.text)


def _record(prediction: Prediction, number: int) -> dict[str, Any]:
    outputs = [
        {
            "text": o.text,
            **({"probability": round(o.probability, 6)} if prediction.kind in LABELS else {}),
            "score": round(o.score, 6),
            "log_prob": round(o.log_prob, 6),
            "tokens": [[name, round(score, 6)] for name, score in zip(o.tokens, o.token_scores)],
        }
        for o in prediction.outputs
    ]
    context = {"context": prediction.context} if prediction.context else {}
    return {"line": number, "source": prediction.source, **context, "prediction": prediction.text, "outputs": outputs}
