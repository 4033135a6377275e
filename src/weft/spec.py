"""What a run is: a tree of typed, frozen, strict settings.

The text under a field is its help, on the command line and in the documentation. The names of parts are checked here;
`nn/assemble.py` turns each into a class, and a test holds the two lists together. How settings are put together from
a file, `--set` and the autopilot is in `settings.py`; which of them go together, in `compatibility.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

CellName = Literal[
    "elman", "lstm", "lstm-f", "lstm-i", "lstm-o", "lstm-b", "gru", "gru-after", "mut1", "mut2", "mut3", "elman-sigmoid"
]
ScoreName = Literal["none", "dot", "scaled", "bilinear", "additive", "concat", "rbf", "cosine"]
HeadScoreName = Literal["dot", "scaled", "bilinear", "additive", "concat", "rbf", "cosine"]
WeigherName = Literal["softmax", "nearest", "straight-through", "exact", "sparsemax", "kernel"]
PositionName = Literal["none", "sinusoid", "sinusoid-concat", "learned", "relative", "bucketed", "rotary", "alibi"]
MetricName = Literal["exact", "cer", "token_error_rate", "bleu", "chrf", "accuracy", "loss"]
SPELLED = ("characters", "parts")  # the ways to cut text that are about single letters
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
    tag_at: Literal["start", "end", "decoder"] = "start"
    """Where the tag stands: before the source, after it, or as the first symbol that the decoder reads."""
    hold_out: Share = 0.05
    """The share of the training pairs kept aside for validation when no file is given (at most 1,000 pairs)."""
    augmented: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """Pairs to make up from the training pairs: what a source and its target share gets other letters in both."""
    repeat_power: Annotated[float, Field(ge=0, le=1)] = 1.0
    """A source that n rows have is learned from n to this power times in a pass, its rows by chance; 1: every row."""
    unseen: Literal["unknown", "nearest", "carried"] = "unknown"
    """Characters that training never saw: unknown, read as the nearest one (ÿ as y), or carried over to the output."""
    on_bad_line: Literal["stop", "skip"] = "stop"
    """What a row that cannot be used does (--on-bad-line)."""
    longest: Count = 20_000
    """A side with more characters than this is a bad line."""


class Side(Part):
    tokens: Literal["characters", "parts", "bytes", "words", "bpe", "unigram"] = "characters"
    """How text is cut: characters, their parts (letters and accents, a Korean syllable's sounds), words at spaces, …"""
    size: Annotated[int, Field(ge=300, le=1_000_000)] = 4000
    """The number of pieces that bpe and unigram learn."""


class Embed(Part):
    width: Count = 256
    """The width of a symbol's vector."""
    positions: PositionName = "none"
    """How places are told apart: added to symbols, concatenated, or within a Transformer's attention."""
    shared: bool = False
    """One tokeniser and one table of vectors for source and target."""


def _check_residual(side: str, residual: bool, layers: int) -> None:
    if residual and layers == 1:
        raise ValueError(
            f"{side}.residual=true adds nothing with {side}.layers=1; set {side}.layers=2 or more, or leave it out"
        )


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
    residual: bool = False
    """Add what goes into each layer but the first to what comes out of it."""
    layer_norm: bool = False
    """Normalise what leaves each layer."""
    variational: bool = False
    """Drop the same values at every step of a sequence."""

    @model_validator(mode="after")
    def _halves(self) -> RecurrentEncoder:
        if self.directions == "both" and self.width % 2:
            raise ValueError(
                f"encoder.width={self.width} is odd, but encoder.directions=both gives each direction half; "
                "choose an even width or encoder.directions=forward"
            )
        _check_residual("encoder", self.residual, self.layers)
        return self


class SelfAttention(Part):
    score: HeadScoreName = "scaled"
    """How a head compares a query with a key."""
    weigh: Literal["softmax", "nearest", "straight-through", "sparsemax", "kernel"] = "softmax"
    """How scores become weights."""


class Transformer(Part):
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
    norm: Literal["pre", "post"] = "pre"
    """Where the layer norm stands: before each part of a block, or after it."""
    attention: SelfAttention = SelfAttention()
    """How every attention in it compares and weighs."""

    @model_validator(mode="after")
    def _divides(self) -> Transformer:
        if self.width % self.heads:
            raise ValueError(
                f"width={self.width} cannot be shared by heads={self.heads}; choose heads that divide the width, "
                f"such as {', '.join(str(h) for h in (1, 2, 4, 8) if self.width % h == 0)}"
            )
        return self


class TransformerEncoder(Transformer):
    pass


class Attention(Part):
    score: ScoreName = "additive"
    """How a query is compared with a key; none: no attention."""
    weigh: WeigherName = "softmax"
    """How scores become weights (nn/weighers.py)."""
    project: Literal["none", "linear", "mlp"] = "none"
    """What is done to query, key and value first."""
    heads: Count = 1
    """How many attentions run side by side, each on its slice."""
    query: Literal["after", "before"] = "after"
    """Look with the state after the step, or with the one before it."""
    feed: bool = True
    """Give the context to the next step's input; with query=before, to this step's."""
    location_aware: bool = False
    """Scores also depend on where it looked at the step before: it learns how attention moves along the source."""
    join: Literal["concat", "gate"] = "concat"
    """How state and context become the output: a layer on both, or a gate between them."""


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
    reverse: bool = False
    """Write the target from its end to its start."""
    residual: bool = False
    """Add what goes into each layer but the first to what comes out of it."""
    layer_norm: bool = False
    """Normalise what leaves each layer."""
    variational: bool = False
    """Drop the same values at every step of a sequence."""

    @model_validator(mode="after")
    def _check(self) -> RecurrentDecoder:
        _check_residual("decoder", self.residual, self.layers)
        return self


class TransformerDecoder(Transformer):
    reverse: bool = False
    """Write the target from its end to its start."""


class NoDecoder(Part):
    kind: Literal["none"] = "none"
    """No decoder: the encoder speaks for itself (head.kind=ctc)."""


class Bridge(Part):
    kind: Literal["zeros", "last", "mean", "projected"] = "projected"
    """What a recurrent decoder starts from: zeros, the encoder's last or mean state, or its last through a layer."""
    give: Literal["first", "every", "none"] = "first"
    """Where that summary is given: as the first state, also as an input of every step, or not at all."""


class Head(Part):
    kind: Literal["tokens", "copy", "ctc"] = "tokens"
    """Scores over the target's symbols; mixed with copying from the source; or with a blank at each place of it."""
    tied: bool = True
    """Use the target's embedding as the output matrix."""


class Objective(Part):
    kind: Literal["cross-entropy", "ctc"] = "cross-entropy"
    """What is minimised: per symbol, or over all alignments of the target with the source's places."""
    smoothing: Share = 0.1
    """The probability spread over all symbols (label smoothing)."""


class Feeding(Part):
    kind: Literal["teacher", "scheduled", "own"] = "teacher"
    """What the decoder reads in training: the right symbols, a coin's choice per symbol, or its own output."""
    schedule: Literal["linear", "exponential", "inverse-sigmoid"] = "linear"
    """Scheduled: how the share of right symbols falls over training time."""
    least: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Scheduled: the share of right symbols that it falls to."""
    noise: Annotated[float, Field(ge=0)] = 0.0
    """The spread of Gaussian noise on the vectors that the decoder reads."""
    token_dropout: Share = 0.0
    """The share of symbols that the decoder reads as unknown."""


class Train(Part):
    budget_seconds: Annotated[float, Field(gt=0)] | None = None
    """Wall-clock seconds for training and validation (--budget)."""
    steps: Count | None = None
    """Updates to make instead (--steps)."""
    epochs: Annotated[float, Field(gt=0)] | None = None
    """Passes over the data to make instead (--epochs)."""
    max_epochs: Annotated[float, Field(ge=0)] = 0.0
    """Of a budget of time: the most passes over the data that a model makes; 0: as many as there is time for."""
    batch_tokens: Annotated[int, Field(ge=16)] = 4096
    """The most symbols a batch holds on its longer side, padding included."""
    rate: Annotated[float, Field(gt=0, lt=10)] = 0.002
    """The highest learning rate."""
    embed_rate: Annotated[float, Field(gt=0)] = 1.0
    """That of the embeddings, in multiples of it."""
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
    """How many times the model is validated, spread over the budget (of time: fewer if they took over 15 % of it)."""
    valid_pairs: Count = 1000
    """The most validation pairs that are decoded each time, evenly spread."""
    members: Annotated[int, Field(ge=1, le=64)] = 1
    """How many models are trained, with different seeds, to predict together; a budget of time is shared by all."""
    reversed_members: bool = False
    """Of several models, every second writes the other way round (decoder.reverse); what both find likely is said."""
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
    max_ratio: Annotated[float, Field(gt=0)] = 2.0
    """An output has at most this many symbols for each of the source …"""
    max_extra: Annotated[int, Field(ge=1)] = 20
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
    decoder: Annotated[RecurrentDecoder | TransformerDecoder | NoDecoder, Field(discriminator="kind")] = (
        RecurrentDecoder()
    )
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

    @property
    def backward(self) -> bool:
        """Whether it writes from the end."""
        return not isinstance(self.decoder, NoDecoder) and self.decoder.reverse

    @model_validator(mode="after")
    def _fits_together(self) -> Spec:
        """Combinations that make no sense are refused, both settings named, with the way out."""
        from weft import compatibility  # which knows these classes

        compatibility.check(self)
        return self
