"""`weft evaluate`"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli import common
from weft.cli.predict import SEARCH_FLAGS, search_changes
from weft.cli.rows import check_lines_file, column_values, scores_by_value, write_lines

FLAGS = {"among": "--among", "tag": "--tag", "features": "--features", **SEARCH_FLAGS}


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    pairs: Annotated[list[str], typer.Argument(metavar="PAIRS…", help="Pairs with the correct targets.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    against: Annotated[
        Path | None, typer.Option(help="Another run to compare with, by a paired bootstrap test.", metavar="RUN2")
    ] = None,
    beam: Annotated[
        int | None, typer.Option(help="Beam search of this width.", show_default="the run's", metavar="N")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Take the most probable token at each step.")] = False,
    source: Annotated[
        str | None, typer.Option(help="The source column.", show_default="as in training", metavar="COLUMN")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The target column.", metavar="COLUMN")] = None,
    features: Annotated[str | None, typer.Option(help="The features column.", metavar="COLUMN")] = None,
    tag: Annotated[str | None, typer.Option(help="The tag column.", metavar="COLUMN")] = None,
    context: Annotated[str | None, typer.Option(help="The context column.", metavar="COLUMN")] = None,
    with_: Annotated[
        list[Path] | None, typer.Option("--with", help="Another run to combine with; can be repeated.", metavar="RUN2")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Also show the scores for each value of this column.", metavar="COLUMN")
    ] = None,
    lines: Annotated[
        Path | None,
        typer.Option(
            help="Write the output, scores and log-probability of each pair to FILE (.tsv or .jsonl).", metavar="FILE"
        ),
    ] = None,
    among: Annotated[
        str | None,
        typer.Option(help="The documents to search, for a run trained with --task retrieve.", metavar="FILE"),
    ] = None,
    qrels: Annotated[
        Path | None,
        typer.Option(
            help="With --among: relevance judgements in TREC format. The ids are those in the column `id` "
            "of PAIRS (queries) and of --among (documents).",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Measure how good a run is on pairs that it has not seen.

    exact, cer, token_error_rate, bleu, chrf, rouge1, rouge2, rougeL, accuracy, macro_f1 and span_f1 are percentages,
    and so are the scores of retrieval. For text, accuracy is the share of tokens that are predicted correctly, given
    the correct tokens before them. ade, fde, mae and mse are in the units of the data. loss is in nats per target
    token, label or step.

    [bold]Examples[/]
      weft evaluate my-run test.tsv
      weft evaluate my-run test.en:test.de --json
      weft evaluate my-run test.tsv --against other-run
      weft evaluate my-run test.tsv --by language --lines scored.tsv
      weft evaluate library queries.tsv --among documents.tsv --qrels judged.txt
      weft evaluate languages test.en:test.de test.en:test.fr --by direction
    """

    from weft.api import Run, load
    from weft.cli.among import evaluate_among
    from weft.core import memory
    from weft.core.errors import UserError
    from weft.data.pairs import Columns, ReadReport, read_pairs
    from weft.score.table import NOT_APPLICABLE
    from weft.tasks import unit_of

    search = search_changes(beam, greedy, False, {})
    if lines is not None:
        check_lines_file(lines)
    strict = common.strict()
    loaded = load(run, *(with_ or ()), strict=strict)
    other = None if against is None else load(against, strict=strict)
    memory.keep()
    if qrels is not None and among is None:
        raise UserError("--qrels needs --among", "--qrels", "give the documents with --among FILE")
    if among is not None:
        with common.speaking_of_flags(FLAGS):
            _show_ranked(str(run), evaluate_among(loaded, pairs, among, qrels), as_json)
        return
    runs = [loaded, *(Run(path) for path in with_ or ()), *([] if other is None else [other])]
    given = [common.column(name) for name in (source, target, features, tag, context)]
    columns = Columns(*map(_first_given, zip(given, *(_fields(each.columns) for each in runs))))
    columns = replace(columns, start=loaded.columns.start, end=loaded.columns.end, trained=loaded.columns.trained)
    columns = replace(columns, tag_from=loaded.columns.tag_from if columns.tag is None else "column")
    report, bad, longest = ReadReport(), common.on_bad_line() or "stop", loaded.spec.data.longest
    kinds, kind = loaded.predictor.sides.kinds, loaded.predictor.sides.scored_as
    if kinds.running == "pieces" and lines is not None:
        kinds = replace(kinds, running="lines")
    rows = list(read_pairs(pairs, columns, on_bad_line=bad, longest=longest, report=report, kinds=kinds))
    values = None if by is None else column_values(pairs, by, columns, rows, bad, longest, kinds)
    for note in report.notes:
        common.complain(note, label="note")
    if report.skipped:
        common.complain(f"bad rows left out: {report.skipped:,}; the first is {report.bad[0]}", label="note")
    with common.speaking_of_flags(FLAGS), common.progress("evaluating", len(rows)) as tick:
        evaluation = loaded.evaluate(rows, search=search, tick=tick)
        second = None if other is None else other.evaluate(rows, search=search)
    result: dict[str, Any] = {**evaluation.metrics, "n": evaluation.n, "signatures": evaluation.signatures}
    result |= {} if kind == "text" else {"target": kind}
    result |= {NOT_APPLICABLE: list(evaluation.not_applicable)} if evaluation.not_applicable else {}
    result |= {} if evaluation.baseline is None else {"baseline": evaluation.baseline.to_dict()}
    if report.skipped:
        result["skipped"] = report.skipped
    if second is not None:
        result["against"] = _against(evaluation.outputs, second.outputs, rows, kind)
    if values is not None:
        result["by"] = scores_by_value(loaded, rows, evaluation.outputs, values)
    if lines is not None:
        write_lines(lines, rows, evaluation.outputs, loaded.predictor.log_probs(rows), kind)
    if as_json:
        _print_json(result)
    else:
        unit = unit_of(loaded.spec.task)
        _show(str(run), result, str(against) if against is not None else "", unit)
        _show_by(result.get("by", {}), by, kind, evaluation.not_applicable, unit)


