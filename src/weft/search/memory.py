"""The memory that the outputs of a line may need, estimated before the search starts."""

from __future__ import annotations

import os
from collections.abc import Sequence

from weft.core.errors import UserError


def check_memory(longest: Sequence[int], lines: Sequence[int], hypotheses: int, symbol_bytes: int) -> None:
    """Refuse a line whose outputs cannot fit even if nothing else is in memory.

    `longest` has the most symbols of each line's outputs; each symbol of each hypothesis takes `symbol_bytes`.
    """
    if not longest or not symbol_bytes:
        return
    needed = max(longest) * hypotheses * symbol_bytes
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        symbols = f"{hypotheses:,} hypotheses of up to {max(longest):,} tokens"
        raise UserError(
            f"{symbols} may need {needed / 1e9:,.1f} GB of memory, and there are {there / 1e9:,.1f} GB",
            f"line {lines[longest.index(max(longest))] + 1} of the input",
            "give a smaller --beam or --nbest, shorten the line, or lower search.max_ratio",
        )
