"""From the settings of a search to its plan, by what the outputs are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.core.errors import UserError
from weft.core.pair import UNKNOWN
from weft.data.sides.side import Side
from weft.data.sides.sides import Sides
from weft.data.text.tokens import Tokeniser
from weft.search.decode import SearchPlan
from weft.search.rules import Rules
from weft.spec import Search

CONTINUATION = 200  # symbols or steps that are written after a prompt


def make_plan(search: Search, sides: Sides, nbest: int = 1, prefix: str = "") -> SearchPlan:
    """Plan the search of a spec, for outputs in the target's symbols, without a limit of time."""
    plan = _plan(search, sides.target, nbest, prefix)
    if not sides.alone:
        return plan
    rules = replace(plan.rules, endless=sides.running is not None)
    return replace(plan, continues=True, length=plan.length or CONTINUATION, rules=rules)


def _plan(search: Search, target: Side, nbest: int, prefix: str) -> SearchPlan:
    if not isinstance(target, Tokeniser):
        return _plan_at_once(search, target, nbest, prefix)
    if prefix and target.backward:
        what = "this run writes from the end (decoder.reverse=true), so it cannot use a prefix"
        raise UserError(what, "prefix", "leave it out, or use a run with decoder.reverse=false")
    settings = search.model_dump(exclude={"no_repeat", "seconds"})
    forced = tuple(target.encode(prefix)) if prefix else ()
    if UNKNOWN in forced:
        raise UserError(
            f"the prefix {prefix!r} has tokens that never occur in the training targets",
            "prefix",
            "use tokens of the training targets (they are in target.json)",
        )
    rules = Rules(target.first, forced, search.no_repeat, tuple(target.joining(prefix)) if prefix else ())
    return SearchPlan(**settings, nbest=nbest, rules=rules)


def _plan_at_once(search: Search, target: Side, nbest: int, prefix: str) -> SearchPlan:
    """Plan the search for labels, numbers or notes, which have no symbols to begin with."""
    if prefix:
        what = f"outputs of this run are {NAMES_OF_KINDS[target.kind]}, which have no prefix"
        raise UserError(what, "prefix", "leave it out")
    if nbest > 1 and target.kind == "labels":
        what = "a run that labels each word has only one output per line"
        raise UserError(what, f"nbest={nbest}", "leave nbest out")
    if nbest > 1 and target.kind in SERIES and search.kind != "sample":
        what = f"the output of this run is {SERIES[target.kind]}, so there is only one"
        raise UserError(what, f"nbest={nbest}", "for several outputs, sample (--sample)")
    kind = "sample" if target.kind in SERIES and search.kind == "sample" else AT_ONCE[target.kind]
    return SearchPlan(**{**search.model_dump(exclude={"no_repeat", "seconds"}), "kind": kind}, nbest=nbest)


def check_search(changes: Mapping[str, Any], target_kind: str) -> None:
    """Refuse a way of searching that outputs of this kind do not have."""
    kind = changes.get("kind", "beam" if "width" in changes else None)
    if target_kind in SERIES and kind == "beam":
        what = f"beam search needs tokens, but this run predicts {target_kind}"
        raise UserError(what, "search.width", "leave it out, or sample several outputs")
    if target_kind in SERIES and (cut := [name for name in ("top_k", "top_p") if name in changes]):
        what = f"top-k and top-p sampling need tokens, but this run predicts {target_kind}"
        raise UserError(what, f"search.{cut[0]}", "leave it out; --temperature below 1 makes samples vary less")
    if target_kind in ("label", "labels", "span", "hidden", "document") and kind in ("beam", "sample"):
        name = NAMES_OF_KINDS[target_kind]
        several = "the probabilities" if target_kind == "labels" else f"nbest, which gives the most probable {name}"
        where = "search.width" if kind == "beam" else "search.kind sample"
        raise UserError(
            f"{name} are predicted in one step, without a search", where, f"leave it out, and use {several}"
        )


AT_ONCE = {
    "label": "most probable",
    "labels": "most probable",
    "numbers": "mean",
    "notes": "most probable",
    "span": "best span",
    "hidden": "most probable",
    "document": "nearest",
}
SERIES = {"numbers": "the mean of the predicted numbers", "notes": "the most probable notes"}  # predicted step by step
NAMES_OF_KINDS = {
    **{"label": "labels", "labels": "labels", "numbers": "numbers", "notes": "notes"},
    "span": "spans of the source",
    "hidden": "hidden tokens",
    "document": "documents",
}
