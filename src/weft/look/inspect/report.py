"""Look at a run: choose views, compute them, and keep the numbers, from which the page and the pictures are made."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weft.core.errors import UserError
from weft.core.files import write_whole
from weft.core.pair import Pair
from weft.data.prepare import counted
from weft.data.text.tokens import Tokeniser
from weft.look.card import architecture
from weft.look.inspect.limits import MOST_INPUTS, MOST_ROWS, MOST_TRAINING_LINES
from weft.look.inspect.page import page_of
from weft.look.inspect.plots import Plots, as_json
from weft.look.inspect.subject import Line, Subject
from weft.look.inspect.table import ALL, find
from weft.look.inspect.views import DoesNotApply, Material, Options, View
from weft.predict.predictor import Predictor
from weft.runs.folder import RunFolder
from weft.runs.log import LogFile

BRIEF = 6  # lines from which on each shows its main plot only
NOTEBOOK_HEIGHT = 640
UNWRITABLE = "It is scored as <unknown>, so the log-probability is not that of these symbols."
INSTEAD = ("faithful", "gradients", "surprise", "field", "cells", "errors")  # where no usual view fits


@dataclass(frozen=True)
class Report:
    """What was seen: `numbers` is the JSON of `weft inspect --json`; a notebook shows the page."""

    numbers: dict[str, Any]

    @property
    def page(self) -> str:
        """The self-contained page."""
        return page_of(self.numbers)

    def save(self, path: str | Path, form: str = "html") -> None:
        """Write the page, or a picture (svg, png, pdf) of the only view, whole or not at all."""
        write(Path(path), self.page if form == "html" else self.picture(form))

    def picture(self, form: str = "svg", view: str = "") -> bytes:
        """Return a picture of one view: by default of the only one."""
        from weft.look.inspect.pictures import check_format, picture

        views = sorted(
            {name for line in self.numbers["lines"] for name in line["views"]} | set(self.numbers["summary"])
        )
        check_format(form, [view] if view else views)
        return picture(self.numbers, view or views[0], form)

    def save_json(self, path: str | Path) -> None:
        """Write the numbers, whole or not at all."""
        write(Path(path), json.dumps(self.numbers, ensure_ascii=False) + "\n")

    def _repr_html_(self) -> str:
        style = f"width:100%;height:{NOTEBOOK_HEIGHT}px;border:1px solid #8884;border-radius:6px"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(self.page)}"></iframe>'


def write(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all; three parts if that is not possible."""
    try:
        write_whole(path.parent, path.name, content)
    except OSError as error:
        what = f"this file cannot be written: {error.strerror or error}"
        raise UserError(what, str(path), "check the folder and its permissions, or choose another name") from None


