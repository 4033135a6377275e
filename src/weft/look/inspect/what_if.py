"""View: change something and decode again. An input symbol, an output symbol, an attention row, a head or a unit."""

# S source length

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from weft.core.errors import UserError
from weft.core.kinds import Column, Hypothesis
from weft.core.pair import START, UNKNOWN
from weft.core.trace import Edit, trace
from weft.data.text.tokens import Tokeniser
from weft.look.inspect.attention import maps_of
from weft.look.inspect.beam import why_not
from weft.look.inspect.changes import Change, model_edits, parse, replaced
from weft.look.inspect.limits import MOST_ATTRIBUTED
from weft.look.inspect.plots import Cell, Plots, Table
from weft.look.inspect.subject import Line
from weft.look.inspect.views import DoesNotApply, Options, View
from weft.nn.model import Seq2Seq
from weft.search.decode import SearchPlan, decode


@dataclass(frozen=True)
class Outcome:
    """What was written after a change, its score, and the log-probability of the output without the change."""

    name: str
    text: str
    score: float
    log_prob: float
    log_prob_before: float


def of_line(line: Line, options: Options) -> Plots:
    base = _decoded(line, "nothing", line.rows.source[0], line.subject.plan, {})
    changes = [parse(text) for text in options.edits] or _each_left_out(line)
    outcomes = [base, *(outcome(line, change) for change in changes)]
    rows: list[list[Cell]] = [
        [each.name, each.text, "" if each.text == base.text else "changed", each.score, each.log_prob_before]
        for each in outcomes
    ]
    columns = ["change", "output", "", "score", "log p of the output above"]
    note = "The first row changes nothing: it is what `weft predict` writes. `--what-if` makes changes of your own."
    changed = [index for index, each in enumerate(outcomes) if each.text != base.text]
    warn = changed if len(changed) < len(outcomes) - 1 or options.edits else []
    return {"outcomes": Table("Change and decode again", columns, rows, note, warn)}


def _each_left_out(line: Line) -> list[Change]:
    """Return changes that leave out one input symbol each."""
    source = line.rows.source[0]
    if not isinstance(line.subject.sides.source, Tokeniser):
        raise DoesNotApply("the input consists of numbers: name a change", "use --what-if, as in head:cross.1.1")
    if len(source) < 2:
        raise DoesNotApply("the input has one symbol, which cannot be left out", "use --what-if")
    first = [index for index in range(len(source)) if source[index] >= line.subject.sides.source.first]
    return [Change(f"input:{index + 1}=", "input", index) for index in first[:MOST_ATTRIBUTED]]


def outcome(line: Line, change: Change) -> Outcome:
    """Return what the model writes after a change."""
    source, plan, sides = line.rows.source[0], line.subject.plan, line.subject.sides
    name = change.text
    if change.kind == "input":
        assert isinstance(sides.source, Tokeniser)
        removed = line.source_tokens[change.position] if change.position < len(source) else ""
        source = replaced([int(i) for i in source], change, sides.source.encode)
        name = f"{change.text} ({seen_symbol(removed)} → {seen_symbol(change.value) if change.value else 'nothing'})"
    if change.kind == "output":
        plan = _with_symbol(line, change)
    layers = {key: maps.weights.shape[0] for key, maps in maps_of(line).items()}
    _check(line, change, layers)
    return _decoded(line, name, source, plan, model_edits(change, layers, len(line.attended_tokens)))


def seen_symbol(symbol: str) -> str:
    """Return a symbol whose white space can be seen."""
    return symbol.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")


def _with_symbol(line: Line, change: Change) -> SearchPlan:
    """Return a search whose output begins as the line's does, up to a symbol that is given."""
    target = line.subject.sides.target
    assert isinstance(target, Tokeniser)
    new = target.encode(change.value)
    if not new or UNKNOWN in new:
        what = f"the model cannot write {change.value!r}: it never occurred in the training targets"
        raise UserError(what, f"--what-if {change.text}", "give symbols of the training targets")
    before = [int(i) for i in line.rows.target[0]]
    if change.position > len(before):
        todo = f"give a position from 1 to {len(before) + 1}"
        raise UserError(f"the output has no symbol {change.position + 1}", f"--what-if {change.text}", todo)
    plan = line.subject.plan
    return replace(plan, rules=replace(plan.rules, prefix=(*before[: change.position], *new)))


