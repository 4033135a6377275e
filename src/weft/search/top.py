"""The largest values of many, which beam search needs at every step."""

# B rows or lines · C columns · K hypotheses a line · V symbols

from __future__ import annotations

import torch
from torch import Tensor

from weft.core import native
from weft.core.pair import END
from weft.search.rules import Rules

BLOCK = 64
WIDE = 4096  # columns from which on looking at blocks first is faster (docs/LOG.md, "Decoding")


def top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return what `values.topk(count)` of (B, C) does, the best first.

    In wide rows the maximum of each block is taken first: the `count` largest are in the `count` best blocks, or behind
    the last whole block.
    """
    columns = values.shape[1]
    if columns < max(WIDE, count * BLOCK):
        return values.topk(min(count, columns), dim=1)
    whole = columns // BLOCK * BLOCK
    blocks = values[:, :whole].view(len(values), -1, BLOCK)
    chosen = blocks.amax(-1).topk(count, dim=1).indices  # (B, count)
    columns_left = (chosen[..., None] * BLOCK + torch.arange(BLOCK, device=values.device)).flatten(1)
    rest = torch.arange(whole, columns, device=values.device).expand(len(values), -1)
    columns_left = torch.cat([columns_left, rest], dim=1)
    best, chosen = values.gather(1, columns_left).topk(count, dim=1)
    return best, columns_left.gather(1, chosen)


def top_next(
    total: Tensor, log_probs: Tensor, written: Tensor, limits: Tensor, rules: Rules, count: int
) -> tuple[Tensor, Tensor]:
    """Return each line's best sums of a total (B, K) and a next symbol (B·K, V), with their index in K·V: (B, count).

    `written` is (B, K, t), `limits` (B,).
    """
    (lines, width), symbols, compiled = total.shape, log_probs.shape[1], native.pointwise()
    known = compiled is not None and native.is_plain(total, log_probs)
    if known and compiled is not None and count <= width * symbols and rules.are_plain(written.shape[2], limits):
        return compiled.top_sums(total, log_probs, END, rules.first_symbol, count)
    allowed = rules.apply(log_probs, written.flatten(0, 1), limits.repeat_interleave(width))
    return top((total[..., None] + allowed.view(lines, width, symbols)).flatten(1), count)
