"""View: the search as a tree, with what it pruned, and whether a wrong output is the fault of the search or the model.

If the model gives the right output a higher rank than the one that was found, the search has missed it; otherwise the
model prefers the wrong one, and no search can help.
"""

# B lines · K hypotheses a line · t symbols written

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from weft.core.kinds import Hypothesis
from weft.core.pair import END, UNKNOWN
from weft.data.sides.side import Encoded
from weft.data.text.tokens import Tokeniser
from weft.look.inspect.plots import Branch, Cell, Facts, Plot, Plots, Table, Tree
from weft.look.inspect.subject import Line, Subject
from weft.look.inspect.views import Options, View
from weft.nn.model import Aligned
from weft.search.beam import Candidates, beam
from weft.search.joint import joint

OUTPUTS = {
    "label": "labels",
    "labels": "labels",
    "numbers": "numbers",
    "notes": "notes",
    "span": "parts of the document",
    "document": "documents",
}  # by kind of target
MOST_NODES = 1_200  # of a tree; beyond that, branches that were pruned are left out
Prefix = tuple[int, ...]


def why_not(subject: Subject) -> str:
    """Return why a model has no search tree."""
    if isinstance(subject.predictor.model, Aligned):
        return "a CTC model has no decoder that writes symbol by symbol, so its search is not a tree of symbols"
    if subject.is_language_model:
        return "a language model has no separate output, so there is no search to show"
    if not subject.has_decoder or not subject.writes_text:
        outputs = OUTPUTS.get(subject.predictor.spec.target.kind, "predicted all at once")
        return f"this model predicts without a search over symbols (its outputs are {outputs})"
    return ""


@dataclass
class Recorder:
    """Collects what a beam search over one line considers."""

    tree: dict[Prefix, Branch] = field(default_factory=dict)
    length_penalty: float = 1.0

    def __call__(self, step: Candidates) -> None:
        for column, symbol in enumerate(step.symbol[0].tolist()):
            total = float(step.total[0, column])
            if total == float("-inf"):
                continue
            prefix = (*step.written[0, int(step.origin[0, column])].tolist(), symbol)
            fate = "ended" if bool(step.ended[0, column]) else "kept" if bool(step.kept[0, column]) else "pruned"
            parent = -1 if len(prefix) == 1 else self.tree[prefix[:-1]].id
            rank = total / len(prefix) ** self.length_penalty
            log_prob = float(step.score[0, column])
            self.tree[prefix] = Branch(len(self.tree), parent, str(symbol), log_prob, total, rank, fate)


@dataclass(frozen=True)
class Searched:
    """The tree of a line, and the hypotheses that ended, the best first."""

    tree: dict[Prefix, Branch]
    finished: list[Hypothesis]


def search(line: Line) -> Searched:
    """Search as `weft predict` does, and keep everything that was considered."""
    subject, plan = line.subject, line.subject.plan
    width = 1 if plan.kind == "greedy" else plan.hypotheses
    recorder = Recorder(length_penalty=plan.length_penalty)
    model: Any = subject.predictor.model
    limits = torch.tensor([plan.longest(len(line.rows.source[0]))], device=subject.device)
    source, context = line.batch.source, line.batch.context
    searched = joint(model, plan.ctc_weight)
    finished = beam(searched, source, limits, plan.rules, width, plan.length_penalty, 1, context, watch=recorder)
    return Searched(recorder.tree, finished[0])


def forced_scores(line: Line, ids: Sequence[int]) -> list[float]:
    """Return the log-probability of each symbol of an output, END's included, given those before it."""
    rows = Encoded(line.rows.source, [list(ids)], line.rows.context)
    batch = line.subject.batch_of_rows(rows)
    with torch.no_grad():
        scores: list[float] = (-line.subject.model(batch).nll(batch.wanted))[0].tolist()
    return scores


def of_line(line: Line, options: Options) -> Plots:
    found = search(line)
    right = _right(line)
    plots: dict[str, Plot] = {}
    if right:
        plots["judgement"] = judgement(line, found, right)
    plots["finished"] = _finished(line, found)
    if not options.brief:
        plots["tree"] = _tree(
            line, found, line.subject.sides.encode([replace(line.pair, target=right)]) if right else None
        )
    return plots