def inspect(
    predictor: Predictor,
    folder: RunFolder | None = None,
    inputs: Sequence[Pair] = (),
    *,
    table: Sequence[Pair] = (),
    force: str | None = None,
    views: Sequence[str] = (),
    options: Options | None = None,
    training: Callable[[], Sequence[Pair]] = lambda: (),
    written: Sequence[str] = (),
) -> Report:
    """Look at inputs, or at a table of pairs with right outputs, through some views; without names, those that fit.

    `written` are the outputs of the inputs, where they are known: then nothing is decoded.
    """
    subject, wanted, given = Subject(predictor, None if folder is None else folder.path), find(views), options
    table = subject.as_read(table)
    if not inputs and not table:
        raise UserError("there is nothing to look at", "the inputs", "give an input, or a table of pairs")
    notes = _notes(subject, folder, len(inputs), len(table))
    if written:
        material = _of_lines(subject.written(inputs[:MOST_INPUTS], written[:MOST_INPUTS]), given or Options())
    else:
        material = _material(subject, inputs[:MOST_INPUTS], table[:MOST_ROWS], force, given or Options())
    material = replace(material, more=table[MOST_ROWS:MOST_TRAINING_LINES], training=training)
    named = [*([] if ALL in views else views), *(["what-if"] if material.options.edits else [])]
    chosen, left_out = _chosen(subject, wanted, named, bool(table))
    lines = [{**line.to_json(), **_unseen(line), "views": {}} for line in material.lines]
    if force is not None and (strange := subject.cannot_write(force)):
        notes.append(f"The model cannot write {', '.join(strange)}: training never had this in an output. {UNWRITABLE}")
    summary: dict[str, Any] = {}
    clock, begun = _Clock(material.options.seconds), list[tuple[View, int]]()
    for view in [*chosen, *_others(subject, chosen)]:
        if view not in chosen and _is_something(lines, summary):
            break
        try:
            begun.append((view, _begin(view, material, lines, summary, clock)))
        except DoesNotApply as error:
            if view.name in named and error.reason != clock.reason:
                raise UserError(error.reason, _asked_by(view), error.todo or "leave this view out") from None
            left_out[view.name] = error.reason
    if not _is_something(lines, summary):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise UserError(f"no view has anything to show ({reasons})", "the inputs", "give other inputs, or --table FILE")
    for view, first in begun:
        notes += _go_on(view, material, lines, first, clock)
    return Report(
        as_json(
            {
                "run": _run(subject),
                "notes": notes,
                "views": {view.name: {"title": view.title, "about": view.about} for view in find([ALL])},
                "lines": lines,
                "summary": summary,
                "left_out": left_out,
            }
        )
    )


