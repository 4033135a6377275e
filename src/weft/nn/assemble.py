"""From a Spec to a model: the only place where a name becomes a class. Literal tables, one line a part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from weft.nn import embed as embedding
from weft.nn.attention import Attention, Weigher, softmax
from weft.nn.bridge import Bridge, Last, Mean, Projected, Zeros
from weft.nn.cells import Elman, Gru, GruAfter, Mut1, Mut2, Mut3, Recurrence
from weft.nn.decoders.recurrent import RecurrentDecoder
from weft.nn.decoders.transformer import DecoderBlock, TransformerDecoder
from weft.nn.embed import Embed
from weft.nn.encoders import EncoderBlock, RecurrentEncoder, TransformerEncoder
from weft.nn.heads import Tokens
from weft.nn.lstm import Lstm, LstmB, LstmF, LstmI, LstmO
from weft.nn.model import Seq2Seq
from weft.nn.positions import NoPositions, Rotary, Sinusoid
from weft.nn.scores import Additive, Bilinear, Dot, Scaled
from weft.nn.unroll import Reader, Stack
from weft.spec import RecurrentDecoder as RecurrentDecoderSpec
from weft.spec import RecurrentEncoder as RecurrentEncoderSpec
from weft.spec import Spec
from weft.spec import TransformerDecoder as TransformerDecoderSpec
from weft.spec import TransformerEncoder as TransformerEncoderSpec

CELLS: dict[str, Callable[[int, int], Recurrence]] = {
    "elman": Elman,
    "lstm": Lstm,
    "lstm-f": LstmF,
    "lstm-i": LstmI,
    "lstm-o": LstmO,
    "lstm-b": LstmB,
    "gru": Gru,
    "gru-after": GruAfter,
    "mut1": Mut1,
    "mut2": Mut2,
    "mut3": Mut3,
}
SCORES: dict[str, type[Dot] | type[Additive]] = {
    "dot": Dot,
    "scaled": Scaled,
    "bilinear": Bilinear,
    "additive": Additive,
}
WEIGHERS: dict[str, Weigher] = {"softmax": softmax}
POSITIONS: dict[str, type[NoPositions]] = {"none": NoPositions, "sinusoid": Sinusoid, "rotary": Rotary}
BRIDGES: dict[str, type[Bridge]] = {"zeros": Zeros, "last": Last, "mean": Mean, "projected": Projected}


def assemble(spec: Spec, source_symbols: int, target_symbols: int) -> Seq2Seq[Any]:
    """The model that a spec describes, freshly initialised from torch's random state."""
    target = embedding.table(target_symbols, spec.embed.width)
    source = target if spec.embed.shared else embedding.table(source_symbols, spec.embed.width)
    encoder = _encoder(spec, source)
    decoder = _decoder(spec, target)
    return Seq2Seq(encoder, _bridge(spec), decoder, Tokens(decoder.width, target, spec.head.tied))


def _embed(spec: Spec, table: nn.Embedding, width: int) -> Embed:
    return Embed(table, width, POSITIONS[spec.embed.positions](), spec.train.dropout)


def _encoder(spec: Spec, table: nn.Embedding) -> RecurrentEncoder | TransformerEncoder:
    if isinstance(spec.encoder, RecurrentEncoderSpec):
        return _recurrent_encoder(spec, spec.encoder, table)
    return _transformer_encoder(spec, spec.encoder, table)


def _recurrent_encoder(spec: Spec, part: RecurrentEncoderSpec, table: nn.Embedding) -> RecurrentEncoder:
    both = part.directions == "both"
    width = part.width // 2 if both else part.width

    def cells() -> list[Recurrence]:
        inputs = [spec.embed.width] + [part.width] * (part.layers - 1)
        return [CELLS[part.cell](i, width) for i in inputs]

    reader = Reader(cells(), cells() if both else [], spec.train.dropout)
    embed = _embed(spec, table, spec.embed.width)
    return RecurrentEncoder(embed, reader, part.width, part.reverse, spec.train.dropout)


def _transformer_encoder(spec: Spec, part: TransformerEncoderSpec, table: nn.Embedding) -> TransformerEncoder:
    embed = _embed(spec, table, part.width)
    blocks = [
        EncoderBlock(part.width, part.heads, part.inner, embed.positions, spec.train.dropout)
        for _ in range(part.layers)
    ]
    return TransformerEncoder(embed, blocks, part.width)


def _bridge(spec: Spec) -> Bridge:
    """A Transformer decoder takes nothing but attention; nor does a recurrent one that is given nothing."""
    none = isinstance(spec.decoder, TransformerDecoderSpec) or spec.bridge.give == "none"
    made = BRIDGES["zeros" if none else spec.bridge.kind]
    return made(spec.encoder.width, spec.decoder.width, spec.decoder.layers)


def _decoder(spec: Spec, table: nn.Embedding) -> RecurrentDecoder | TransformerDecoder:
    if isinstance(spec.decoder, RecurrentDecoderSpec):
        return _recurrent_decoder(spec, spec.decoder, table)
    return _transformer_decoder(spec, spec.decoder, table)


def _recurrent_decoder(spec: Spec, part: RecurrentDecoderSpec, table: nn.Embedding) -> RecurrentDecoder:
    look = part.attention
    every = spec.bridge.give == "every"
    fed = spec.encoder.width if look.feed and look.score != "none" else 0
    inputs = [spec.embed.width + (part.width if every else 0) + fed] + [part.width] * (part.layers - 1)
    attention = None
    if look.score != "none":
        attention = Attention(SCORES[look.score](part.width, spec.encoder.width), WEIGHERS[look.weigh])
    return RecurrentDecoder(
        embed=_embed(spec, table, spec.embed.width),
        stack=Stack([CELLS[part.cell](i, part.width) for i in inputs], spec.train.dropout),
        width=part.width,
        memory_width=spec.encoder.width,
        attention=attention,
        feed=look.feed,
        every=every,
        dropout=spec.train.dropout,
    )


def _transformer_decoder(spec: Spec, part: TransformerDecoderSpec, table: nn.Embedding) -> TransformerDecoder:
    embed = _embed(spec, table, part.width)
    blocks = [
        DecoderBlock(part.width, spec.encoder.width, part.heads, part.inner, embed.positions, spec.train.dropout)
        for _ in range(part.layers)
    ]
    return TransformerDecoder(embed, blocks, part.width)
