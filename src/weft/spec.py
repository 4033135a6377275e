"""What a run is: a tree of typed, frozen, strict settings.

The text under a field is its help, on the command line and in the documentation. The names of parts are checked here;
`nn/assemble.py` turns each into a class, and a test holds the two lists together. How settings are put together from
a file, `--set` and the autopilot is in `settings.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

CellName = Literal["elman", "lstm", "lstm-f", "lstm-i", "lstm-o", "lstm-b", "gru", "gru-after", "mut1", "mut2", "mut3"]
ScoreName = Literal["none", "dot", "scaled", "bilinear", "additive"]
PositionName = Literal["none", "sinusoid", "rotary"]
MetricName = Literal["exact", "cer", "ter", "bleu", "chrf", "loss"]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]


class Part(BaseModel):
    """A branch of the tree: nothing can be changed afterwards, nothing unknown is let in."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class Data(Part):
    pairs: tuple[str, ...] = ()
    """The training files, as given on the command line."""
    valid: tuple[str, ...] = ()
    """The validation files; none: a share of the training pairs is kept aside."""
    source: str | int = 1
    """The source column: a number from 1, or a name in the header."""
    target: str | int = 2
    """The target column."""
    features: str | int | None = None
    """A column of features, such as V;PST;3;SG, that the source is read with."""
    tag: str | int | None = None
    """A column that holds a prompt, such as a language."""
    hold_out: Share = 0.05
    """The share of the training pairs kept aside for validation when no file is given (at most 1,000 pairs)."""
    on_bad_line: Literal["stop", "skip"] = "stop"
    """What a row that cannot be used does (--on-bad-line)."""
    longest: Count = 20_000
    """A side with more characters than this is a bad line."""


class Side(Part):
    tokens: Literal["characters", "bytes", "words", "bpe", "unigram"] = "characters"
    """How text is cut into symbols; words are split at spaces."""
    size: Annotated[int, Field(ge=300, le=1_000_000)] = 4000
    """The number of pieces that bpe and unigram learn."""


class Embed(Part):
    width: Count = 256
    """The width of a symbol's vector."""
    positions: PositionName = "none"
    """How places in the sequence are told apart; a Transformer needs one."""
    shared: bool = False
    """One tokeniser and one table of vectors for source and target."""


class RecurrentEncoder(Part):
    kind: Literal["recurrent"] = "recurrent"
    """The family."""
    cell: CellName = "lstm"
    """The recurrence (equations in nn/cells.py and nn/lstm.py)."""
    width: Count = 256
    """The width of the states it hands over; with both directions each has half of it."""
    layers: Count = 1
    """How many recurrences stand on each other."""
    directions: Literal["forward", "both"] = "both"
    """Read the source forwards, or in both directions."""
    reverse: bool = False
    """Read the source from its end to its start."""

    @model_validator(mode="after")
    def _halves(self) -> RecurrentEncoder:
        if self.directions == "both" and self.width % 2:
            raise ValueError(
                f"encoder.width={self.width} is odd, but encoder.directions=both gives each direction half; "
                "choose an even width or encoder.directions=forward"
            )
        return self


class _Transformer(Part):
    kind: Literal["transformer"]
    """The family."""
    width: Count = 256
    """The width of its states."""
    layers: Count = 4
    """How many blocks stand on each other."""
    heads: Count = 4
    """How many attentions run side by side; must divide the width."""
    inner: Count = 1024
    """The width inside the feed-forward block."""
    norm: Literal["pre"] = "pre"
    """Where the layer norm stands: before each block."""

    @model_validator(mode="after")
    def _divides(self) -> _Transformer:
        if self.width % self.heads:
            raise ValueError(
                f"width={self.width} cannot be shared by heads={self.heads}; choose heads that divide the width, "
                f"such as {', '.join(str(h) for h in (1, 2, 4, 8) if self.width % h == 0)}"
            )
        return self


class TransformerEncoder(_Transformer):
    pass


class Attention(Part):
    score: ScoreName = "additive"
    """How a query is compared with a key; none: no attention."""
    weigh: Literal["softmax"] = "softmax"
    """How scores become weights."""
    feed: bool = True
    """Give the context to the next step's input."""