class _Clock:
    """Says when the time of an inspection is over; the first line and the first summary are always looked at."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._until = seconds, time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._until

    @property
    def reason(self) -> str:
        return f"the time of {self._seconds:g} s was over (--seconds gives it more)"


def _begin(view: View, material: Material, lines: list[dict[str, Any]], summary: dict[str, Any], clock: _Clock) -> int:
    """Put what a view shows into the first line that it applies to and the summary; return the number of this line.

    The other lines come when every view has begun, so that a costly one leaves time for the rest.
    """
    first = 0
    if view.of_line is not None:
        first = _show_first(view.of_line, view.name, material, lines)
    if view.of_all is not None and (material.table or view.of_line is None or len(material.lines) > 1):
        if not summary or not clock.is_over:
            summary[view.name] = dict(view.of_all(material))
        elif view.of_line is None:
            raise DoesNotApply(clock.reason)
    return first


def _show_first(
    of_line: Callable[[Line, Options], Plots], name: str, material: Material, lines: list[dict[str, Any]]
) -> int:
    """Show the first line that a view applies to, and return its number; raise the last reason if there is none."""
    reason = DoesNotApply("there is no line")
    for number, (line, content) in enumerate(zip(material.lines, lines, strict=True)):
        try:
            content["views"][name] = dict(of_line(line, material.options))
            return number
        except DoesNotApply as error:
            reason = error
    raise reason


def _go_on(view: View, material: Material, lines: list[dict[str, Any]], first: int, clock: _Clock) -> list[str]:
    """Show the lines after the first, as far as view and time allow; return a note if lines are left out."""
    if view.of_line is None:
        return []
    without, why = first, "it does not apply to them"
    for number in range(first + 1, len(lines)):
        if clock.is_over:
            return [f"Only the first {counted(number, 'line')} of {len(lines)} show {view.name}: {clock.reason}."]
        try:
            lines[number]["views"][view.name] = dict(view.of_line(material.lines[number], material.options))
        except DoesNotApply as error:
            without, why = without + 1, error.reason
    return [f"{counted(without, 'line')} of {len(lines)} without {view.name}: {why}."] if without else []


def _material(
    subject: Subject, inputs: Sequence[Pair], table: Sequence[Pair], force: str | None, options: Options
) -> Material:
    """Predict; of a table, the lines that are farthest from right are shown in full."""
    if not table:
        return _of_lines(subject.lines(inputs, force), options)
    from weft.look.inspect.errors import worst_first  # what orders the lines

    every = subject.consecutive(table)
    worst = worst_first(subject, every)[:MOST_INPUTS]
    brief = replace(options, brief=len(worst) >= BRIEF)
    return Material(subject, worst, table, [line.output.text for line in every], brief)


def _of_lines(lines: Sequence[Line], options: Options) -> Material:
    return Material(lines[0].subject, lines, (), (), replace(options, brief=len(lines) >= BRIEF))


def _chosen(
    subject: Subject, wanted: Sequence[View], named: Sequence[str], has_table: bool
) -> tuple[list[View], dict[str, str]]:
    """Return the views to show, and why others are left out; a view that was asked for by its name must apply."""
    reasons = {view.name: view.why_not(subject) for view in find([ALL])}
    unasked = ("line", "table") if has_table else ("line",)
    chosen = wanted or [view for view in find([ALL]) if view.unasked in unasked or _is_for_texts(view, subject)]
    chosen = [*chosen, *(view for view in find(named) if view not in chosen)]
    for view in chosen:
        if view.name in named and reasons[view.name]:
            raise UserError(reasons[view.name], _asked_by(view), "leave it out, or look at another run")
    left_out = {view.name: reasons[view.name] for view in chosen if reasons[view.name]}
    return [view for view in chosen if not reasons[view.name]], left_out


def _is_for_texts(view: View, subject: Subject) -> bool:
    """Return whether a view is shown unasked because a language model is shown texts."""
    return view.name == "surprise" and subject.is_language_model


def _asked_by(view: View) -> str:
    return "--what-if" if view.name == "what-if" else f"view {view.name}"


def _others(subject: Subject, chosen: Sequence[View]) -> list[View]:
    """Return the views that are tried in turn, until one has something to show, where those that are usual have not."""
    return [view for view in find(INSTEAD) if view not in chosen and not view.why_not(subject)]


def _is_something(lines: Sequence[dict[str, Any]], summary: dict[str, Any]) -> bool:
    return bool(summary) or any(line["views"] for line in lines)


def _run(subject: Subject) -> dict[str, Any]:
    spec = subject.spec
    return {
        "path": "" if subject.path is None else str(subject.path),
        "name": "a model" if subject.path is None else subject.path.resolve().name,
        "about": architecture(spec),
        "task": spec.task,
        "search": subject.plan.name if subject.searches else "",
        "language_model": subject.is_language_model,
        "parameters": subject.predictor.model.parameter_count,
    }


def _notes(subject: Subject, folder: RunFolder | None, inputs: int, rows: int) -> list[str]:
    notes = []
    if folder is not None and not LogFile(folder.log).final():
        notes.append("The training of this run has not finished: this is its best checkpoint so far.")
    if subject.models > 1:
        notes.append(f"This run is an ensemble of {subject.models} models: this is the first of them, on its own.")
    if inputs > MOST_INPUTS:
        notes.append(f"Only the first {MOST_INPUTS} of {inputs:,} inputs are shown.")
    if rows > MOST_ROWS:
        notes.append(f"Only the first {MOST_ROWS:,} of {rows:,} rows of the table are looked at.")
    if rows > MOST_INPUTS:
        whole = f"{min(rows, MOST_ROWS):,} rows"
        notes.append(
            f"The errors are those of {whole}; the worst {MOST_INPUTS} are shown in full. Other summaries say "
            "over how many lines they are."
        )
    return notes


def _unseen(line: Line) -> dict[str, Any]:
    """Return the characters of an input that training never had, if there are any."""
    side = line.subject.sides.source
    known = side.known_characters if isinstance(side, Tokeniser) else None
    if known is None:
        return {}
    unseen = [c for c in dict.fromkeys(line.pair.source) if c not in known and not c.isspace()]
    return {"unseen": unseen} if unseen else {}
