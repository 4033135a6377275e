"""`weft data`"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any

import typer

from weft.cli import common


def data(
    pairs: Annotated[list[str], typer.Argument(metavar="PAIRS…", help="Pairs, as weft train takes them.")],
    valid: Annotated[
        str | None,
        typer.Option(help="Validation pairs, to see what they share with the training pairs.", metavar="FILE"),
    ] = None,
    source: Annotated[str | None, typer.Option(help="The source column.", show_default="1", metavar="COLUMN")] = None,
    target: Annotated[str | None, typer.Option(help="The target column.", show_default="2", metavar="COLUMN")] = None,
    features: Annotated[str | None, typer.Option(help="The features column.", metavar="COLUMN")] = None,
    tag: Annotated[str | None, typer.Option(help="The tag column.", metavar="COLUMN")] = None,
) -> None:
    """Show what training would see: counts, lengths, characters, bad rows, choices, and five encoded examples.

    [bold]Examples[/]
      weft data words.tsv --valid dev.tsv
      weft data forms.csv --source lemma --target form --features tags
    """
    from weft.data.pairs import Columns, ReadReport, read_pairs, spool_stdin

    asked = {"source": source, "target": target, "features": features, "tag": tag}
    columns = Columns(**{role: column for role, text in asked.items() if (column := common.column(text)) is not None})
    with spool_stdin(pairs) as paths:
        report = ReadReport()
        # bad lines are what this command is for: they are listed, not stopped at, unless that is asked for
        for _ in read_pairs(paths, columns, on_bad_line=common.on_bad_line() or "skip", report=report):
            pass
        _bad_lines(report)
        _survey(paths, [valid] if valid else [], columns)


def _bad_lines(report: Any) -> None:
    for note in report.notes:
        common.complain(note, label="note")
    common.show(f"{report.rows:,} good rows, {report.skipped:,} bad, {report.blank:,} blank lines")
    for line in report.bad:
        common.show(f"  {line}")
    if report.skipped > len(report.bad):
        common.show(f"  … and {report.skipped - len(report.bad):,} more")
    if report.skipped:
        common.show("  training stops at the first of them; with --on-bad-line skip it leaves them out")


def _survey(paths: list[str], valid: list[str], columns: Any) -> None:
    from weft.choose import choose
    from weft.data.prepare import Files, Prepared
    from weft.settings import compose

    prepared = Prepared(Files(tuple(paths), tuple(valid), columns, "skip"))
    survey = prepared.survey
    sides = [_numbers(survey.source), _numbers(survey.target)]
    rows = [[name, *(side[name] for side in sides)] for name in sides[0]]
    common.show(f"{survey.pairs:,} pairs (lengths in characters)", common.table(["", "source", "target"], rows))
    for doubt in prepared.doubts:
        common.show(f"note: {doubt}")
    if survey.marks:
        common.show(f"tags and features: {len(survey.marks)}: {' '.join(survey.marks[:20])}")
    common.show(f"{survey.shared_characters:.1%} of the target's characters are in the source's alphabet")
    relation = survey.relation
    common.show(
        f"beyond chance, {relation.copied:.0%} of a target stands in its source, in the same order, "
        f"{relation.stem:.0%} of a source in its target, in stretches, and {relation.kept:.0%} of its rare characters",
        f"{relation.copied_words:.0%} of a target's words of three letters and more stand in its source; "
        f"{relation.repeated:.1%} of rows repeat another row",
    )
    if valid:
        common.show(f"{prepared.repeats():,} of {len(prepared.valid):,} validation pairs are training pairs too")
        _strangers(prepared, survey)
    chosen = choose(survey, {})
    rows = [list(reason) for reason in chosen.reasons]
    table = common.table(["setting", "value", "because"], rows, words=True)
    common.show("what the data decide (how large and how many models follow from the time and the machine)", table)
    for note in chosen.notes:
        common.show(f"note: {note}")
    _examples(prepared, compose(("autopilot", chosen.layer)).spec)


def _strangers(prepared: Any, survey: Any) -> None:
    """Characters of validation sources that training never had."""
    known = survey.source.characters
    found = Counter(c for pair in prepared.valid for c in set(pair.source) - set(known))
    rows = sum(not set(pair.source) <= set(known) for pair in prepared.valid)
    if rows:
        some = " ".join(c for c, _ in found.most_common(20) if c.isprintable())
        common.show(f"{rows:,} of their sources have characters that the training sources have not: {some}")


def _numbers(side: Any) -> dict[str, str]:
    """One side of the survey, by name."""
    return {
        "mean length": f"{side.mean:.1f}",
        "longest": f"{side.longest:,}",
        "mean words": f"{side.mean_words:.1f}",
        "distinct words": f"{side.distinct_words:,}",
        "distinct characters": f"{len(side.characters):,}",
        "most frequent": "".join(c for c in list(side.characters)[:24] if c.isprintable()),
    }


def _examples(prepared: Any, spec: Any) -> None:
    sides = [(side.tokens, side.size) for side in (spec.source, spec.target)]
    source, target = prepared.tokenisers(sides[0], sides[1], spec.embed.shared, spec.data.tag_at, spec.data.unseen)
    target = target.written(spec.backward)
    counts = [f"{len(t):,} {name} symbols ({t.kind})" for name, t in (("source", source), ("target", target))]
    common.show("; ".join(counts))
    for pair in islice(prepared.training(), 5):
        read, written = source.encode_sources([pair])[0], target.encode(pair.target)
        common.show(
            f"  {_first(source.show(read))}  →  {_first(target.show(written))}", f"    {_first(map(str, written))}"
        )


def _first(symbols: Iterable[str], most: int = 120) -> str:
    """Symbols side by side, as many as a person reads."""
    text = " ".join(islice(symbols, most))
    return text if len(text) <= most else f"{text[: most - 1]}…"
