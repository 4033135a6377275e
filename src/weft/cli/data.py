"""`weft data`"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any

import typer

from weft.cli import common

MOST, SOME = 0.8, 0.2  # shares that a sentence speaks of


def data(
    pairs: Annotated[list[str], typer.Argument(metavar="PAIRS…", help="Pairs, in any form that weft train reads.")],
    valid: Annotated[
        list[str] | None,
        typer.Option(help="Validation pairs, to see what they share with the training pairs.", metavar="FILE"),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="The source column.", show_default="found by name, otherwise 1", metavar="COLUMN")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The target column.", show_default="found by name, otherwise 2", metavar="COLUMN")
    ] = None,
    features: Annotated[str | None, typer.Option(help="The features column.", metavar="COLUMN")] = None,
    tag: Annotated[str | None, typer.Option(help="The tag column.", metavar="COLUMN")] = None,
    context: Annotated[str | None, typer.Option(help="The context column.", metavar="COLUMN")] = None,
    task: Annotated[str | None, typer.Option(help="The task, as for weft train.", metavar="TASK")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting, as for weft train; can be repeated.", metavar="KEY=VALUE"),
    ] = None,
) -> None:
    """Show what training would see: counts, lengths, characters, bad rows, choices, and five encoded examples.

    [bold]Examples[/]
      weft data words.tsv --valid dev.tsv
      weft data forms.csv --source lemma --target form --features tags
    """
    from weft.api import flags_of
    from weft.data.pairs import spool_stdin
    from weft.data.prepare import Prepared
    from weft.runs.job import Job, files_of, requested_spec

    columns = {"source": source, "target": target, "features": features, "tag": tag, "context": context}
    roles = {f"data.{role}": common.column(text) for role, text in columns.items()}
    # bad rows are what this command is for: they are listed, not stopped at, unless that is asked for
    given = flags_of(set_ or (), {"task": task, "data.on_bad_line": common.on_bad_line() or "skip", **roles})
    asked = requested_spec(Job(flag_layer=given))
    with spool_stdin(pairs) as paths:
        prepared = Prepared(files_of(asked, paths, valid or ()))
        _rows(prepared.scan.report)
        _columns(prepared)
        _survey(prepared)
        _validation(prepared)
        _choices(prepared, given)


def _rows(report: Any) -> None:
    """Say how many rows can be used, and which cannot."""
    for note in report.notes:
        common.complain(note, label="note")
    bad, blank = _counted(report.skipped, "bad row"), _counted(report.blank, "blank line")
    common.show(f"{_counted(report.rows, 'good row')}, {bad}, {blank}")
    for line in report.bad:
        common.show(f"  {line}")
    if report.skipped > len(report.bad):
        common.show(f"  … and {report.skipped - len(report.bad):,} more")
    if report.skipped:
        common.show("  training stops at the first bad row; with --on-bad-line skip, it leaves bad rows out")


def _counted(count: int, what: str) -> str:
    from weft.data.prepare import counted

    return counted(count, what)


def _columns(prepared: Any) -> None:
    if prepared.columns:  # running text has none
        common.show("Columns:", *(f"  {sentence}" for sentence in prepared.columns))


def _survey(prepared: Any) -> None:
    """Say what the pairs are like, and what follows from it."""
    survey = prepared.survey
    roles = list(survey.kinds)
    sides = [_described(survey, role) for role in roles]
    names = dict.fromkeys(name for side in sides for name in side)
    lengths = " (lengths in characters)" if "text" in survey.kinds.values() else ""
    common.show(f"{_counted(survey.pairs, survey.unit)}{lengths}")
    heads = [role if survey.kinds[role] == "text" else f"{role}: {survey.kinds[role]}" for role in roles]
    common.show(common.table(["", *heads], [[name, *(side.get(name, "") for side in sides)] for name in names]))
    for doubt in prepared.doubts:
        common.show(f"note: {doubt}")
    if survey.marks:
        common.show(f"tags and features: {len(survey.marks)}: {' '.join(survey.marks[:20])}")
    if list(survey.kinds.values()) == ["text", "text"]:
        common.show(*_sentences(survey))


def _sentences(survey: Any) -> list[str]:
    """Return what was found, each with what follows from it."""
    relation, shared = survey.relation, survey.shared_characters
    own = "the target has its own alphabet" if shared < SOME else "the two alphabets overlap"
    alphabet = "both sides have the same alphabet" if shared > MOST else own
    lines = [f"{shared:.0%} of the target's characters occur in the sources: {alphabet}."]
    copying = f"{relation.copied:.0%} of a target is copied from its source (corrected for chance)"
    if relation.copied > MOST:
        lines.append(f"{copying}: a model that copies the source would get most characters right.")
    elif relation.copied > SOME:
        lines.append(f"{copying}: the model has to learn what to keep and what to change.")
    else:
        lines.append(f"{copying}: the model has to learn the whole output, not a change of the input.")
    if relation.copied_words > SOME:
        lines.append(
            f"{relation.copied_words:.0%} of the words and numbers in a target (from three characters) also occur "
            "in its source (corrected for chance)."
        )
    if relation.repeated > 0:
        lines.append(f"{relation.repeated:.1%} of the rows are repeats (data.repeat_power: how much these count).")
    return lines


def _validation(prepared: Any) -> None:
    """Say what validation is on."""
    files, scan, unit = prepared.files, prepared.scan, prepared.survey.unit
    for path, pairs, repeats in zip(files.valid, scan.valid, scan.repeated):
        common.show(
            f"{path}: {_counted(len(pairs), f'validation {unit}')}, {repeats:,} of them also in the training data."
        )
    if not files.valid and prepared.held_out:
        common.show(
            f"{_counted(prepared.held_out, unit)} would be held out for validation (or give a file with --valid)."
        )
    for note in prepared.notes:
        if note not in scan.report.notes and note not in prepared.doubts:
            common.show(f"note: {note}")


def _choices(prepared: Any, given: dict[str, Any]) -> None:
    """Show what the autopilot would choose, and some pairs as the model would see them."""
    from weft.choose import choose
    from weft.settings import compose

    chosen = choose(prepared.survey, given)
    table = common.table(["setting", "value", "because"], [list(reason) for reason in chosen.reasons], words=True)
    common.show(
        "choices for these data (the size and the number of models also depend on the time and the machine)", table
    )
    for note in chosen.notes:
        common.show(f"note: {note}")
    _examples(prepared, compose(("autopilot", chosen.layer), ("flag", given)).spec)


def _described(survey: Any, role: str) -> dict[str, str]:
    """Return what is known of one column, by name."""
    from dataclasses import asdict

    from weft.data.sides.table import KINDS

    texts = {"source": survey.source, "target": survey.target, "context": survey.context}
    statistics = survey.columns[role] if role in survey.columns else asdict(texts[role])
    return KINDS[survey.kinds[role]]().describe(statistics)


def _examples(prepared: Any, spec: Any) -> None:
    """Show some pairs as the model would see them."""
    from weft.data.sides.table import shown
    from weft.data.text.tokens import Tokeniser
    from weft.runs.ready import learn_sides

    sides = learn_sides(prepared, spec)
    texts = {role: side for role, side in sides.by_role.items() if isinstance(side, Tokeniser)}
    common.show("; ".join(f"{len(t):,} {role} tokens ({t.kind})" for role, t in texts.items()))
    pairs = list(islice(prepared.training(), 5))
    common.show("as the model reads them, with spaces between tokens:" if texts else "as the model reads them:")
    rows = sides.encode(pairs)
    for number, pair in enumerate(pairs):
        encoded = {"source": rows.source[number], "target": rows.target[number]}
        source, target = (
            _first(texts[role].show(encoded[role])) if role in texts else _first(cell)
            for role, cell in (("source", [shown(pair.source)]), ("target", pair.targets[:1]))
        )
        ids = [f"    {_first(map(str, encoded['target']))}"] if "target" in texts else []
        common.show(f"  {target}" if prepared.survey.alone else f"  {source}  →  {target}", *ids)


def _first(tokens: Iterable[str], most: int = 120) -> str:
    """Return the first tokens, as many as a person reads."""
    text = " ".join(common.one_line(token, "\t") for token in islice(tokens, most))
    return text if len(text) <= most else f"{text[: most - 1]}…"
