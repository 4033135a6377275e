"""From the settings of a search to its plan, by what the outputs are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.core.errors import UserError
from weft.core.pair import UNKNOWN
from weft.data.sides.side import Side
from weft.data.text.tokens import Tokeniser
from weft.search.decode import SearchPlan
from weft.search.rules import Rules
from weft.spec import Search


def make_plan(search: Search, target: Side, nbest: int = 1, prefix: str = "") -> SearchPlan:
    """Plan the search of a spec, for outputs in the target's symbols, without a limit of time."""
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
    """Plan the search for labels or numbers, which have no symbols to begin with."""
    if prefix:
        what = f"outputs of this run are {NAMES_OF_KINDS[target.kind]}, which have no prefix"
        raise UserError(what, "prefix", "leave it out")
    if nbest > 1 and target.kind == "labels":
        what = "a run that labels each word has only one output per line"
        raise UserError(what, f"nbest={nbest}", "leave nbest out")
    if nbest > 1 and target.kind == "numbers" and search.kind != "sample":
        what = "the output of this run is the mean of the predicted numbers, so there is only one"
        raise UserError(what, f"nbest={nbest}", "for several outputs, sample (--sample)")
    kind = "sample" if target.kind == "numbers" and search.kind == "sample" else AT_ONCE[target.kind]
    return SearchPlan(**{**search.model_dump(exclude={"no_repeat", "seconds"}), "kind": kind}, nbest=nbest)


def check_search(changes: Mapping[str, Any], target_kind: str) -> None:
    """Refuse a way of searching that outputs of this kind do not have."""
    kind = changes.get("kind", "beam" if "width" in changes else None)
    if target_kind == "numbers" and kind == "beam":
        what = "numbers are predicted step by step, and a beam is for tokens"
        raise UserError(what, "search.width", "leave it out, or sample several outputs")
    if target_kind in ("label", "labels") and kind in ("beam", "sample"):
        several = "nbest, which gives the most probable labels" if target_kind == "label" else "the probabilities"
        where = "search.width" if kind == "beam" else "search.kind sample"
        raise UserError("labels are predicted at once, without a search", where, f"leave it out, and use {several}")


AT_ONCE = {"label": "most probable", "labels": "most probable", "numbers": "mean"}
NAMES_OF_KINDS = {"label": "labels", "labels": "labels", "numbers": "numbers"}
