"""A Transformer decoder (Vaswani 2017), with key–value caches for stepping."""

# B lines · N hypotheses · S source length · T target length · H heads · d width of a head · D = H·d

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from weft.core import native
from weft.core.kinds import Memory
from weft.core.lines import Lines
from weft.core.masks import biased, causal
from weft.core.native.decoding import Block, Blocks, Decoding, Norm, Panels, Sight
from weft.core.trace import tracing
from weft.nn.cache import Cache
from weft.nn.embed import Embed
from weft.nn.multihead import Around, FeedForward, MultiHead, last_norm, together
from weft.nn.positions import NoPositions

KeysValues = tuple[Tensor, Tensor]  # each (B, H, length, d)


@dataclass(frozen=True)
class TransformerState:
    """For each block, the keys and values of the source, once a line, and of what each hypothesis has written.

    When lines leave, their keys stay where they are: the compiled step knows where to read, others ask for `settled`.
    """

    source: tuple[KeysValues, ...]
    mask: Tensor  # (B, 1, 1, S)
    lines: Lines
    written: Cache
    stored: Tensor | None = None  # (B,) where each line stands in `source` and `mask`; None: at its own place

    @property
    def place(self) -> int:
        return self.written.length

    def select(self, rows: Tensor) -> TransformerState:
        (lines, kept), stored = self.lines.select(rows), self.stored
        if kept is not None:
            stored = kept if stored is None else stored[kept]
        return replace(self, lines=lines, written=self.written.select(rows), stored=stored)

    def settled(self) -> TransformerState:
        """With every line and every hypothesis at its own place."""
        written = self.written.settled()
        if self.stored is None:
            return replace(self, written=written)
        source = tuple((keys[self.stored], values[self.stored]) for keys, values in self.source)
        return TransformerState(source, self.mask[self.stored], self.lines, written)


@dataclass(frozen=True)
class Seen:
    """What a block's self-attention sees: which places (…, T, all), and the cache, which holds its own part."""

    positions: NoPositions
    visible: Tensor | None  # needed for several new places
    written: Cache | None  # None where nothing is written before and nothing will be read after
    block: int = 0


class DecoderBlock(nn.Module):
    """Attend to what is written, attend to the source, feed forward, each with what stands around it."""

    def __init__(self, own: MultiHead, cross: MultiHead, width: int, inner: int, norm: str, dropout: float) -> None:
        super().__init__()
        self.own, self.cross, self.feed = own, cross, FeedForward(width, inner, dropout)
        self.around_own, self.around_cross, self.around_feed = (Around(width, norm, dropout) for _ in range(3))

    def forward(self, x: Tensor, source: KeysValues, state: TransformerState, seen: Seen) -> Tensor:
        """New places x (N, T, D) after those that are written already."""
        query, keys, values = self.own.of_one(self.around_own.before(x))
        query, keys = (seen.positions.turn(one, state.place) for one in (query, keys))
        if seen.written is not None:
            keys, values = seen.written.put(seen.block, keys, values)
        x = self.around_own.after(x, self.own.attend(query, keys, values, seen.visible, "decode.self"))
        query = self.cross.split(self.cross.query(state.lines.fold(self.around_cross.before(x))))
        looked = self.cross.attend(query, *source, state.mask, "decode.cross")
        x = self.around_cross.after(x, state.lines.unfold(looked))
        return self.around_feed.after(x, self.feed(self.around_feed.before(x)))