def _print_json(result: dict[str, Any]) -> None:
    """Print one object; scores stand under their earlier names too."""
    from weft.runs.log import finite
    from weft.score.metrics import table_for

    table = table_for(result)
    result = table.with_aliases(result)
    if "against" in result:
        result["against"] = table.with_aliases(result["against"])
    if "by" in result:
        result["by"] = {value: table.with_aliases(scores) for value, scores in result["by"].items()}
    typer.echo(json.dumps(finite(result), ensure_ascii=False))


def _show_ranked(name: str, result: dict[str, Any], as_json: bool) -> None:
    """Print the scores of rankings, and beside them those of each part alone."""
    from weft.data.prepare import counted
    from weft.score.retrieval import RETRIEVAL

    if as_json:
        _print_json({**result, "target": "document"})
        return
    alone = result.get("alone", {})
    rows = [
        [metric.name, metric.show(value), *(metric.show(each[metric.name]) for each in alone.values())]
        for metric, value in RETRIEVAL.present(result)
    ]
    columns = ["metric", "both" if alone else "value", *(f"{part} alone" for part in alone)]
    common.show(f"{name}: {counted(result['n'], 'query', 'queries')}", common.table(columns, rows))


def _first_given(columns: Iterable[Any]) -> Any:
    """What is asked for, or what the first run has that was trained with such a column; None where none was."""
    return next((column for column in columns if column is not None), None)


def _fields(columns: Any) -> list[Any]:
    return [columns.source, columns.target, columns.features, columns.tag, columns.context]


def _against(first: list[Any], second: list[Any], rows: list[Any], scored_as: str) -> dict[str, Any]:
    from dataclasses import asdict

    from weft.score.metrics import table_of
    from weft.score.significance import paired_bootstrap

    references = [pair.targets for pair in rows]
    return {m.name: asdict(paired_bootstrap(first, second, references, m)) for m in table_of(scored_as).compared}


def _show(name: str, result: dict[str, Any], other: str, unit: str) -> None:
    from weft.cli.summary import beside_baseline, show_scores
    from weft.data.prepare import counted
    from weft.score.metrics import applicable_signatures, table_for
    from weft.score.table import NOT_APPLICABLE

    if not other:
        rows = [[metric.name, metric.show(value)] for metric, value in table_for(result).present(result)]
        show_scores(f"{name}: {counted(result['n'], unit)}", beside_baseline(rows, result), result)
    else:
        rows = []
        applicable = {m: c for m, c in result["against"].items() if m not in result.get(NOT_APPLICABLE, ())}
        for metric, c in applicable.items():
            sure = "yes" if c["p"] < 0.05 else "no"
            values = [f"{c['first']:.2f}", f"{c['second']:.2f}", f"{c['difference']:+.2f}"]
            rows.append([metric, *values, f"{c['low']:+.2f} … {c['high']:+.2f}", f"{c['p']:.3f}", sure])
        columns = ["metric", name, other, "difference", "95 % interval", "p", "significant"]
        common.show(f"{counted(result['n'], unit)}, paired bootstrap", common.table(columns, rows))
    for metric, signature in applicable_signatures(result).items():
        common.show(f"{metric}: {signature}")


def _show_by(scores: dict[str, Any], column: str | None, scored_as: str, without: Sequence[str], unit: str) -> None:
    """Print a row of scores for each value of a column."""
    from weft.score.metrics import table_of

    if scores:
        table = table_of(scored_as)
        metrics = [metric for metric, _ in table.present(next(iter(scores.values()))) if metric.name not in without]
        rows = [[value, f"{each['n']:,}", *(m.show(each[m.name]) for m in metrics)] for value, each in scores.items()]
        common.show(common.table([str(column), f"{unit}s", *(metric.name for metric in metrics)], rows))
