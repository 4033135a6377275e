"""The keys and values of what a Transformer decoder has written, in a buffer that grows."""

# N hypotheses · T new positions · H heads · d width of a head · D = H·d

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

FIRST_CAPACITY = 32  # positions; memory that is never written costs nothing


@dataclass(frozen=True)
class Cache:
    """A value, like every state: if the same cache is extended twice, the second time its buffer is copied.

    A row of the buffer holds all blocks of one position. Hypotheses are reordered by noting which row holds each of
    their positions: the compiled step reads them there, and `compacted` moves them for everyone else.
    """

    buffer: Tensor  # (capacity, rows, blocks · 2 · D)
    heads: int
    width: int
    length: int
    filled: list[int]  # one number, shared by all that share the buffer: how many positions are filled
    row_of: Tensor | None = None  # (length, N) the row that holds each position of each hypothesis; None: its own

    @classmethod
    def start(cls, rows: int, blocks: int, heads: int, like: Tensor) -> Cache:
        """Return an empty cache; `like` is the keys of a block (…, H, …, d)."""
        width = heads * like.shape[-1]
        return cls(like.new_empty(FIRST_CAPACITY, rows, blocks * 2 * width), heads, width, 0, [0])

    def select(self, rows: Tensor) -> Cache:
        row_of = rows.expand(self.length, -1) if self.row_of is None else self.row_of.index_select(1, rows)
        selected = replace(self, row_of=row_of)
        return selected if self.length and rows.numel() <= self.buffer.shape[1] else selected.compacted()

    def compacted(self) -> Cache:
        """Return the cache with each hypothesis in its own row, and no other rows."""
        return self if self.row_of is None else self._copied(self.buffer.shape[0])

    def extended(self, positions: int) -> Cache:
        """Return the cache with room for some more positions, which `put` or the compiled step fills."""
        length, capacity = self.length + positions, self.buffer.shape[0]
        if self.filled[0] != self.length or length > capacity or torch.is_grad_enabled():
            copied = self._copied(capacity if length <= capacity else max(length, 2 * capacity))
            return replace(copied, length=length, filled=[length])
        self.filled[0], row_of = length, self.row_of
        if row_of is not None:
            new = torch.arange(row_of.shape[1], device=row_of.device).expand(positions, -1)
            row_of = torch.cat([row_of, new])
        return replace(self, length=length, row_of=row_of)

    def _copied(self, capacity: int) -> Cache:
        """Return the cache in a new buffer for so many positions, each hypothesis in its own row."""
        (_, rows, size), length = self.buffer.shape, self.length
        if self.row_of is None:
            buffer = self.buffer.new_empty(capacity, rows, size)
            buffer[:length] = self.buffer[:length]
        else:
            buffer = self.buffer.new_empty(capacity, self.row_of.shape[1], size)
            indices = torch.arange(length, device=buffer.device)[:, None] * rows + self.row_of  # (t, N)
            moved = self.buffer.view(-1, size).index_select(0, indices.flatten())
            buffer[:length] = moved.view(length, *buffer.shape[1:])
        return replace(self, buffer=buffer, filled=[length], row_of=None)

    def put(self, block: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new keys and values (N, H, T, d) of one block; return all of that block (N, H, length, d).

        Each hypothesis must be in its own row.
        """
        first = 2 * self.width * block
        of_block = self.buffer[: self.length, :, first : first + 2 * self.width]
        both = of_block.view(*of_block.shape[:2], 2, self.heads, self.width // self.heads)
        new = both[self.length - keys.shape[2] :]  # (T, N, 2, H, d)
        new[:, :, 0], new[:, :, 1] = keys.permute(2, 0, 1, 3), values.permute(2, 0, 1, 3)
        all_keys, all_values = both.permute(2, 1, 3, 0, 4).unbind(0)
        return all_keys, all_values
