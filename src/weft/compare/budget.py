"""How long each run of a comparison trains: seconds, steps, epochs, or target symbols (`2M tokens`)."""

from __future__ import annotations

import re

from weft.core.errors import UserError
from weft.data.corpus import Corpus
from weft.learn.budget import read_seconds
from weft.learn.loop import epoch_of
from weft.spec import Spec

SIZES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
TOKENS = re.compile(r"(\d+(?:\.\d+)?)\s*([kMG]?)\s*tokens?")


def read_budget(budget: str | float | None) -> tuple[float | None, float | None]:
    """Seconds or tokens, whichever the text means: `5m` and `90s` are times, `2Mtokens` and `300k tokens` are not."""
    if budget is None:
        return None, None
    if not isinstance(budget, str):
        return read_seconds(budget), None
    text = budget.strip()
    if found := TOKENS.fullmatch(text):
        tokens = float(found[1]) * SIZES[found[2]]
        if tokens < 1:
            raise UserError("the budget is no token at all", f"--budget {text}", "give a number, like 2Mtokens")
        return None, tokens
    if "token" in text:
        raise UserError(f"'{text}' is not a number of tokens", "--budget", "write it like 2Mtokens or 300ktokens")
    return read_seconds(text), None


def epochs_for(tokens: float, corpus: Corpus, spec: Spec) -> float:
    """Passes over the data in which so many target symbols are learned from (to the end of the last batch)."""
    return tokens / max(1, int(corpus.target_lengths[epoch_of(corpus, spec, 0).rows].sum()))