def _check(line: Line, change: Change, layers: Mapping[str, int]) -> None:
    """Refuse a head or a unit that the model does not have."""
    if change.kind == "head":
        maps = maps_of(line).get(change.part)
        if maps is None or (change.position, change.number) not in maps.labels:
            raise _no_head(change, None if maps is None else maps.weights.shape[:2], layers)
    if change.kind == "unit":
        name = next(iter(model_edits(change, layers, 1)))
        noted = line.seen.get(name)
        if not noted or change.number >= noted[0].shape[-1]:
            known = sorted(each for each in line.seen if each.endswith(".h"))
            forms = ", ".join(_form(each, line.seen[each][0].shape[-1]) for each in known)
            raise UserError("this model has no such unit", f"--what-if {change.text}", f"choose from {forms}")
    if change.kind == "attention" and "cross" not in layers:
        raise UserError("this model has no attention", f"--what-if {change.text}", "leave it out")


def _no_head(change: Change, there: tuple[int, ...] | None, layers: Mapping[str, int]) -> UserError:
    """Return the error of a head that is not there; `there` has the numbers of layers and heads of the map."""
    where = f"--what-if {change.text}"
    if there is None:
        return UserError(
            f"this model has no attention of the kind {change.part}", where, f"choose from {', '.join(layers)}"
        )
    (depth, heads), part = there, change.part
    of_each = f"{depth} layer{'s' * (depth > 1)} with {heads} head{'s' * (heads > 1)}{' each' * (depth > 1)}"
    what = f"there is no head {part}.{change.position + 1}.{change.number + 1}; {part} has {of_each}"
    last = f" to head:{part}.{depth}.{heads}" if depth * heads > 1 else ""
    return UserError(what, where, f"use head:{part}.1.1{last}")


def _form(name: str, width: int) -> str:
    """Return how the units of a layer are named: decode.0.h as decode.1.1…128."""
    part, layer, *direction, _ = name.split(".")
    return ".".join([part, str(int(layer) + 1), *direction, f"1…{width}"])


def _decoded(line: Line, name: str, source: object, plan: SearchPlan, edits: Mapping[str, Edit]) -> Outcome:
    """Search, and score the unchanged output, under edits of the model."""
    subject, contexts = line.subject, line.rows.context
    model = subject.model
    assert isinstance(model, Seq2Seq)
    with torch.no_grad(), trace(edits, keep=lambda _: False):
        hypotheses = decode(model, [source], plan, subject.device, contexts=contexts)[0]  # type: ignore[list-item]
    best: Hypothesis = hypotheses[0]
    text = subject.sides.text(best.row, line.pair)
    for edit in edits.values():
        if hasattr(edit, "calls"):
            edit.calls = 0
    return Outcome(name, text, best.score, best.log_prob, _by_steps(line, source, edits))


def _by_steps(line: Line, source: object, edits: Mapping[str, Edit]) -> float:
    """Return the log-probability of the line's output, written step by step under edits."""
    subject, model, total = line.subject, line.subject.model, 0.0
    assert isinstance(model, Seq2Seq)
    batch = subject.batch_of_rows(replace(line.rows, source=[source]))  # type: ignore[list-item]
    read: Column = batch.source
    with torch.no_grad(), trace(edits, keep=lambda _: False):
        state = model.begin(read, batch.context)
        y = torch.full((1,), START, device=subject.device)
        for symbol in batch.wanted.values[0]:
            log_probs, state = model.advance(y, state)
            total += float(log_probs[0, symbol])
            y = symbol[None]
    return total


VIEW = View(
    "what-if",
    "What if",
    "Change something and decode again: leave out an input symbol, force an output symbol, point the attention "
    "elsewhere, silence a head or a unit. Without `--what-if`, each input symbol is left out in turn.",
    why_not,
    of_line,
)