class TransformerDecoder(nn.Module):
    def __init__(self, embed: Embed, blocks: list[DecoderBlock], width: int, norm: str) -> None:
        super().__init__()
        self.embed, self.blocks, self.norm, self.width = embed, nn.ModuleList(blocks), last_norm(width, norm), width
        self.packed: tuple[Decoding, Blocks] | None = None  # where a model only predicts, see weft/nn/packed.py

    @property
    def heads(self) -> int:
        return self._blocks()[0].own.heads

    def start(self, memory: Memory) -> TransformerState:
        blocks, lines = self._blocks(), Lines(memory.states.shape[0])
        source = _of_source(memory.states, [block.cross for block in blocks])
        written = Cache.start(lines.count, len(blocks), self.heads, source[0][0])
        return TransformerState(source, memory.mask[:, None, None], lines, written)

    def step(self, y: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        packed = self.packed
        if packed is not None and native.is_plain(state.written.room) and not tracing():
            written = state.written.longer(1)
            return self._compiled_step(*packed, y, state, written), replace(state, written=written)
        state = state.settled()
        written = state.written.longer(1)
        return self._advance(y[:, None], state, None, written)[:, 0], replace(state, written=written)

    def unroll(self, y: Tensor, state: TransformerState) -> Tensor:
        state = state.settled()
        written = state.written.longer(y.shape[1]) if state.place else None
        return self._advance(y, state, causal(y.shape[1], state.place, y.device), written)

    def _advance(self, y: Tensor, state: TransformerState, visible: Tensor | None, written: Cache | None) -> Tensor:
        x, positions = self.embed(y, state.place), self.embed.positions  # (N, T, D)
        visible = biased(visible, positions.bias(y.shape[1], state.place + y.shape[1], state.place))
        for place, (block, source) in enumerate(zip(self._blocks(), state.source, strict=True)):
            x = block(x, source, state, Seen(positions, visible, written, place))
        out: Tensor = self.norm(x)
        return out

    def pack(self, compiled: Decoding) -> set[nn.Module]:
        """Take steps in compiled code from now on, where it knows this attention."""
        blocks = self._blocks()
        if not all(block.own.fused and block.cross.fused for block in blocks):
            return set()
        last, around = _norm(self.norm) if isinstance(self.norm, nn.LayerNorm) else None, blocks[0].around_own
        packed = [_packed(block) for block in blocks]
        self.packed = compiled, Blocks(packed, last, self.heads, around.first, around.norm.eps)
        return {layer for block in blocks for layer in (*block.own.modules(), block.cross, *_layers(block))}

    def unpack(self) -> None:
        self.packed = None

    def _compiled_step(
        self, compiled: Decoding, blocks: Blocks, y: Tensor, state: TransformerState, written: Cache
    ) -> Tensor:
        x, positions, place = self.embed(y[:, None], state.place), self.embed.positions, state.place
        turn = positions.turns(place, 1, self.width // self.heads, x)
        bias = positions.bias(1, place + 1, place)
        written_in = (written.room, written.length, written.origin)
        bias = None if bias is None else bias.contiguous()
        seen = Sight(state.source, state.mask, state.stored, state.lines.each, *written_in, turn, bias)
        return compiled.step(x[:, 0], blocks, seen)

    def _blocks(self) -> list[DecoderBlock]:
        return [block for block in self.blocks if isinstance(block, DecoderBlock)]


def _of_source(states: Tensor, looks: list[MultiHead]) -> tuple[KeysValues, ...]:
    """The keys and values of every block, which all read the same states."""
    found = together(states, *(layer for look in looks for layer in (look.key, look.value)))
    split = [looks[0].split(one) for one in found]
    return tuple(zip(split[::2], split[1::2], strict=True))


def _layers(block: DecoderBlock) -> list[nn.Linear]:
    """What the compiled step multiplies with, but for queries, keys and values of what is written."""
    feed = [layer for layer in block.feed if isinstance(layer, nn.Linear)]
    return [block.own.out, block.cross.query, block.cross.out, *feed]


def _packed(block: DecoderBlock) -> Block:
    panels = [Panels(*block.own.joint()), *(Panels(one.weight, one.bias) for one in _layers(block))]
    return Block(panels, [_norm(around.norm) for around in (block.around_own, block.around_cross, block.around_feed)])


def _norm(norm: nn.LayerNorm) -> Norm:
    return Norm(norm.weight.detach(), norm.bias.detach())