def _right(line: Line) -> str:
    """Return the right output, where one is known or given."""
    return line.output.text if line.forced else line.pair.target


def judgement(line: Line, found: Searched, right: str) -> Facts:
    """Say whether the search or the model is to blame for a wrong output."""
    subject, best = line.subject, found.finished[0]
    ids = list(subject.sides.encode([replace(line.pair, target=right)]).target[0])
    scores = forced_scores(line, ids)
    rank = sum(scores) / len(scores) ** subject.plan.length_penalty
    items: dict[str, Cell] = {
        "right output": right,
        "its rank (log p / length^α)": rank,
        "found": subject.sides.text(best.row, line.pair),
        "rank of what was found": best.score,
        "length penalty α": subject.plan.length_penalty,
    }
    return Facts("Search error or model error?", items, _verdict(line, found, ids, rank), tuple(ids) != best.ids)


def _verdict(line: Line, found: Searched, ids: Sequence[int], rank: float) -> str:
    best = found.finished[0]
    if tuple(ids) == best.ids:
        return "The search found the right output."
    if UNKNOWN in ids:
        return "Model error: the right output has symbols that the model cannot write, because training never had them."
    lost = next(
        (i for i in range(len(ids)) if _fate(found.tree, tuple(ids[: i + 1])) not in ("kept", "ended")), len(ids)
    )
    where = f" Its beginning fell out of the beam at symbol {lost + 1}." if lost < len(ids) else ""
    if rank > best.score:
        return f"Search error: the model ranks the right output higher than what was found.{where} Try a wider beam."
    return f"Model error: the model ranks the wrong output higher than the right one, so no search helps.{where}"


def _fate(tree: dict[Prefix, Branch], prefix: Prefix) -> str:
    return tree[prefix].fate if prefix in tree else "never considered"


def _finished(line: Line, found: Searched) -> Table:
    rows: list[list[Cell]] = []
    for number, hypothesis in enumerate(found.finished, 1):
        text, length = line.subject.sides.text(hypothesis.row, line.pair), len(hypothesis.token_scores)
        forced = sum(forced_scores(line, hypothesis.ids))
        rows.append([number, text, hypothesis.log_prob, length, hypothesis.score, hypothesis.token_scores[-1], forced])
    columns = ["", "output", "log p", "length", "score", "log p of the end", "log p when forced"]
    ended = sum(node.fate == "ended" for node in found.tree.values())
    note = f"The best {len(rows)} of {ended} that ended. " if ended > len(rows) else ""
    note += (
        "The score is log p / length^α; the length includes the end token. "
        "Forced scoring of the same symbols gives the same log p."
    )
    return Table("Hypotheses that ended", columns, rows, note)


def _tree(line: Line, found: Searched, right: Encoded | None) -> Tree:
    target = line.subject.sides.target
    assert isinstance(target, Tokeniser)
    nodes = list(found.tree.values())
    if len(nodes) > MOST_NODES:
        nodes = [node for node in nodes if node.fate != "pruned"][:MOST_NODES]
    note = f"{len(found.tree) - len(nodes):,} branches are not drawn." if len(nodes) < len(found.tree) else ""
    shown = [
        replace(node, symbol=line.subject.predictor.shown(line.pair.source, target, [int(node.symbol)])[0])
        for node in nodes
    ]
    best, wanted = found.finished[0].ids, () if right is None else tuple(right.target[0])
    return Tree("The search", shown, _path(found.tree, best), _path(found.tree, wanted), note)


def _path(tree: dict[Prefix, Branch], ids: Sequence[int]) -> list[int]:
    whole = (*ids, END) if ids else ()
    return [tree[whole[: i + 1]].id for i in range(len(whole)) if whole[: i + 1] in tree]


VIEW = View(
    "beam",
    "Search",
    "The tree of the search: what it kept, what it pruned, and where outputs ended. If the right output is known (from "
    "`--table`, or given by `--force`), it says whether the search missed it or the model prefers another.",
    why_not,
    of_line,
    unasked="line",
)
