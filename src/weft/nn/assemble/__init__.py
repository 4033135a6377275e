"""From a Spec to a model: the only place where a name becomes a class. Literal tables, one line per part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from weft.core.facts import TokenFacts
from weft.core.pair import HIDDEN
from weft.core.shapes import Frames, Notes, Nothing, Picture, Shape, Symbols, Vectors
from weft.nn import pools
from weft.nn.assemble.heads import HEADS, AnyHead, Output
from weft.nn.attention import BACKWARDS, ONWARDS, Attention, Project, identity, linear, mlp
from weft.nn.bridge import Bridge, Last, Mean, Mlp, Projected, Zeros
from weft.nn.cells import Elman, ElmanSigmoid, Gru, GruAfter, Mut1, Mut2, Mut3, Recurrence
from weft.nn.context import AttendedContext, StepContext
from weft.nn.decoders.recurrent import AttentionUse, RecurrentDecoder
from weft.nn.decoders.recurrent import Concat as ConcatJoin
from weft.nn.decoders.recurrent import Context as ContextJoin
from weft.nn.decoders.recurrent import Gate as GateJoin
from weft.nn.decoders.transformer import DecoderBlock, TransformerDecoder
from weft.nn.dropout import Dropout
from weft.nn.encoders import EncoderBlock, NoEncoder, RecurrentEncoder, TransformerEncoder
from weft.nn.flow import FlowContext, JointContext
from weft.nn.heads import Label
from weft.nn.hops import HopsContext
from weft.nn.lexical import LexicalMatch
from weft.nn.lstm import Lstm, LstmB, LstmF, LstmI, LstmO
from weft.nn.model import (
    Aligned,
    Classifier,
    JointSeq2Seq,
    LanguageModel,
    Restorer,
    Selector,
    Seq2Seq,
    Tagger,
    Towers,
)
from weft.nn.multihead import MultiHead
from weft.nn.positions import (
    Alibi,
    Attended,
    Bucketed,
    Learned,
    NoPositions,
    Relative,
    Rotary,
    Sinusoid,
    SinusoidConcat,
)
from weft.nn.readers.frames import FrameReader, UnreadFrames
from weft.nn.readers.notes import NoteReader
from weft.nn.readers.pictures import Columns, Grid, PictureReader
from weft.nn.readers.sound import Convolved, SoundReader, Stacked
from weft.nn.readers.tokens import TokenReader
from weft.nn.readers.tokens import table as embedding_table
from weft.nn.scores import Additive, Bilinear, Concat, Cosine, Dot, Rbf, Scaled, ScaledByWidth, Score
from weft.nn.span_head import SentenceHead, SpanHead
from weft.nn.towers import AnyTower, BagTower, Tower, VectorHead
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
    "scaled-width": ScaledByWidth,
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
JOINS: dict[str, type[ConcatJoin] | type[GateJoin] | type[ContextJoin]] = {
    "concat": ConcatJoin,
    "gate": GateJoin,
    "context": ContextJoin,
}
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
BRIDGES: dict[str, type[Bridge]] = {"zeros": Zeros, "last": Last, "mean": Mean, "projected": Projected, "mlp": Mlp}
POOLS: dict[str, Callable[[int, Spec], pools.Pool]] = {
    "last": lambda width, spec: pools.Last(width),
    "mean": lambda width, spec: pools.Mean(width),
    "query": lambda width, spec: pools.Query(width),
    "parts": lambda width, spec: pools.Parts(width, spec.pool.parts, LayerOptions(spec.train.dropout).make_dropout()),
}
AnyReader = TokenReader | FrameReader | UnreadFrames | SoundReader | PictureReader
AnyContext = StepContext | AttendedContext | FlowContext | JointContext | HopsContext
AnyEncoder = RecurrentEncoder | TransformerEncoder | NoEncoder
AnyModel = Seq2Seq[Any] | LanguageModel[Any] | Aligned | Classifier | Tagger | Restorer | Selector | Towers
AT_ONCE = ("label", "span")  # heads whose outputs no decoder writes, so that none reads them
MakeReader = Callable[[int, NoPositions, Dropout, float], AnyReader]


def assemble(
    spec: Spec,
    source: Shape,
    target: Shape,
    context: Shape | None = None,
    *,
    copies: Sequence[int] | None = None,
    facts: TokenFacts | None = None,
) -> AnyModel:
    """Build the model that a spec describes for columns of these shapes, initialised from torch's random state.

    `copies` says which target token each source token is, for heads that copy; without it they are the same. `facts`
    are about the tokens of the source, for contexts that need them.
    """
    context = None if isinstance(context, Nothing) else context
    if isinstance(source, Nothing):
        return _language_model(spec, target)
    if spec.head.kind == "vector":
        return _towers(spec, source, target)
    has_decoder = not isinstance(spec.decoder, NoDecoder)
    of_target = _table(spec, target) if spec.head.kind not in AT_ONCE else None
    of_source = of_target if spec.one_table else _table(spec, source)
    source_reader, encoder = _encoder(spec, _reading(spec, source, of_source))
    by_step = context is not None and spec.context.use == "step"
    written = _decoder(spec, _reading(spec, target, of_target, starts=True), by_step) if has_decoder else None
    known = copies if copies is not None else range(source.count if isinstance(source, Symbols) else 0)
    width = encoder.width if written is None else written[1].width
    head = HEADS[spec.head.kind](Output(spec, target, width, encoder.width, of_target, known, facts))

    def beside() -> AnyContext | None:  # made last, so that the parts before it draw the same weights without it
        return None if context is None else _context(spec, context, of_source, encoder, facts)

    if written is None:
        ends = int(isinstance(source, Symbols) and source.ended)
        return _without_decoder(spec, source_reader, encoder, head, beside, ends)
    bridge, parts = _bridge(spec), (*written, head, spec.data.prompted)
    kind = JointSeq2Seq if spec.objective.ctc_share else Seq2Seq
    return kind(source_reader, encoder, bridge, *parts, beside())


def _language_model(spec: Spec, target: Shape) -> LanguageModel[Any]:
    """Build a decoder that reads nothing but what it continues."""
    table = _table(spec, target)
    reader, decoder = _decoder(spec, _reading(spec, target, table, starts=True), by_step=False, alone=True)
    return LanguageModel(reader, decoder, HEADS[spec.head.kind](Output(spec, target, decoder.width, 0, table, ())))


def _towers(spec: Spec, source: Shape, target: Shape) -> Towers:
    """Build two towers, or one that reads both columns."""
    first = _tower(spec, source)
    second = first if spec.retrieve.shared else _tower(spec, target)
    head = HEADS["vector"](Output(spec, target, spec.encoder.width, spec.encoder.width, None, ()))
    assert isinstance(head, VectorHead)
    return Towers(first, second, head)


def _tower(spec: Spec, shape: Shape) -> AnyTower:
    """Build what reads a column into one vector; the mean of embeddings needs no encoder."""
    table = _table(spec, shape)
    if table is not None and spec.encoder.kind == "none" and spec.pool.kind == "mean":
        return BagTower(table, spec.train.dropout)
    reader, encoder = _encoder(spec, _reading(spec, shape, table))
    return Tower(reader, encoder, POOLS[spec.pool.kind](encoder.width, spec))


def _without_decoder(
    spec: Spec,
    reader: AnyReader,
    encoder: AnyEncoder,
    head: AnyHead,
    beside: Callable[[], AnyContext | None],
    ends: int,
) -> Aligned | Classifier | Tagger | Restorer | Selector:
    """Build a model that predicts tokens or blanks, labels, hidden tokens or spans, from what the encoder reads."""
    if isinstance(head, SpanHead | SentenceHead):
        return Selector(reader, encoder, head, beside())
    if spec.head.kind == "hidden":
        return Restorer(reader, encoder, head)
    if not isinstance(head, Label):
        return Aligned(reader, encoder, head)
    if spec.task == "classify-tokens":
        return Tagger(reader, encoder, head, ends)
    pool = POOLS[spec.pool.kind](encoder.width, spec)
    return Classifier(reader, encoder, pool, head, beside())


def _table(spec: Spec, shape: Shape) -> nn.Embedding | None:
    return embedding_table(shape.count, spec.embed.width) if isinstance(shape, Symbols) else None


def _reading(spec: Spec, shape: Shape, table: nn.Embedding | None, starts: bool = False) -> MakeReader:
    """Return what makes a reader of such values; that of a decoder `starts` with zeros where it reads numbers."""
    return READERS[type(shape)](spec, shape, table, starts)


def _token_reading(spec: Spec, shape: Symbols, table: nn.Embedding | None, starts: bool) -> MakeReader:
    assert table is not None, "symbols have a table of embeddings"
    if spec.corrupt.positions == "hidden":
        return partial(TokenReader, table, without_position=HIDDEN)
    return partial(TokenReader, table)


def _frame_reading(spec: Spec, shape: Vectors, table: nn.Embedding | None, starts: bool) -> MakeReader:
    if starts and spec.feeding.kind == "none":
        return UnreadFrames
    return partial(FrameReader, shape.width, starts=starts)


def _note_reading(spec: Spec, shape: Notes, table: nn.Embedding | None, starts: bool) -> MakeReader:
    return partial(NoteReader, shape.width, starts=starts)


def _sound_reading(spec: Spec, shape: Frames, table: nn.Embedding | None, starts: bool) -> MakeReader:
    def make(width: int, positions: NoPositions, dropout: Dropout, noise: float) -> SoundReader:
        sizes = shape.width, width - positions.room, spec.audio.factor
        bands = shape.width // 2 if spec.audio.deltas else shape.width
        network = Convolved(*sizes, bands) if spec.audio.reader == "convolve" else Stacked(*sizes)
        return SoundReader(network, width, positions, dropout, noise)

    return make


def _picture_reading(spec: Spec, shape: Picture, table: nn.Embedding | None, starts: bool) -> MakeReader:
    image = spec.image

    def make(width: int, positions: NoPositions, dropout: Dropout, noise: float) -> PictureReader:
        sizes = shape, image.filters, image.halvings, width - positions.room
        network = Columns(*sizes, image.factor) if image.layout == "columns" else Grid(*sizes)
        return PictureReader(network, width, positions, dropout, noise)

    return make


READERS: dict[type, Callable[..., MakeReader]] = {  # by shape
    Symbols: _token_reading,
    Vectors: _frame_reading,
    Notes: _note_reading,
    Frames: _sound_reading,
    Picture: _picture_reading,
}


def _context(
    spec: Spec, shape: Shape, of_source: nn.Embedding | None, source_encoder: AnyEncoder, facts: TokenFacts | None
) -> AnyContext:
    """Build what reads the context, with the embeddings and the encoder of the source if they are shared."""
    shared = spec.context.shared
    make = _reading(spec, shape, of_source if shared else _table(spec, shape))
    if spec.context.use == "step":
        assert not isinstance(spec.decoder, NoDecoder)
        width = spec.decoder.width if isinstance(spec.decoder, TransformerDecoderSpec) else spec.embed.width
        return StepContext(make(width, NoPositions(), LayerOptions(spec.train.dropout).make_dropout(), 0.0))
    reader, encoder = _encoder(spec, make)
    if spec.context.use == "joint":
        return JointContext(reader)
    if spec.context.use == "attend":
        return AttendedContext(reader, encoder)
    width, dropout = spec.encoder.width, LayerOptions(spec.train.dropout).make_dropout()
    encoder = source_encoder if shared else encoder
    if spec.context.use == "hops":
        assert facts is not None, "sentences are known by the tokens that end them"
        return HopsContext(reader, encoder, width, spec.context.hops, facts.ends, dropout)
    matched = shared and isinstance(shape, Symbols)
    lexical = LexicalMatch(facts) if facts is not None else None
    return FlowContext(reader, encoder, _second_encoder(spec), width, dropout, matched, lexical)


def _second_encoder(spec: Spec) -> AnyEncoder:
    """Build an encoder like that of the source, which reads vectors of its width instead of embeddings."""
    part, width = spec.encoder, spec.encoder.width

    def make(wide: int, positions: NoPositions, dropout: Dropout, noise: float) -> AnyReader:
        return FrameReader(width, wide, positions, dropout)

    if isinstance(part, RecurrentEncoderSpec):
        wide = spec.model_copy(update={"embed": spec.embed.model_copy(update={"width": width})})
        return _recurrent_encoder(wide, part.model_copy(update={"reverse": False}), make)[1]
    return _encoder(spec, make)[1]


def _encoder(spec: Spec, make: MakeReader) -> tuple[AnyReader, AnyEncoder]:
    if isinstance(spec.encoder, RecurrentEncoderSpec):
        return _recurrent_encoder(spec, spec.encoder, make)
    if isinstance(spec.encoder, TransformerEncoderSpec):
        return _transformer_encoder(spec, spec.encoder, make)
    width, options = spec.encoder.width, LayerOptions(spec.train.dropout)
    return _plain_reader(spec, width, make, options), NoEncoder(width, averaged=spec.source.kind == "image")


def _layer_options(spec: Spec, part: RecurrentEncoderSpec | RecurrentDecoderSpec) -> LayerOptions:
    return LayerOptions(spec.train.dropout, part.variational, part.residual, part.layer_norm)


def _plain_reader(spec: Spec, width: int, make: MakeReader, options: LayerOptions, noise: float = 0.0) -> AnyReader:
    """Build a reader for parts without self-attention; schemes that act within it have no effect on them."""
    scheme = POSITIONS[spec.embed.positions]
    positions = NoPositions() if scheme.in_attention else scheme(width)
    return make(width, positions, options.make_dropout(), noise)


def _recurrent_encoder(spec: Spec, part: RecurrentEncoderSpec, make: MakeReader) -> tuple[AnyReader, RecurrentEncoder]:
    both, options = part.directions == "both", _layer_options(spec, part)
    width = part.width // 2 if both else part.width

    def cells() -> list[Recurrence]:
        inputs = [spec.embed.width] + [part.width] * (part.layers - 1)
        return [CELLS[part.cell](i, width) for i in inputs]

    layers = Reader(cells(), cells() if both else [], options, spec.whole_state)
    reader = _plain_reader(spec, spec.embed.width, make, options, part.noise)
    return reader, RecurrentEncoder(layers, part.width, part.reverse, options.make_dropout())


def _transformer_reader(
    spec: Spec, part: TransformerEncoderSpec | TransformerDecoderSpec, make: MakeReader
) -> AnyReader:
    ahead = isinstance(part, TransformerEncoderSpec)  # only an encoder sees later positions
    layers = part.layers if spec.embed.per_layer else 0
    positions = POSITIONS[spec.embed.positions](
        part.width, Attended(part.heads, ahead, layers, spec.embed.max_distance)
    )
    noise = part.noise if isinstance(part, TransformerEncoderSpec) else spec.feeding.noise
    return make(part.width, positions, LayerOptions(spec.train.dropout).make_dropout(), noise)


def _heads(part: TransformerEncoderSpec | TransformerDecoderSpec, memory_width: int) -> MultiHead:
    look = part.attention
    return MultiHead(part.width, part.heads, memory_width, SCORES[look.score], WEIGHERS[look.weigh])


def _transformer_encoder(
    spec: Spec, part: TransformerEncoderSpec, make: MakeReader
) -> tuple[AnyReader, TransformerEncoder]:
    blocks = [
        EncoderBlock(_heads(part, part.width), part.width, part.inner, part.norm, spec.train.dropout)
        for _ in range(part.layers)
    ]
    reader = _transformer_reader(spec, part, make)
    return reader, TransformerEncoder(reader.positions, blocks, part.width, part.norm)


def _bridge(spec: Spec) -> Bridge:
    """Return the bridge; a Transformer decoder, and a recurrent one that is given nothing, take attention alone."""
    assert not isinstance(spec.decoder, NoDecoder)
    none = isinstance(spec.decoder, TransformerDecoderSpec) or spec.bridge.give == "none"
    bridge = BRIDGES["zeros" if none else spec.bridge.kind]
    return bridge(spec.encoder.width, spec.decoder.width, spec.decoder.layers, spec.whole_state)


def _decoder(
    spec: Spec, make: MakeReader, by_step: bool, alone: bool = False
) -> tuple[AnyReader, RecurrentDecoder | TransformerDecoder]:
    """Build the reader of the target and the decoder.

    `by_step`: it reads a context step by step; `alone`: there is no source to attend to.
    """
    assert not isinstance(spec.decoder, NoDecoder)
    if isinstance(spec.decoder, RecurrentDecoderSpec):
        return _recurrent_decoder(spec, spec.decoder, make, by_step, alone)
    return _transformer_decoder(spec, spec.decoder, make, alone)


def _attention(part: RecurrentDecoderSpec, memory_width: int) -> Attention | None:
    look = part.attention
    if look.score == "none":
        return None
    parts = SCORES[look.score], WEIGHERS[look.weigh], PROJECTIONS[look.project]
    moves = BACKWARDS if part.reverse else ONWARDS
    return Attention(part.width, memory_width, *parts, look.heads, moves if look.location_aware else None)


def _recurrent_decoder(
    spec: Spec, part: RecurrentDecoderSpec, make: MakeReader, by_step: bool, alone: bool
) -> tuple[AnyReader, RecurrentDecoder]:
    look, options = part.attention, _layer_options(spec, part)
    every = spec.bridge.give == "every" and not alone
    attention = None if alone else _attention(part, spec.encoder.width)
    fed = attention.width if attention is not None and look.feed else 0
    read = spec.embed.width * (2 if by_step else 1)
    inputs = [read + (part.width if every else 0) + fed] + [part.width] * (part.layers - 1)
    reader = _plain_reader(spec, spec.embed.width, make, options, spec.feeding.noise)
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
    spec: Spec, part: TransformerDecoderSpec, make: MakeReader, alone: bool
) -> tuple[AnyReader, TransformerDecoder]:
    def block() -> DecoderBlock:
        own, cross = _heads(part, part.width), None if alone else _heads(part, spec.encoder.width)
        return DecoderBlock(own, cross, part.width, part.inner, part.norm, spec.train.dropout)

    blocks = [block() for _ in range(part.layers)]
    reader = _transformer_reader(spec, part, make)
    return reader, TransformerDecoder(reader.positions, blocks, part.width, part.norm)
