"""`weft predict`"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import common

if TYPE_CHECKING:
    from weft.api import Run
    from weft.core.errors import UserError
    from weft.core.pair import Pair
    from weft.predict.engines import Shown
    from weft.predict.predictor import Prediction
    from weft.search.decode import SearchPlan

    Chunk = tuple[list[Pair], UserError | None]

LOOKED_AT = 20  # lines, to see whether they are pairs rather than sources
SHOWN: dict[str, Shown] = {"text": "text", "tsv": "score", "jsonl": "each symbol's score"}  # by format
CHUNK = 2048  # lines read, sorted by length and decoded together; one by one from a terminal


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    file: Annotated[str, typer.Argument(metavar="[FILE|-]", help="The input lines; - is stdin.")] = "-",
    beam: Annotated[
        int | None, typer.Option(help="Beam search of this width.", show_default="the run's", metavar="N")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the most probable token at each step.")] = False,
    sample: Annotated[bool, typer.Option("--sample", help="Draw tokens at random.")] = False,
    temperature: Annotated[
        float | None, typer.Option(help="Sampling: below 1 outputs vary less, above 1 more.", metavar="T")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Sampling: only from the k most probable tokens.", metavar="K")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Sampling: only from the most probable tokens with total probability p.", metavar="P"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Sampling: the seed.", metavar="N")] = None,
    nbest: Annotated[int, typer.Option(help="Outputs per line, for --format tsv and jsonl.", min=1, metavar="N")] = 1,
    format: Annotated[str, typer.Option(help="The format of the output.", metavar="text|tsv|jsonl")] = "text",
    prefix: Annotated[str, typer.Option(help="A text that every output begins with.", metavar="TEXT")] = "",
    with_: Annotated[
        list[Path] | None, typer.Option("--with", help="Another run to combine with; can be repeated.", metavar="RUN2")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(help="The engine; auto is CTranslate2 if the run was exported.", metavar="auto|torch|ctranslate2"),
    ] = "auto",
) -> None:
    """Print one output line for each input line, in order.

    A file that ends in .tsv, .csv, .jsonl or .parquet is read with the columns of the training data. Any other file
    holds plain lines; if the run was trained with a tag or features, they follow the source after tabs.

    A run that was exported to CTranslate2 is computed by it, where CTranslate2 supports the options.

    [bold]Examples[/]
      weft predict my-run new.txt > out.txt
      echo "a line" | weft predict my-run --nbest 5 --format tsv
      weft predict my-run new.txt --sample --temperature 0.7 --seed 3 --format jsonl
      weft predict my-run new.txt --with my-run-2 --with my-run-3
    """
    from weft.api import load
    from weft.core import memory
    from weft.core.errors import UserError
    from weft.data.files import opened
    from weft.data.formats import kind_of
    from weft.data.pairs import ReadReport, read_inputs
    from weft.predict import engines

    if engine not in ("auto", "torch", "ctranslate2"):
        raise typer.BadParameter(f"'{engine}' is not one of auto, torch, ctranslate2", param_hint="--engine")
    if format not in SHOWN:
        raise typer.BadParameter(f"'{format}' is not one of {', '.join(SHOWN)}", param_hint="--format")
    if common.on_bad_line() is not None:
        what = "every line is to have its output, so none can be left out"
        raise UserError(what, "--on-bad-line", "leave it out, and mend the line that stops it")
    if nbest > 1 and format == "text":
        raise UserError("--format text has one output a line", f"--nbest {nbest}", "add --format tsv or --format jsonl")
    if file != "-" and not Path(file).exists():
        with opened(file):  # which tells what is wrong, before models are loaded
            pass
    loaded = load(run, *(with_ or ()))
    memory.keep()
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    changes = search_changes(beam, greedy, sample, sampling)
    search = loaded.search(changes)
    if nbest > 1 and search.kind == "greedy":
        raise UserError("greedy search finds one output", f"--nbest {nbest}", "use --beam or --sample for several")
    plan = loaded.predictor.plan(search, nbest, prefix)
    if engines.is_wanted(engine, loaded.folder, loaded.predictor, plan, SHOWN[format]):
        from weft.export.ctranslate2 import refresh

        refresh(loaded.folder, loaded.predictor)
        loaded.predictor.engine = engines.opened(engine, loaded.folder, loaded.predictor, SHOWN[format])
    report = ReadReport()
    inputs = read_inputs(file, loaded.columns, longest=loaded.spec.data.longest, report=report)
    size = 1 if file == "-" and sys.stdin.isatty() else CHUNK
    done = _answer(loaded, _chunks(inputs, size), plan, format, plain=kind_of(file) == "")
    for note in report.notes:
        common.complain(note, label="note")
    if not done and file != "-":
        common.complain("there is no line to predict", label="note")


def _answer(run: Run, chunks: Iterator[Chunk], plan: SearchPlan, format: str, plain: bool) -> int:
    """Write the outputs, chunk by chunk, and count them; what is strange about the inputs is noted once."""
    done, unseen, unknown = 0, set[str](), run.predictor.unknown_share([])
    try:
        for chunk, problem in chunks:
            if plain and not done:
                _note_tabs(chunk[:LOOKED_AT], run)
            unseen |= run.predictor.unseen_marks(chunk)
            run.predictor.unknown_share(chunk, unknown)
            for place, prediction in enumerate(run.predictor.predict(chunk, plan, first_line=done)):
                for line in _lines(prediction, format, done + place + 1):
                    common.write_line(line)
            common.flush()
            done += len(chunk)
            if problem is not None:
                raise problem
    finally:
        common.note_unseen(unseen)
        if note := unknown.note("the input"):
            common.complain(note, label="note")
    return done


def _note_tabs(first: list[Pair], run: Run) -> None:
    """Lines with a tab, where training had no source with one, are pairs most likely."""
    lines = [pair.source for pair in first if pair.source.strip()]
    if lines and all("\t" in line for line in lines) and not run.folder.known_facts().get("source_tabs"):
        common.complain(
            "every line has a tab, but no source in training had one: each line is taken whole as a source; "
            "if the source ends at the first tab, give that part alone (`cut -f1`), or name the file .tsv",
            label="note",
        )


def _chunks(inputs: Iterator[Pair], size: int) -> Iterator[Chunk]:
    """Some inputs at a time; those before a line that cannot be read come with the problem, and are not lost."""
    from weft.core.errors import UserError

    chunk: list[Pair] = []
    try:
        for pair in inputs:
            chunk.append(pair)
            if len(chunk) == size:
                yield chunk, None
                chunk = []
    except UserError as problem:
        yield chunk, problem
        return
    yield chunk, None


def search_changes(beam: int | None, greedy: bool, sample: bool, sampling: dict[str, Any]) -> dict[str, Any]:
    """The run's search settings that the flags change; `sampling` holds those that need --sample."""
    from weft.core.errors import UserError

    asked = [name for name, on in (("--beam", beam is not None), ("--greedy", greedy), ("--sample", sample)) if on]
    if len(asked) > 1:
        raise UserError(f"{' and '.join(asked)} exclude each other", "the command line", "keep one of them")
    given = {name: value for name, value in sampling.items() if value is not None}
    if given and not sample:
        flag = "--" + next(iter(given)).replace("_", "-")
        raise UserError(f"{flag} has a meaning only when sampling", flag, "add --sample, or leave it out")
    if sample:
        return {"kind": "sample", **given}
    if greedy:
        return {"kind": "greedy"}
    return {"kind": "beam", "width": beam} if beam is not None else {}


def _lines(prediction: Prediction, format: str, number: int) -> Iterator[str]:
    if format == "jsonl":
        yield json.dumps(_record(prediction, number), ensure_ascii=False)
    elif format == "tsv":
        for output in prediction.outputs:
            yield "\t".join([_one_line(prediction.source, "\t"), _one_line(output.text, "\t"), f"{output.score:.4f}"])
    else:
        yield _one_line(prediction.text)


def _record(prediction: Prediction, number: int) -> dict[str, Any]:
    outputs = [
        {
            "text": o.text,
            "score": round(o.score, 6),
            "log_prob": round(o.log_prob, 6),
            "tokens": [[name, round(score, 6)] for name, score in zip(o.tokens, o.token_scores)],
        }
        for o in prediction.outputs
    ]
    return {"line": number, "source": prediction.source, "prediction": prediction.text, "outputs": outputs}


ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _one_line(text: str, also: str = "") -> str:
    """Line breaks, and tabs between columns, are written as escapes: one output, one line."""
    for character in "\n\r" + also:
        text = text.replace(character, ESCAPES[character])
    return text
