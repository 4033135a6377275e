"""Reading the source: ids and mask to Memory."""

# B batch · S source length · D width

from __future__ import annotations

from torch import Tensor, nn

from weft.core.kinds import Memory
from weft.core.masks import last_real, reverse_real
from weft.core.trace import note
from weft.nn.dropout import Dropout
from weft.nn.embed import Embed
from weft.nn.multihead import FeedForward, MultiHead
from weft.nn.positions import NoPositions
from weft.nn.unroll import Reader


class RecurrentEncoder(nn.Module):
    """Layers of recurrences over the source, from its start or, reversed, from its end (Sutskever 2014)."""

    def __init__(self, embed: Embed, reader: Reader, width: int, reverse: bool, dropout: float) -> None:
        super().__init__()
        self.embed, self.reader, self.width, self.reverse = embed, reader, width, reverse
        self.dropout = Dropout(dropout)

    def forward(self, source: Tensor, mask: Tensor) -> Memory:
        x = self.embed(reverse_real(source, mask) if self.reverse else source)
        states, final = self.reader(x, mask)
        note("encode.states", states)
        if self.reverse:
            states = reverse_real(states, mask)
        return Memory(self.dropout(states), mask, tuple(self.dropout(f) for f in final), source)


class EncoderBlock(nn.Module):
    """x + attend(norm(x)), then x + feed(norm(x))."""

    def __init__(self, width: int, heads: int, inner: int, positions: NoPositions, dropout: float) -> None:
        super().__init__()
        self.positions = positions
        self.attention, self.feed = MultiHead(width, heads), FeedForward(width, inner, dropout)
        self.attention_norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        look, y = self.attention, self.attention_norm(x)
        query = self.positions.turn(look.split(look.query(y)), 0)
        key = self.positions.turn(look.split(look.key(y)), 0)
        x = x + self.dropout(look.attend(query, key, look.split(look.value(y)), mask, "encode.self"))
        out: Tensor = x + self.dropout(self.feed(self.feed_norm(x)))
        return out


class TransformerEncoder(nn.Module):
    """Blocks of self-attention (Vaswani 2017), norms before each part (Xiong 2020)."""

    def __init__(self, embed: Embed, blocks: list[EncoderBlock], width: int) -> None:
        super().__init__()
        self.embed, self.blocks, self.norm, self.width = embed, nn.ModuleList(blocks), nn.LayerNorm(width), width

    def forward(self, source: Tensor, mask: Tensor) -> Memory:
        x = self.embed(source)
        for block in self.blocks:
            x = block(x, mask[:, None, None])
        states = self.norm(x)
        return Memory(states, mask, (last_real(states, mask),), source)
