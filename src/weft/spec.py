"""What a run is: a tree of typed, frozen, strict settings.

The text under a field is its help, on the command line and in the documentation. The names of parts are checked here;
`nn/assemble/` turns each into a class, and a test holds the two lists together. How settings are put together from
a file, `--set` and the autopilot is in `settings.py`; which of them go together, in `compatibility.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

CellName = Literal[
    "elman", "lstm", "lstm-f", "lstm-i", "lstm-o", "lstm-b", "gru", "gru-after", "mut1", "mut2", "mut3", "elman-sigmoid"
]
ScoreName = Literal["none", "dot", "scaled", "scaled-width", "bilinear", "additive", "concat", "rbf", "cosine"]
HeadScoreName = Literal["dot", "scaled", "scaled-width", "bilinear", "additive", "concat", "rbf", "cosine"]
WeigherName = Literal["softmax", "nearest", "straight-through", "exact", "sparsemax", "kernel"]
PositionName = Literal["none", "sinusoid", "sinusoid-concat", "learned", "relative", "bucketed", "rotary", "alibi"]
MetricName = Literal[
    "exact", "cer", "token_error_rate", "bleu", "chrf", "accuracy", "macro_f1", "span_f1",
    "ade", "fde", "mse", "mae", "r2", "loss",
]  # fmt: skip
SPELLED = ("characters", "parts")  # the ways to cut text that are about single letters
TokensName = Literal["characters", "parts", "bytes", "words", "bpe", "unigram"]
VocabularySize = Annotated[int, Field(ge=300, le=1_000_000)]
Width = Annotated[int, Field(ge=1, le=100_000)]
Layers = Annotated[int, Field(ge=1, le=1000)]
Heads = Annotated[int, Field(ge=1, le=1000)]
Seed = Annotated[int, Field(ge=0, le=10**18)]
Noise = Annotated[float, Field(ge=0, le=100)]
Share = Annotated[float, Field(ge=0, lt=1)]


def _check_column(column: str | int | None) -> str | int | None:
    if isinstance(column, int) and not 1 <= column <= 100_000:
        raise ValueError(f"{str(column)[:30]} is not the number of a column; columns are numbered from 1: give 1, 2, …")
    if column == "":
        raise ValueError("a column has a name or a number; give one of them, or leave the setting out")
    return column


Column = Annotated[str | int | None, AfterValidator(_check_column)]


class Part(BaseModel):
    """A branch of the tree: it cannot be changed afterwards, and unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class Data(Part):
    pairs: tuple[str, ...] = ()
    """The training files, as given on the command line."""
    valid: tuple[str, ...] = ()
    """The validation files. None: a share of the training pairs is held out."""
    source: Column = None
    """The source column: a number from 1, a name, or object.name in JSON. None: found by name, otherwise column 1."""
    target: Column = None
    """The target column. None: found by name, otherwise column 2."""
    features: Column = None
    """The column of features, such as V;PST;3;SG, which the model reads together with the source."""
    tag: Column = None
    """The column of tags. A tag is a word that tells the model what to do, such as a language."""
    context: Column = None
    """The column of the context: a further sequence that the target depends on."""
    tag_at: Literal["start", "end", "decoder"] = "start"
    """Where the tag is put: before the source, after it, or as the first token that the decoder reads."""
    hold_out: Share = 0.05
    """The share of the training pairs that is held out when no validation file is given (at most 1,000 pairs)."""
    augmented: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    """The number of pairs to make up, by replacing the letters that a source and its target have in common."""
    repeat_power: Annotated[float, Field(ge=0, le=1)] = 1.0
    """A source with n rows counts n ** repeat_power times per epoch; 1: every row counts."""
    unseen: Literal["unknown", "nearest", "carried"] = "unknown"
    """Characters that never occur in training: read as unknown or as the nearest one (ÿ as y), or copied (carried)."""
    on_bad_line: Literal["stop", "skip"] = "stop"
    """Stop at a row that cannot be used, or skip it (--on-bad-line)."""
    longest: Annotated[int, Field(ge=1, le=100_000_000)] = 20_000
    """A row is bad if its source or target has more characters than this."""


class Side(Part):
    kind: Literal["auto", "text", "numbers", "label"] = "auto"
    """What the column holds: text, JSON lists of numbers or, for a target, labels; auto: found from the first rows."""
    tokens: TokensName = "characters"
    """How text is split. parts: letters and accents apart, Korean syllables into sounds; words: split at spaces."""
    size: VocabularySize = 4000
    """The size of the vocabulary that bpe and unigram learn."""


class Context(Part):
    kind: Literal["auto", "text", "numbers"] = "auto"
    """What the column of the context (data.context) holds; auto: found from the first rows."""
    use: Literal["auto", "step", "attend"] = "auto"
    """The decoder reads it step by step, along with the target, or attends to it; auto: step if it is as long."""
    tokens: TokensName = "characters"
    """How text is split, as for the source."""
    size: VocabularySize = 4000
    """The size of the vocabulary that bpe and unigram learn."""


