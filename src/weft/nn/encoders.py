"""Encoders: from vectors and a mask to Memory."""

# B batch · S source length · D width

from __future__ import annotations

from torch import Tensor, nn

from weft.core.kinds import Memory
from weft.core.masks import biased_layers, last_real, reverse_real
from weft.core.trace import note, scope
from weft.nn.dropout import Dropout, begin_all
from weft.nn.multihead import FeedForward, MultiHead, ResidualNorm, last_norm
from weft.nn.positions import NoPositions
from weft.nn.unroll import Reader


class RecurrentEncoder(nn.Module):
    """Layers of recurrences over the source, from its start or, reversed, from its end (Sutskever 2014)."""

    def __init__(self, reader: Reader, width: int, reverse: bool, dropout: Dropout) -> None:
        super().__init__()
        self.reader, self.width, self.reverse = reader, width, reverse
        self.dropout = dropout

    def forward(self, x: Tensor, mask: Tensor) -> Memory:
        """Read vectors (B, S, E), reversed already where `reverse` says so; the states are in the source's order."""
        begin_all(self)
        with scope("encode"):
            states, final, cells = self.reader(x, mask)
        states = note("encode.states", states)
        if self.reverse:
            states = reverse_real(states, mask)
        states, final = self.dropout(states), tuple(self.dropout(h) for h in final)
        return Memory(states, mask, final, cells=tuple(self.dropout(c) for c in cells))


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward layer, each with residual connection and norm."""

    def __init__(self, attention: MultiHead, width: int, inner: int, norm: str, dropout: float) -> None:
        super().__init__()
        self.attention, self.feed = attention, FeedForward(width, inner, dropout)
        self.around_attention, self.around_feed = (ResidualNorm(width, norm, dropout) for _ in range(2))

    def forward(self, x: Tensor, mask: Tensor, positions: NoPositions) -> Tensor:
        query, key, value = self.attention.of_one(self.around_attention.before(x))
        query, key = positions.turn(query, 0), positions.turn(key, 0)
        seen = self.attention.attend(query, key, value, mask, ".self")
        x = self.around_attention.after(x, seen)
        return self.around_feed.after(x, self.feed(self.around_feed.before(x)))


class TransformerEncoder(nn.Module):
    """Blocks of self-attention (Vaswani 2017). The positions are those of its reader."""

    reverse = False

    def __init__(self, positions: NoPositions, blocks: list[EncoderBlock], width: int, norm: str) -> None:
        super().__init__()
        self.positions, self.width = positions, width
        self.blocks, self.norm = nn.ModuleList(blocks), last_norm(width, norm)

    def forward(self, x: Tensor, mask: Tensor) -> Memory:
        positions = self.positions
        bias = positions.bias(x.shape[1], x.shape[1], 0)
        layers = zip(self.blocks, biased_layers(mask[:, None, None], bias, len(self.blocks)), strict=True)
        with scope("encode"):
            for number, (block, seen) in enumerate(layers):
                x = note(f".{number}.h", block(x, seen, positions))
        states = self.norm(x)
        return Memory(states, mask, (last_real(states, mask),))


class NoEncoder(nn.Module):
    """The reader's vectors are the memory; the summary is the last one or, of grids, which have no last, the mean."""

    reverse = False

    def __init__(self, width: int, averaged: bool = False) -> None:
        super().__init__()
        self.width, self.averaged = width, averaged

    def forward(self, x: Tensor, mask: Tensor) -> Memory:
        if self.averaged:
            real = mask[..., None].to(x.dtype)
            return Memory(x, mask, ((x * real).sum(1) / real.sum(1),))
        return Memory(x, mask, (last_real(x, mask),))
