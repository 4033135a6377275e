"""Settings of training and search: objective, feeding, budget, optimiser, decoding."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from weft.spec.names import MetricName, Noise, Part, Seed, Share


class Objective(Part):
    kind: Literal[
        "cross-entropy", "ctc", "squared", "distance", "gaussian", "mixture", "notes", "span", "contrastive"
    ] = "cross-entropy"
    """The loss: cross-entropy, CTC; squared error, distance, or −log p of Gaussians, of notes, spans, documents."""
    components: Annotated[int, Field(ge=1, le=100)] = 5
    """The number of Gaussians in a mixture."""
    smoothing: Share = 0.1
    """Label smoothing: the probability that is spread over all tokens."""
    ctc_share: Share = 0.0
    """CTC beside attention: this share of the loss is that of CTC on the encoder's states; 0: attention alone."""
    class_power: Annotated[float, Field(ge=0, le=2)] = 0.0
    """Labels: each is weighted by count ** -class_power, so that rare labels count more; 0: no weights."""


class Feeding(Part):
    kind: Literal["teacher", "scheduled", "own", "none"] = "teacher"
    """What the decoder reads in training: correct tokens, a mix of correct and predicted ones, its own; none: never."""
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
    window: Annotated[int, Field(ge=1, le=1_000_000)] = 128
    """Language models of running text: the tokens that gradients flow back through, and that a Transformer sees."""
    rate: Annotated[float, Field(gt=0, lt=10)] = 0.002
    """The highest learning rate."""
    init_rate: Annotated[float, Field(gt=0, le=100)] = 1.0
    """With --init: the learning rate of the weights taken from the other run, in multiples of that of new weights."""
    freeze: tuple[Literal["embed", "encoder", "bridge", "decoder", "pool", "head"], ...] = ()
    """The parts that are not trained, such as encoder,embed; embed: the tables of embeddings."""
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
    """The number of models, which have different seeds and are combined (an ensemble); they share a time budget."""
    side_by_side: Annotated[int, Field(ge=0, le=64)] = 0
    """The number of these models that are trained at the same time; 0: one per core."""
    reversed_members: bool = False
    """Every second member writes backwards (decoder.reverse); outputs likely in both directions are preferred."""
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
    ctc_weight: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Runs with objective.ctc_share: the weight of CTC in greedy and beam search; the rest is that of the decoder."""
    temperature: Annotated[float, Field(ge=0.001, le=1000)] = 1.0
    """Sampling: values below 1 make outputs vary less, values above 1 more; kind=greedy is not random."""
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
    length: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The number of steps to predict, or the largest number of tokens (--length); null: as in training, or 200 after a
    prompt."""
    seconds: Annotated[float, Field(ge=0, le=1e9)] = 60.0
    """The time limit of a line in predict and evaluate, in seconds; then the best output so far is written. 0: none."""