class Numbers(Part):
    differences: bool = False
    """Read and predict the differences between steps instead of the values, which suits trajectories better."""
    values: bool = True
    """With differences: also read the values of the source and of an attended context."""
    missing: Literal["auto", "stop", "interpolate", "mask"] = "auto"
    """A missing value (null): stop, interpolate, or also tell the model where (mask). auto: mask; stop in a target."""
    stop: Literal["fixed", "context", "learned"] = "fixed"
    """The number of steps to predict: that of the longest training target, that of the context, or a learned one."""


class Embed(Part):
    width: Width = 256
    """The width of the embeddings."""
    positions: PositionName = "none"
    """How positions are encoded: added to the embeddings, concatenated, or within the attention of a Transformer."""
    per_layer: bool = True
    """With positions=relative: each layer of a Transformer has a table of biases of its own; false: one for all."""
    max_distance: Annotated[int, Field(ge=1, le=10_000)] = 16
    """With positions=relative: the distance at which the bias is clipped; farther positions share one."""
    shared: bool = False
    """Use one tokeniser and one table of embeddings for source and target."""


def _check_residual(side: str, residual: bool, layers: int) -> None:
    if residual and layers == 1:
        raise ValueError(
            f"{side}.residual=true has no effect with {side}.layers=1; set {side}.layers=2 or more, or leave it out"
        )


class RecurrentEncoder(Part):
    kind: Literal["recurrent"] = "recurrent"
    """The model family."""
    cell: CellName = "lstm"
    """The recurrent cell (equations in nn/cells.py and nn/lstm.py)."""
    width: Width = 256
    """The width of its states; with both directions, each has half of it."""
    layers: Layers = 1
    """The number of layers."""
    directions: Literal["forward", "both"] = "both"
    """Read the source forward, or in both directions."""
    reverse: bool = False
    """Read the source from its end to its start."""
    noise: Noise = 0.0
    """The standard deviation of Gaussian noise on the embeddings that the encoder reads in training."""
    residual: bool = False
    """Add the input of each layer, except the first, to its output."""
    layer_norm: bool = False
    """Apply layer norm to the output of each layer."""
    variational: bool = False
    """Drop the same values at every step of a sequence (variational dropout)."""

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
    """The model family."""
    width: Width = 256
    """The width of its states."""
    layers: Layers = 4
    """The number of blocks."""
    heads: Heads = 4
    """The number of attention heads; it must divide the width."""
    inner: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    """The inner width of the feed-forward layers."""
    norm: Literal["pre", "post"] = "pre"
    """Where layer norm is applied: before each part of a block, or after it."""
    attention: SelfAttention = SelfAttention()
    """How its attention heads compute scores and weights."""

    @model_validator(mode="after")
    def _divides(self) -> Transformer:
        if self.width % self.heads:
            raise ValueError(
                f"width={self.width} cannot be divided by heads={self.heads}; choose heads that divide the width, "
                f"such as {', '.join(str(h) for h in (1, 2, 4, 8) if self.width % h == 0)}"
            )
        return self


class TransformerEncoder(Transformer):
    noise: Noise = 0.0
    """The standard deviation of Gaussian noise on the embeddings that the encoder reads in training."""


class NoEncoder(Part):
    kind: Literal["none"]
    """No encoder: the decoder attends to the embeddings of the source."""
    width: Width = 256
    """The width that the embeddings are projected to."""


class Attention(Part):
    score: ScoreName = "additive"
    """How a query is compared with a key; none: no attention."""
    weigh: WeigherName = "softmax"
    """How scores become weights (nn/weighers.py)."""
    project: Literal["none", "linear", "mlp"] = "none"
    """How query, key and value are projected; none: they are used as they are."""
    heads: Heads = 1
    """The number of attention heads; each works on its own slice of the width."""
    query: Literal["after", "before"] = "after"
    """The query is the state after the step, or the state before it."""
    feed: bool = True
    """Feed the context into the next step; with query=before, into the same step."""
    location_aware: bool = False
    """Scores also depend on the weights of the previous step, so that attention can learn to move along the source."""
    join: Literal["concat", "gate", "context"] = "concat"
    """How the output is made: by a layer over state and context, a gate between them, or a layer over the context."""


