"""A Transformer decoder (Vaswani 2017), with key–value caches for stepping."""

# B lines · N hypotheses · S source length · T target length · H heads · d width of a head · D = H·d

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from torch import Tensor, nn

from weft.core import native
from weft.core.kinds import Memory
from weft.core.lines import Lines
from weft.core.masks import biased_layers, causal
from weft.core.native.decoding import Block, Blocks, Decoding, Norm, Panels, StepInputs
from weft.core.trace import note, scope, tracing
from weft.nn.cache import Cache
from weft.nn.context import at_steps
from weft.nn.multihead import FeedForward, MultiHead, ResidualNorm, last_norm, together
from weft.nn.positions import NoPositions

KeysValues = tuple[Tensor, Tensor]  # each (B, H, length, d)


@dataclass(frozen=True)
class TransformerState:
    """For each block, the keys and values of the source, once per line, and of what each hypothesis has written.

    When lines are dropped, their keys stay where they are: the compiled step knows where to read, and other code calls
    `compacted` first.
    """

    source: tuple[KeysValues | None, ...]  # None in blocks without cross-attention
    mask: Tensor  # (B, 1, 1, S)
    lines: Lines
    written: Cache
    stored: Tensor | None = None  # (B,) the index of each line in `source` and `mask`; None: in order
    beside: Tensor | None = None  # (N, T, D), of a column that is read step by step

    @property
    def place(self) -> int:
        return self.written.length

    def select(self, rows: Tensor) -> TransformerState:
        (lines, kept), stored = self.lines.select(rows), self.stored
        if kept is not None:
            stored = kept if stored is None else stored[kept]
        beside = None if self.beside is None else self.beside[rows]
        return replace(self, lines=lines, written=self.written.select(rows), stored=stored, beside=beside)

    def compacted(self) -> TransformerState:
        """Return the state with every line and hypothesis at its own index."""
        written = self.written.compacted()
        if self.stored is None:
            return replace(self, written=written)
        source = tuple(None if of is None else (of[0][self.stored], of[1][self.stored]) for of in self.source)
        return TransformerState(source, self.mask[self.stored], self.lines, written, None, self.beside)

    def with_beside(self, x: Tensor) -> Tensor:
        """Add the steps of a context column to the vectors (N, T, D) of as many positions."""
        if self.beside is None:
            return x
        return x + at_steps(self.beside, self.place, x.shape[1])


@dataclass(frozen=True)
class Seen:
    """What a block's self-attention may see: which positions (…, T, all), and the cache of keys and values."""

    positions: NoPositions
    visible: Tensor | None  # needed for several new positions
    written: Cache | None  # None where nothing was written before and nothing will be read later
    block: int = 0
    causal: bool = False  # whether `visible` hides what comes later and nothing else


class DecoderBlock(nn.Module):
    """Self-attention, cross-attention and a feed-forward layer, each with residual connection and norm.

    Without `cross`, there is nothing to attend to but what is written.
    """

    def __init__(
        self, own: MultiHead, cross: MultiHead | None, width: int, inner: int, norm: str, dropout: float
    ) -> None:
        super().__init__()
        self.own, self.cross, self.feed = own, cross, FeedForward(width, inner, dropout)
        self.around_own = ResidualNorm(width, norm, dropout)
        self.around_cross = None if cross is None else ResidualNorm(width, norm, dropout)
        self.around_feed = ResidualNorm(width, norm, dropout)

    def forward(self, x: Tensor, source: KeysValues | None, state: TransformerState, seen: Seen) -> Tensor:
        """Process new positions x (N, T, D) after those that are written already."""
        query, keys, values = self.own.of_one(self.around_own.before(x))
        query, keys = seen.positions.turn(query, state.place), seen.positions.turn(keys, state.place)
        if seen.written is not None:
            keys, values = seen.written.put(seen.block, keys, values)
        x = self.around_own.after(x, self.own.attend(query, keys, values, seen.visible, ".self", seen.causal))
        if self.cross is not None and self.around_cross is not None and source is not None:
            query = self.cross.split(self.cross.query(state.lines.fold(self.around_cross.before(x))))
            context = self.cross.attend(query, *source, state.mask, ".cross")
            x = self.around_cross.after(x, state.lines.unfold(context))
        return self.around_feed.after(x, self.feed(self.around_feed.before(x)))


