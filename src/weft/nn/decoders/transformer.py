"""A Transformer decoder (Vaswani 2017), with key–value caches for stepping."""

# B batch · S source length · T target length · H heads · d width of a head · D = H·d

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from weft.core.kinds import Memory
from weft.core.masks import biased, causal
from weft.nn.embed import Embed
from weft.nn.multihead import Around, FeedForward, MultiHead, last_norm
from weft.nn.positions import NoPositions

KeysValues = tuple[Tensor, Tensor]  # each (B, H, length, d)


@dataclass(frozen=True)
class TransformerState:
    """For each block, the keys and values of the source and of what has been written."""

    source: tuple[KeysValues, ...]
    written: tuple[KeysValues, ...]
    mask: Tensor  # (B, 1, 1, S)

    @property
    def place(self) -> int:
        return self.written[0][0].shape[2]

    def select(self, rows: Tensor) -> TransformerState:
        def pick(caches: tuple[KeysValues, ...]) -> tuple[KeysValues, ...]:
            return tuple((keys[rows], values[rows]) for keys, values in caches)

        return TransformerState(pick(self.source), pick(self.written), self.mask[rows])


class DecoderBlock(nn.Module):
    """Attend to what is written, attend to the source, feed forward, each with what stands around it."""

    def __init__(self, own: MultiHead, cross: MultiHead, width: int, inner: int, norm: str, dropout: float) -> None:
        super().__init__()
        self.own, self.cross, self.feed = own, cross, FeedForward(width, inner, dropout)
        self.around_own, self.around_cross, self.around_feed = (Around(width, norm, dropout) for _ in range(3))

    def of_source(self, states: Tensor) -> KeysValues:
        return self.cross.split(self.cross.key(states)), self.cross.split(self.cross.value(states))

    def forward(
        self,
        x: Tensor,
        source: KeysValues,
        mask: Tensor,
        written: KeysValues,
        visible: Tensor | None,
        positions: NoPositions,
    ) -> tuple[Tensor, KeysValues]:
        """New places x (B, T, D) after those `written` already; `visible` (…, T, all) is needed for several."""
        start, y = written[0].shape[2], self.around_own.before(x)
        query = positions.turn(self.own.split(self.own.query(y)), start)
        keys = torch.cat([written[0], positions.turn(self.own.split(self.own.key(y)), start)], dim=2)
        values = torch.cat([written[1], self.own.split(self.own.value(y))], dim=2)
        x = self.around_own.after(x, self.own.attend(query, keys, values, visible, "decode.self"))
        query = self.cross.split(self.cross.query(self.around_cross.before(x)))
        x = self.around_cross.after(x, self.cross.attend(query, *source, mask, "decode.cross"))
        return self.around_feed.after(x, self.feed(self.around_feed.before(x))), (keys, values)


class TransformerDecoder(nn.Module):
    def __init__(self, embed: Embed, blocks: list[DecoderBlock], width: int, norm: str) -> None:
        super().__init__()
        self.embed, self.blocks, self.norm, self.width = embed, nn.ModuleList(blocks), last_norm(width, norm), width

    def start(self, memory: Memory) -> TransformerState:
        source = tuple(block.of_source(memory.states) for block in self._blocks())
        nothing = tuple((keys[:, :, :0], values[:, :, :0]) for keys, values in source)
        return TransformerState(source, nothing, memory.mask[:, None, None])

    def step(self, y: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        out, after = self._advance(y[:, None], state, None)
        return out[:, 0], after

    def unroll(self, y: Tensor, state: TransformerState) -> Tensor:
        return self._advance(y, state, causal(y.shape[1], state.place, y.device))[0]

    def _advance(self, y: Tensor, state: TransformerState, visible: Tensor | None) -> tuple[Tensor, TransformerState]:
        x, positions = self.embed(y, state.place), self.embed.positions  # (B, T, D)
        visible = biased(visible, positions.bias(y.shape[1], state.place + y.shape[1], state.place))
        written = []
        for block, source, before in zip(self._blocks(), state.source, state.written, strict=True):
            x, after = block(x, source, state.mask, before, visible, positions)
            written.append(after)
        return self.norm(x), TransformerState(state.source, tuple(written), state.mask)

    def _blocks(self) -> list[DecoderBlock]:
        return [block for block in self.blocks if isinstance(block, DecoderBlock)]