class RecurrentDecoder(Part):
    kind: Literal["recurrent"] = "recurrent"
    """The model family."""
    cell: CellName = "lstm"
    """The recurrent cell (equations in nn/cells.py and nn/lstm.py)."""
    width: Width = 256
    """The width of its states."""
    layers: Layers = 1
    """The number of layers."""
    attention: Attention = Attention()
    """Its attention to the source."""
    reverse: bool = False
    """Write the target from its end to its start."""
    residual: bool = False
    """Add the input of each layer, except the first, to its output."""
    layer_norm: bool = False
    """Apply layer norm to the output of each layer."""
    variational: bool = False
    """Drop the same values at every step of a sequence (variational dropout)."""

    @model_validator(mode="after")
    def _check(self) -> RecurrentDecoder:
        _check_residual("decoder", self.residual, self.layers)
        return self


class TransformerDecoder(Transformer):
    reverse: bool = False
    """Write the target from its end to its start."""


class NoDecoder(Part):
    kind: Literal["none"] = "none"
    """No decoder: the encoder predicts the target by itself (head.kind=ctc or label)."""


class Bridge(Part):
    kind: Literal["zeros", "last", "mean", "projected", "mlp"] = "projected"
    """The first state of a recurrent decoder: zeros, the last or mean encoder state, or the last by 1 or 2 layers."""
    state: Literal["whole", "hidden"] = "whole"
    """From LSTM to LSTM: hand over the whole last state, h and c, or h alone (kinds last, projected and mlp)."""
    give: Literal["first", "every", "none"] = "first"
    """How the decoder gets this state: as its first one, as its first one and at every step, or not at all."""


class Pool(Part):
    kind: Literal["last", "mean", "query"] = "mean"
    """With task=classify, the summary of the source: the last state, the mean, or what a learned query attends to."""


class Head(Part):
    kind: Literal["tokens", "copy", "ctc", "label", "numbers"] = "tokens"
    """What is predicted: tokens, tokens or copies of source tokens, a token or blank per position, labels, numbers."""
    tied: bool = True
    """Use the target embeddings as the output matrix."""


class Objective(Part):
    kind: Literal["cross-entropy", "ctc", "squared", "gaussian", "mixture"] = "cross-entropy"
    """The loss: cross-entropy per token, CTC over alignments or, for numbers, squared error or −log p of Gaussians."""
    components: Annotated[int, Field(ge=1, le=100)] = 5
    """The number of Gaussians in a mixture."""
    smoothing: Share = 0.1
    """Label smoothing: the probability that is spread over all tokens."""
    class_power: Annotated[float, Field(ge=0, le=2)] = 0.0
    """Labels: each is weighted by count ** -class_power, so that rare labels count more; 0: no weights."""


