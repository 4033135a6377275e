"""From the states of a source to where a span of it begins and ends."""

# B batch · S source length · D width

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.core.kinds import Memory
from weft.core.masks import hide
from weft.core.spans import Span


class SpanHead(nn.Module):
    """Begins are scored by w·h; ends by v·φ(W [h; b; h∘b]), where b is the expected state of the begin."""

    sees_source = False  # but for its mask
    symbols = 2

    def __init__(self, width: int, longest: int, none: bool) -> None:
        super().__init__()
        self.longest, self.none = longest, none
        self.begin, self.end = nn.Linear(width, 1), nn.Linear(width, 1)
        self.mix = nn.Linear(3 * width, width)

    def forward(self, out: Tensor, memory: Memory | None) -> Span:
        """Return the emission of states (B, S, D)."""
        assert memory is not None
        begins = hide(self.begin(out)[..., 0], memory.mask)  # (B, S)
        likely = torch.softmax(begins.float(), dim=-1).to(out.dtype)[:, None] @ out  # (B, 1, D)
        mixed = torch.cat([out, likely.expand_as(out), out * likely], dim=-1)
        ends = hide(self.end(torch.tanh(self.mix(mixed)))[..., 0], memory.mask)
        positions = torch.arange(out.shape[1], device=out.device)
        return Span(begins, ends, (positions * memory.mask).amax(1), self.longest, self.none)
