"""Keys and values of what a Transformer decoder has written, in room that is filled as it goes."""

# N hypotheses · T new places · H heads · d width of a head · D = H·d

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

FIRST_ROOM = 32  # places; memory that is not written to costs nothing


@dataclass(frozen=True)
class Cache:
    """A value, like every state: who goes on from the same one twice gets room of their own the second time.

    All blocks stand side by side in one row a place. Hypotheses are reordered by noting where their places are: the
    compiled step reads them there, and `compacted` moves them for all others.
    """

    room: Tensor  # (capacity, rows, blocks · 2 · D)
    heads: int
    width: int
    length: int
    filled: list[int]  # one number, shared by all that share the room: how far it is filled
    origin: Tensor | None = None  # (length, N) the row that holds each place of each hypothesis; None: its own

    @classmethod
    def start(cls, rows: int, blocks: int, heads: int, like: Tensor) -> Cache:
        """Nothing written yet; `like` is some block's keys (…, H, …, d)."""
        width = heads * like.shape[-1]
        return cls(like.new_empty(FIRST_ROOM, rows, blocks * 2 * width), heads, width, 0, [0])

    def select(self, rows: Tensor) -> Cache:
        origin = rows.expand(self.length, -1) if self.origin is None else self.origin.index_select(1, rows)
        made = replace(self, origin=origin)
        return made if self.length and rows.numel() <= self.room.shape[1] else made.compacted()

    def compacted(self) -> Cache:
        """With the places of each hypothesis in its own row, and no other rows."""
        return self if self.origin is None else self._moved(self.room.shape[0])

    def longer(self, places: int) -> Cache:
        """With room for some more places, which `put` or the compiled step fills."""
        length, capacity = self.length + places, self.room.shape[0]
        if self.filled[0] != self.length or length > capacity or torch.is_grad_enabled():
            moved = self._moved(capacity if length <= capacity else max(length, 2 * capacity))
            return replace(moved, length=length, filled=[length])
        self.filled[0], origin = length, self.origin
        if origin is not None:
            own = torch.arange(origin.shape[1], device=origin.device).expand(places, -1)
            origin = torch.cat([origin, own])
        return replace(self, length=length, origin=origin)

    def _moved(self, capacity: int) -> Cache:
        """In room of its own for so many places, each hypothesis in its own row."""
        (_, rows, size), length = self.room.shape, self.length
        if self.origin is None:
            room = self.room.new_empty(capacity, rows, size)
            room[:length] = self.room[:length]
        else:
            room = self.room.new_empty(capacity, self.origin.shape[1], size)
            places = torch.arange(length, device=room.device)[:, None] * rows + self.origin  # (t, N)
            found = self.room.view(-1, size).index_select(0, places.flatten())
            room[:length] = found.view(length, *room.shape[1:])
        return replace(self, room=room, filled=[length], origin=None)

    def put(self, block: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """New keys and values (N, H, T, d) of one block in their place; all of that block (N, H, length, d).

        Only where each hypothesis has its own row.
        """
        first = 2 * self.width * block
        own = self.room[: self.length, :, first : first + 2 * self.width]
        both = own.view(*own.shape[:2], 2, self.heads, self.width // self.heads)
        new = both[self.length - keys.shape[2] :]  # (T, N, 2, H, d)
        new[:, :, 0], new[:, :, 1] = keys.permute(2, 0, 1, 3), values.permute(2, 0, 1, 3)
        out_keys, out_values = both.permute(2, 1, 3, 0, 4).unbind(0)
        return out_keys, out_values