class Feeding(Part):
    kind: Literal["teacher", "scheduled", "own"] = "teacher"
    """What the decoder reads in training: correct tokens, a random mix of correct and predicted ones, or its own."""
    schedule: Literal["linear", "exponential", "inverse-sigmoid"] = "linear"
    """Scheduled: how the share of correct tokens falls during training."""
    least: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Scheduled: the share of correct tokens at the end of training."""
    noise: Noise = 0.0
    """The standard deviation of Gaussian noise on the embeddings that the decoder reads."""
    token_dropout: Share = 0.0
    """The share of tokens that the decoder reads as unknown."""


class Train(Part):
    budget_seconds: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Wall-clock seconds for training and validation (--budget)."""
    steps: Annotated[int, Field(ge=1, le=10**12)] | None = None
    """The number of updates, instead of a budget (--steps)."""
    epochs: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """The number of passes over the data, instead of a budget (--epochs)."""
    max_epochs: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    """With a time budget: the largest number of passes over the data; 0: no limit."""
    batch_tokens: Annotated[int, Field(ge=16, le=100_000_000)] = 4096
    """The largest number of tokens in a batch, counted on its longer side, with padding."""
    rate: Annotated[float, Field(gt=0, lt=10)] = 0.002
    """The highest learning rate."""
    embed_rate: Annotated[float, Field(gt=0, le=10_000)] = 1.0
    """The learning rate of the embeddings, in multiples of train.rate."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """How the learning rate falls between the warm-up and the end of the budget."""
    warmup: Share = 0.05
    """The share of the budget in which the learning rate rises."""
    dropout: Share = 0.2
    """The dropout rate."""
    clip: Annotated[float, Field(gt=0, le=1e9)] = 1.0
    """The largest norm of the gradient; larger ones are scaled down to it."""
    weight_decay: Annotated[float, Field(ge=0, le=1000)] = 0.01
    """The weight decay of AdamW, applied to matrices."""
    average: Share = 0.998
    """The decay of the running average of the weights, which is used for prediction; 0: no averaging."""
    select: MetricName = "exact"
    """The metric by which the best checkpoint is chosen, on the validation pairs."""
    patience: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Stop after this many evaluations without improvement; 0: never."""
    evaluations: Annotated[int, Field(ge=1, le=100_000)] = 20
    """How often the model is validated; less often if that would take more than 15 % of a time budget."""
    valid_pairs: Annotated[int, Field(ge=1, le=100_000_000)] = 1000
    """The largest number of validation pairs to decode each time; they are spread evenly over all of them."""
    members: Annotated[int, Field(ge=1, le=64)] = 1
    """The number of models, which have different seeds and predict together; they share a time budget."""
    side_by_side: Annotated[int, Field(ge=0, le=64)] = 0
    """The number of these models that are trained at the same time; 0: one per core."""
    reversed_members: bool = False
    """Every second member writes backwards (decoder.reverse); outputs that are likely both ways are preferred."""
    seed: Seed = 1
    """The seed of all random numbers."""
    tensorboard: bool = False
    """Also write the numbers of the log as TensorBoard events, into RUN/tensorboard."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """The device; auto: CUDA if available, otherwise MPS if available, otherwise the CPU."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """The number format of matrix products."""

    @model_validator(mode="after")
    def _one_length(self) -> Train:
        given = [n for n in ("budget_seconds", "steps", "epochs") if self.__dict__[n] is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join('train.' + n for n in given)} cannot be given together; keep one")
        return self


class Search(Part):
    kind: Literal["greedy", "beam", "sample"] = "beam"
    """The search algorithm."""
    width: Annotated[int, Field(ge=1, le=1000)] = 5
    """Beam search: the number of hypotheses that are kept."""
    length_penalty: Annotated[float, Field(ge=0, le=5)] = 1.0
    """Hypotheses are ranked by log-probability divided by length to the power of this value."""
    temperature: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """Sampling: values below 1 make outputs vary less, values above 1 more; for none at all use kind=greedy."""
    top_k: Annotated[int, Field(ge=0, le=100_000_000)] = 0
    """Sampling: draw only from the k most probable tokens; 0: from all tokens."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Sampling: draw only from the most probable tokens that together have this probability."""
    seed: Seed = 1
    """Sampling: the seed."""
    no_repeat: Annotated[int, Field(ge=0, le=1000)] = 0
    """N-grams of this size may not occur twice in an output; 0: no restriction."""
    max_ratio: Annotated[float, Field(gt=0, le=100_000)] = 2.0
    """The largest number of output tokens per source token, to which search.max_extra is added."""
    max_extra: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    """The number of tokens that an output may have in addition to search.max_ratio per source token."""
    seconds: Annotated[float, Field(ge=0, le=1e9)] = 60.0
    """The most seconds that one line may take in predict and evaluate; then the best so far is written. 0: no limit."""


class Spec(Part):
    """Every setting of a run."""

    task: Literal["transduce", "classify", "classify-tokens"] = "transduce"
    """What is learned: the target from the source, a label for each source, or a label for each of its words."""
    data: Data = Data()
    """The files, their columns, and how their rows are used."""
    source: Side = Side()
    """How the source is split into tokens."""
    target: Side = Side()
    """How the target is split into tokens."""
    context: Context = Context()
    """A further sequence that the target depends on."""
    numbers: Numbers = Numbers()
    """How columns of numbers are read and predicted."""
    embed: Embed = Embed()
    """Embeddings and positions."""
    encoder: Annotated[RecurrentEncoder | TransformerEncoder | NoEncoder, Field(discriminator="kind")] = (
        RecurrentEncoder()
    )
    """The encoder, which reads the source."""
    bridge: Bridge = Bridge()
    """What the decoder gets from the encoder besides attention."""
    decoder: Annotated[RecurrentDecoder | TransformerDecoder | NoDecoder, Field(discriminator="kind")] = (
        RecurrentDecoder()
    )
    """The decoder, which writes the target."""
    pool: Pool = Pool()
    """How a classifier summarises what the encoder read."""
    head: Head = Head()
    """How states become predictions."""
    objective: Objective = Objective()
    """The loss."""
    feeding: Feeding = Feeding()
    """What the decoder reads in training."""
    train: Train = Train()
    """Budget, batches, optimiser, validation, device."""
    search: Search = Search()
    """How outputs are found."""

    @property
    def backward(self) -> bool:
        """Whether it writes from the end."""
        return not isinstance(self.decoder, NoDecoder) and self.decoder.reverse

    @property
    def whole_state(self) -> bool:
        """Whether the bridge hands over h and c, from an LSTM to an LSTM."""
        parts = (self.encoder, self.decoder)
        lstms = all(isinstance(p, RecurrentEncoder | RecurrentDecoder) and p.cell.startswith("lstm") for p in parts)
        given = self.bridge.kind in ("last", "projected", "mlp") and self.bridge.give != "none"
        return lstms and given and self.bridge.state == "whole"

    @model_validator(mode="after")
    def _fits_together(self) -> Spec:
        """Refuse combinations that make no sense; the error names both settings and what to change."""
        from weft import compatibility  # which knows these classes

        compatibility.check(self)
        return self
