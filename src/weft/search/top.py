"""The largest of very many: what beam search asks of every step."""

# B rows · C columns

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 64
WIDE = 4096  # columns from which on looking at blocks first is faster (docs/LOG.md, "Beam search")


def top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """As `values.topk(count)` of (B, C), the best first.

    Of wide rows the maximum of each block is taken first: the `count` largest are in the `count` best blocks, or behind
    the last whole block.
    """
    columns = values.shape[1]
    if columns < max(WIDE, count * BLOCK):
        return values.topk(min(count, columns), dim=1)
    whole = columns // BLOCK * BLOCK
    blocks = values[:, :whole].view(len(values), -1, BLOCK)
    chosen = blocks.amax(-1).topk(count, dim=1).indices  # (B, count)
    places = (chosen[..., None] * BLOCK + torch.arange(BLOCK, device=values.device)).flatten(1)
    rest = torch.arange(whole, columns, device=values.device).expand(len(values), -1)
    places = torch.cat([places, rest], dim=1)
    best, found = values.gather(1, places).topk(count, dim=1)
    return best, places.gather(1, found)
