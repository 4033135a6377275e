"""From a Spec to a model: the only place where a name becomes a class. Literal tables, one line per part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from weft.core.shapes import Shape, Symbols
from weft.nn import pools
from weft.nn.attention import BACKWARDS, ONWARDS, Attention, Project, identity, linear, mlp
from weft.nn.bridge import Bridge, Last, Mean, Projected, Zeros
from weft.nn.cells import Elman, ElmanSigmoid, Gru, GruAfter, Mut1, Mut2, Mut3, Recurrence
from weft.nn.decoders.recurrent import AttentionUse, RecurrentDecoder
from weft.nn.decoders.recurrent import Concat as ConcatJoin
from weft.nn.decoders.recurrent import Gate as GateJoin
from weft.nn.decoders.transformer import DecoderBlock, TransformerDecoder
from weft.nn.encoders import EncoderBlock, NoEncoder, RecurrentEncoder, TransformerEncoder
from weft.nn.heads import Copy, Ctc, Label, Tokens
from weft.nn.lstm import Lstm, LstmB, LstmF, LstmI, LstmO
from weft.nn.model import Aligned, Classifier, Seq2Seq, Tagger
from weft.nn.multihead import MultiHead
from weft.nn.positions import (
    Alibi,
    Bucketed,
    Learned,
    NoPositions,
    Relative,
    Rotary,
    Sinusoid,
    SinusoidConcat,
)
from weft.nn.readers.tokens import TokenReader
from weft.nn.readers.tokens import table as embedding_table
from weft.nn.scores import Additive, Bilinear, Concat, Cosine, Dot, Rbf, Scaled, Score
from weft.nn.unroll import LayerOptions, Reader, Stack
from weft.nn.weighers import Weigher, exact, kernel, nearest, softmax, sparsemax, straight_through
from weft.spec import NoDecoder, Spec
from weft.spec import RecurrentDecoder as RecurrentDecoderSpec
from weft.spec import RecurrentEncoder as RecurrentEncoderSpec
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
    "elman-sigmoid": ElmanSigmoid,
}
SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled": Scaled,
    "bilinear": Bilinear,
    "additive": Additive,
    "concat": Concat,
    "rbf": Rbf,
    "cosine": Cosine,
}
WEIGHERS: dict[str, Weigher] = {
    "softmax": softmax,
    "nearest": nearest,
    "straight-through": straight_through,
    "exact": exact,
    "sparsemax": sparsemax,
    "kernel": kernel,
}
PROJECTIONS: dict[str, Project] = {"none": identity, "linear": linear, "mlp": mlp}
JOINS: dict[str, type[ConcatJoin] | type[GateJoin]] = {"concat": ConcatJoin, "gate": GateJoin}
POSITIONS: dict[str, type[NoPositions]] = {
    "none": NoPositions,
    "sinusoid": Sinusoid,
    "sinusoid-concat": SinusoidConcat,
    "learned": Learned,
    "relative": Relative,
    "bucketed": Bucketed,
    "rotary": Rotary,
    "alibi": Alibi,
}
BRIDGES: dict[str, type[Bridge]] = {"zeros": Zeros, "last": Last, "mean": Mean, "projected": Projected}
POOLS: dict[str, type[pools.Pool]] = {"last": pools.Last, "mean": pools.Mean, "query": pools.Query}
TOKEN_HEADS: dict[str, type[Tokens]] = {"tokens": Tokens, "copy": Copy, "ctc": Ctc}
HEADS: dict[str, type[Tokens] | type[Label]] = {**TOKEN_HEADS, "label": Label}
AnyEncoder = RecurrentEncoder | TransformerEncoder | NoEncoder
AnyModel = Seq2Seq[Any] | Aligned | Classifier | Tagger


def assemble(
    spec: Spec, source: Shape, target: Shape, context: Shape | None = None, *, copies: Sequence[int] | None = None
) -> AnyModel:
    """Build the model that a spec describes for columns of these shapes, initialised from torch's random state.

    `copies` says which target token each source token is, for heads that copy; without it they are the same.
    """
    assert isinstance(source, Symbols)
    assert isinstance(target, Symbols)
    assert context is None
    if spec.task != "transduce":
        return _labeller(spec, source, target)
    of_target = embedding_table(target.count, spec.embed.width)
    of_source = of_target if spec.embed.shared else embedding_table(source.count, spec.embed.width)
    source_reader, encoder = _encoder(spec, of_source)
    written = None if isinstance(spec.decoder, NoDecoder) else _decoder(spec, of_target)
    width = encoder.width if written is None else written[1].width
    known = range(source.count) if copies is None else copies
    turned = spec.head.tied and spec.decoder.kind == "transformer"
    head = TOKEN_HEADS[spec.head.kind](width, encoder.width, of_target, spec.head.tied, turned, known)
    if written is None:
        return Aligned(source_reader, encoder, head)
    prompted = spec.data.tag is not None and spec.data.tag_at == "decoder"
    return Seq2Seq(source_reader, encoder, _bridge(spec), *written, head, prompted)


def _labeller(spec: Spec, source: Symbols, target: Symbols) -> Classifier | Tagger:
    """Build a model without a decoder: one label for the source, or one for each of its tokens."""
    reader, encoder = _encoder(spec, embedding_table(source.count, spec.embed.width))
    head = Label(encoder.width, target.count)
    if spec.task == "classify-tokens":
        return Tagger(reader, encoder, head, ends=1)
    return Classifier(reader, encoder, POOLS[spec.pool.kind](encoder.width), head)


def _encoder(spec: Spec, table: nn.Embedding) -> tuple[TokenReader, AnyEncoder]:
    if isinstance(spec.encoder, RecurrentEncoderSpec):
        return _recurrent_encoder(spec, spec.encoder, table)
    if isinstance(spec.encoder, TransformerEncoderSpec):
        return _transformer_encoder(spec, spec.encoder, table)
    width, options = spec.encoder.width, LayerOptions(spec.train.dropout)
    return _plain_reader(spec, width, table, options), NoEncoder(width)


def _layer_options(spec: Spec, part: RecurrentEncoderSpec | RecurrentDecoderSpec) -> LayerOptions:
    return LayerOptions(spec.train.dropout, part.variational, part.residual, part.layer_norm)


def _plain_reader(
    spec: Spec, width: int, table: nn.Embedding, options: LayerOptions, noise: float = 0.0
) -> TokenReader:
    """Build a reader for parts without self-attention; schemes that act within it have no effect on them."""
    scheme = POSITIONS[spec.embed.positions]
    positions = NoPositions() if scheme.in_attention else scheme(width)
    return TokenReader(table, width, positions, options.make_dropout(), noise)


def _recurrent_encoder(
    spec: Spec, part: RecurrentEncoderSpec, table: nn.Embedding
) -> tuple[TokenReader, RecurrentEncoder]:
    both, options = part.directions == "both", _layer_options(spec, part)
    width = part.width // 2 if both else part.width

    def cells() -> list[Recurrence]:
        inputs = [spec.embed.width] + [part.width] * (part.layers - 1)
        return [CELLS[part.cell](i, width) for i in inputs]

    layers = Reader(cells(), cells() if both else [], options)
    reader = _plain_reader(spec, spec.embed.width, table, options)
    return reader, RecurrentEncoder(layers, part.width, part.reverse, options.make_dropout())


def _transformer_reader(
    spec: Spec, part: TransformerEncoderSpec | TransformerDecoderSpec, table: nn.Embedding
) -> TokenReader:
    ahead = isinstance(part, TransformerEncoderSpec)  # only an encoder sees later positions
    positions = POSITIONS[spec.embed.positions](part.width, part.heads, ahead)
    noise = 0.0 if ahead else spec.feeding.noise
    return TokenReader(table, part.width, positions, LayerOptions(spec.train.dropout).make_dropout(), noise)


def _heads(part: TransformerEncoderSpec | TransformerDecoderSpec, memory_width: int) -> MultiHead:
    look = part.attention
    return MultiHead(part.width, part.heads, memory_width, SCORES[look.score], WEIGHERS[look.weigh])


def _transformer_encoder(
    spec: Spec, part: TransformerEncoderSpec, table: nn.Embedding
) -> tuple[TokenReader, TransformerEncoder]:
    blocks = [
        EncoderBlock(_heads(part, part.width), part.width, part.inner, part.norm, spec.train.dropout)
        for _ in range(part.layers)
    ]
    reader = _transformer_reader(spec, part, table)
    return reader, TransformerEncoder(reader.positions, blocks, part.width, part.norm)


def _bridge(spec: Spec) -> Bridge:
    """Return the bridge; a Transformer decoder, and a recurrent one that is given nothing, take attention alone."""
    assert not isinstance(spec.decoder, NoDecoder)
    none = isinstance(spec.decoder, TransformerDecoderSpec) or spec.bridge.give == "none"
    bridge = BRIDGES["zeros" if none else spec.bridge.kind]
    return bridge(spec.encoder.width, spec.decoder.width, spec.decoder.layers)


def _decoder(spec: Spec, table: nn.Embedding) -> tuple[TokenReader, RecurrentDecoder | TransformerDecoder]:
    assert not isinstance(spec.decoder, NoDecoder)
    if isinstance(spec.decoder, RecurrentDecoderSpec):
        return _recurrent_decoder(spec, spec.decoder, table)
    return _transformer_decoder(spec, spec.decoder, table)


def _attention(part: RecurrentDecoderSpec, memory_width: int) -> Attention | None:
    look = part.attention
    if look.score == "none":
        return None
    parts = SCORES[look.score], WEIGHERS[look.weigh], PROJECTIONS[look.project]
    moves = BACKWARDS if part.reverse else ONWARDS
    return Attention(part.width, memory_width, *parts, look.heads, moves if look.location_aware else None)


def _recurrent_decoder(
    spec: Spec, part: RecurrentDecoderSpec, table: nn.Embedding
) -> tuple[TokenReader, RecurrentDecoder]:
    look, options = part.attention, _layer_options(spec, part)
    every = spec.bridge.give == "every"
    attention = _attention(part, spec.encoder.width)
    fed = attention.width if attention is not None and look.feed else 0
    inputs = [spec.embed.width + (part.width if every else 0) + fed] + [part.width] * (part.layers - 1)
    reader = _plain_reader(spec, spec.embed.width, table, options, spec.feeding.noise)
    return reader, RecurrentDecoder(
        stack=Stack([CELLS[part.cell](i, part.width) for i in inputs], options),
        width=part.width,
        attention=attention,
        join=None if attention is None else JOINS[look.join](part.width, attention.width),
        looking=AttentionUse(look.feed, look.query == "before"),
        every=every,
        dropout=options.make_dropout(),
    )


def _transformer_decoder(
    spec: Spec, part: TransformerDecoderSpec, table: nn.Embedding
) -> tuple[TokenReader, TransformerDecoder]:
    memory = spec.encoder.width
    blocks = [
        DecoderBlock(
            _heads(part, part.width), _heads(part, memory), part.width, part.inner, part.norm, spec.train.dropout
        )
        for _ in range(part.layers)
    ]
    reader = _transformer_reader(spec, part, table)
    return reader, TransformerDecoder(reader.positions, blocks, part.width, part.norm)