class RecurrentDecoder(Part):
    kind: Literal["recurrent"] = "recurrent"
    """The family."""
    cell: CellName = "lstm"
    """The recurrence (equations in nn/cells.py and nn/lstm.py)."""
    width: Count = 256
    """The width of its states."""
    layers: Count = 1
    """How many recurrences stand on each other."""
    attention: Attention = Attention()
    """How it looks at the source."""


class TransformerDecoder(_Transformer):
    pass


class Bridge(Part):
    kind: Literal["zeros", "last", "mean", "projected"] = "projected"
    """What a recurrent decoder starts from: zeros, the encoder's last or mean state, or its last through a layer."""
    give: Literal["first", "every", "none"] = "first"
    """Where that summary is given: as the first state, also as an input of every step, or not at all."""


class Head(Part):
    kind: Literal["tokens"] = "tokens"
    """Scores over the target's symbols."""
    tied: bool = True
    """Use the target's embedding as the output matrix."""


class Objective(Part):
    kind: Literal["cross-entropy"] = "cross-entropy"
    """What is minimised."""
    smoothing: Share = 0.1
    """The probability spread over all symbols (label smoothing)."""


class Feeding(Part):
    kind: Literal["teacher"] = "teacher"
    """What the decoder reads in training: the right symbols."""


class Train(Part):
    budget_seconds: Annotated[float, Field(gt=0)] | None = None
    """Wall-clock seconds for training and validation (--budget)."""
    steps: Count | None = None
    """Updates to make instead (--steps)."""
    epochs: Annotated[float, Field(gt=0)] | None = None
    """Passes over the data to make instead (--epochs)."""
    batch_tokens: Annotated[int, Field(ge=16)] = 4096
    """The most symbols a batch holds on its longer side, padding included."""
    rate: Annotated[float, Field(gt=0, lt=10)] = 0.002
    """The highest learning rate."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """How the rate falls after its warm-up, over the share of the budget."""
    warmup: Share = 0.05
    """The share of the budget in which the rate rises."""
    dropout: Share = 0.2
    """The share of values set to zero in training."""
    clip: Annotated[float, Field(gt=0)] = 1.0
    """The longest gradient that is let through; longer ones are shortened."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """How strongly AdamW draws matrices to zero."""
    average: Share = 0.998
    """The decay of the running average of the weights, which is what predicts; 0: no averaging."""
    select: MetricName = "exact"
    """The metric that the best checkpoint is chosen by, on the validation pairs."""
    patience: Annotated[int, Field(ge=0)] = 0
    """Stop after this many evaluations without a better one; 0: never."""
    evaluations: Count = 20
    """How many times the model is validated, spread over the budget (fewer if it would take a fifth of the time)."""
    valid_pairs: Count = 1000
    """The most validation pairs that are decoded each time, evenly spread."""
    seed: Annotated[int, Field(ge=0)] = 1
    """The seed of everything random."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where it runs."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """The number format of matrix products."""

    @model_validator(mode="after")
    def _one_length(self) -> Train:
        given = [n for n in ("budget_seconds", "steps", "epochs") if self.__dict__[n] is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join('train.' + n for n in given)} are both given; keep one")
        return self


class Search(Part):
    kind: Literal["greedy", "beam", "sample"] = "beam"
    """How outputs are looked for."""
    width: Annotated[int, Field(ge=1, le=1000)] = 5
    """Hypotheses kept by beam."""
    length_penalty: Annotated[float, Field(ge=0, le=5)] = 1.0
    """A hypothesis is ranked by its log-probability over its length to this power."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Sampling: below 1 is more careful, above 1 more daring."""
    top_k: Annotated[int, Field(ge=0)] = 0
    """Sampling: from the k most probable symbols only; 0: all."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Sampling: from the most probable symbols that together have this probability."""
    seed: Annotated[int, Field(ge=0)] = 1
    """Sampling: the seed."""
    no_repeat: Annotated[int, Field(ge=0)] = 0
    """No n-gram of this size twice in an output; 0: no rule."""
    longest_ratio: Annotated[float, Field(gt=0)] = 2.0
    """An output has at most this many symbols for each of the source …"""
    longest_extra: Annotated[int, Field(ge=1)] = 20
    """… and so many more."""