class TransformerDecoder(nn.Module):
    """Blocks of self-attention and cross-attention. The positions are those of its reader."""

    def __init__(self, positions: NoPositions, blocks: list[DecoderBlock], width: int, norm: str) -> None:
        super().__init__()
        self.positions, self.width = positions, width
        self.blocks, self.norm = nn.ModuleList(blocks), last_norm(width, norm)
        self.packed: tuple[Decoding, Blocks] | None = None  # in a model that only predicts, see weft/nn/packed.py

    @property
    def heads(self) -> int:
        return self._blocks()[0].own.heads

    @property
    def alone(self) -> bool:
        """Whether it attends to nothing but what is written: a language model."""
        return all(block.cross is None for block in self._blocks())

    def start(self, memory: Memory, beside: Tensor | None = None) -> TransformerState:
        blocks, lines = self._blocks(), Lines(memory.states.shape[0])
        source = _of_source(memory.states, [block.cross for block in blocks])
        like = memory.states.new_empty(self.width // self.heads) if source[0] is None else source[0][0]
        written = Cache.start(lines.count, len(blocks), self.heads, like)
        return TransformerState(source, memory.mask[:, None, None], lines, written, beside=beside)

    def step(self, x: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        packed = self.packed
        if state.beside is not None:
            x = state.with_beside(x[:, None])[:, 0]
        if packed is not None and native.is_plain(state.written.buffer) and not tracing():
            written = state.written.extended(1)
            return self._compiled_step(*packed, x, state, written), replace(state, written=written)
        state = state.compacted()
        written = state.written.extended(1)
        return self._advance(x[:, None], state, None, written)[:, 0], replace(state, written=written)

    def unroll(self, x: Tensor, state: TransformerState) -> Tensor:
        state, x = state.compacted(), state.with_beside(x)
        written = state.written.extended(x.shape[1]) if state.place else None
        return self._advance(x, state, causal(x.shape[1], state.place, x.device), written)

    def read(self, x: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        state, x = state.compacted(), state.with_beside(x)
        written = state.written.extended(x.shape[1])
        out = self._advance(x, state, causal(x.shape[1], state.place, x.device), written)
        return out, replace(state, written=written)

    def _advance(self, x: Tensor, state: TransformerState, visible: Tensor | None, written: Cache | None) -> Tensor:
        """Return the outputs (N, T, D) of new positions x (N, T, D)."""
        positions = self.positions
        bias = positions.bias(x.shape[1], state.place + x.shape[1], state.place)
        seen = biased_layers(visible, bias, len(state.source))
        plain = self.alone and bias is None and written is None
        with scope("decode"):
            for number, (block, source) in enumerate(zip(self._blocks(), state.source, strict=True)):
                x = block(x, source, state, Seen(positions, seen[number], written, number, plain))
                x = note(f".{number}.h", x)
        out: Tensor = self.norm(x)
        return out

    def pack(self, compiled: Decoding) -> set[nn.Module]:
        """Run steps in compiled code from now on, where it knows this attention."""
        blocks = self._blocks()
        if not all(block.own.fused and block.cross is not None and block.cross.fused for block in blocks):
            return set()
        last, around = _norm(self.norm) if isinstance(self.norm, nn.LayerNorm) else None, blocks[0].around_own
        packed = [_packed(block) for block in blocks]
        self.packed = compiled, Blocks(packed, last, self.heads, around.first, around.norm.eps)
        crossed = {block.cross for block in blocks if block.cross is not None}
        return {layer for block in blocks for layer in (*block.own.modules(), *_layers(block))} | crossed

    def unpack(self) -> None:
        self.packed = None

    def _compiled_step(
        self, compiled: Decoding, blocks: Blocks, x: Tensor, state: TransformerState, written: Cache
    ) -> Tensor:
        positions, place = self.positions, state.place
        turn = positions.turns(place, 1, self.width // self.heads, x)
        bias = positions.bias(1, place + 1, place)
        cache = (written.buffer, written.length, written.row_of)
        bias = None if bias is None else bias.contiguous()
        inputs = StepInputs(
            cast(tuple[KeysValues, ...], state.source), state.mask, state.stored, state.lines.each, *cache, turn, bias
        )
        return compiled.step(x, blocks, inputs)

    def _blocks(self) -> list[DecoderBlock]:
        return [block for block in self.blocks if isinstance(block, DecoderBlock)]


def _of_source(states: Tensor, crossed: list[MultiHead | None]) -> tuple[KeysValues | None, ...]:
    """Return the keys and values of every block, which all read the same states; None without cross-attention."""
    looks = [look for look in crossed if look is not None]
    if not looks:
        return (None,) * len(crossed)
    projected = together(states, *(layer for look in looks for layer in (look.key, look.value)))
    split = [looks[0].split(part) for part in projected]
    return tuple(zip(split[::2], split[1::2], strict=True))


def _layers(block: DecoderBlock) -> list[nn.Linear]:
    """Return the matrices of the compiled step, except queries, keys and values of self-attention."""
    assert block.cross is not None
    feed = [layer for layer in block.feed if isinstance(layer, nn.Linear)]
    return [block.own.out, block.cross.query, block.cross.out, *feed]


def _packed(block: DecoderBlock) -> Block:
    panels = [Panels(*block.own.joint()), *(Panels(layer.weight, layer.bias) for layer in _layers(block))]
    around = [block.around_own, block.around_cross, block.around_feed]
    return Block(panels, [_norm(part.norm) for part in around if part is not None])


def _norm(norm: nn.LayerNorm) -> Norm:
    return Norm(norm.weight.detach(), norm.bias.detach())