class Spec(Part):
    """Every setting of a run."""

    data: Data = Data()
    """Where the pairs come from."""
    source: Side = Side()
    """The source's symbols."""
    target: Side = Side()
    """The target's symbols."""
    embed: Embed = Embed()
    """From symbols to vectors."""
    encoder: Annotated[RecurrentEncoder | TransformerEncoder, Field(discriminator="kind")] = RecurrentEncoder()
    """What reads the source."""
    bridge: Bridge = Bridge()
    """What is handed from encoder to decoder, attention aside."""
    decoder: Annotated[RecurrentDecoder | TransformerDecoder, Field(discriminator="kind")] = RecurrentDecoder()
    """What writes the target."""
    head: Head = Head()
    """From the decoder's states to symbols."""
    objective: Objective = Objective()
    """What training minimises."""
    feeding: Feeding = Feeding()
    """What the decoder reads in training."""
    train: Train = Train()
    """How it is trained."""
    search: Search = Search()
    """How it is decoded."""

    @model_validator(mode="after")
    def _fits_together(self) -> Spec:
        if isinstance(self.decoder, RecurrentDecoder):
            _check_recurrent_decoder(self, self.decoder)
        else:
            _check_transformer_decoder(self)
        if isinstance(self.encoder, TransformerEncoder) and self.embed.positions == "none":
            raise ValueError(
                "encoder.kind=transformer cannot tell places apart with embed.positions=none; "
                "set embed.positions to sinusoid or rotary"
            )
        if self.embed.positions == "rotary":
            _check_rotary(self)
        if self.embed.shared and self.source != self.target:
            raise ValueError(
                "embed.shared=true needs source and target to be cut alike, but "
                f"source={self.source.tokens}/{self.source.size} and target={self.target.tokens}/{self.target.size}; "
                "make them equal or set embed.shared=false"
            )
        return self


def _check_recurrent_decoder(spec: Spec, decoder: RecurrentDecoder) -> None:
    if decoder.attention.score == "none" and (spec.bridge.kind == "zeros" or spec.bridge.give == "none"):
        raise ValueError(
            f"decoder.attention.score=none with bridge.kind={spec.bridge.kind}, bridge.give={spec.bridge.give} "
            "leaves the decoder blind to the source; choose an attention score or another bridge"
        )
    if spec.bridge.kind == "zeros" and spec.bridge.give == "every":
        raise ValueError(
            "bridge.kind=zeros has nothing that bridge.give=every could give; "
            "choose another bridge.kind, or leave bridge.give out"
        )
    if spec.bridge.kind in ("last", "mean") and spec.encoder.width != decoder.width:
        raise ValueError(
            f"bridge.kind={spec.bridge.kind} hands the encoder's state over as it is, but encoder.width="
            f"{spec.encoder.width} and decoder.width={decoder.width}; make them equal or set bridge.kind=projected"
        )
    if decoder.attention.score in ("dot", "scaled") and spec.encoder.width != decoder.width:
        raise ValueError(
            f"decoder.attention.score={decoder.attention.score} multiplies states as they are, but encoder.width="
            f"{spec.encoder.width} and decoder.width={decoder.width}; make them equal or use bilinear or additive"
        )


def _check_transformer_decoder(spec: Spec) -> None:
    if spec.bridge != Bridge():
        raise ValueError(
            "bridge has no effect with decoder.kind=transformer, which sees the source by attention alone; "
            "leave bridge out or set decoder.kind=recurrent"
        )
    if spec.embed.positions == "none":
        raise ValueError(
            "decoder.kind=transformer cannot tell places apart with embed.positions=none; "
            "set embed.positions to sinusoid or rotary"
        )


def _check_rotary(spec: Spec) -> None:
    transformers = [p for p in (spec.encoder, spec.decoder) if isinstance(p, _Transformer)]
    if not transformers:
        raise ValueError(
            "embed.positions=rotary turns the queries and keys of a Transformer, but encoder.kind and decoder.kind "
            "are recurrent; set embed.positions to none or sinusoid"
        )
    for part in transformers:
        if part.width // part.heads % 2:
            raise ValueError(
                f"embed.positions=rotary needs an even width per head, but width={part.width} / heads={part.heads} "
                f"is {part.width // part.heads}; choose fewer heads or embed.positions=sinusoid"
            )
