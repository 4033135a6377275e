"""Settings of the model: embeddings, encoder, bridge, decoder, head."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from weft.spec.names import (
    CellName,
    Heads,
    HeadScoreName,
    Layers,
    Noise,
    Part,
    PositionName,
    ScoreName,
    WeigherName,
    Width,
)


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
    latent: bool = False
    """masked-lm: tokens that occur in the same texts start with similar embeddings (latent semantic analysis)."""


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
    """The first state of a recurrent decoder: zeros, the last or mean encoder state, the last after 1 or 2 layers."""
    state: Literal["whole", "hidden"] = "whole"
    """From LSTM to LSTM: hand over the whole last state, h and c, or h alone (kinds last, projected and mlp)."""
    give: Literal["first", "every", "none"] = "first"
    """How the decoder gets this state: as its first one, as its first one and at every step, or not at all."""


class Pool(Part):
    kind: Literal["last", "mean", "query", "parts"] = "mean"
    """With task=classify or retrieve, the summary: the last state, the mean, what a learned query attends to, or a
    small network over the means of equal parts (parts)."""
    parts: Annotated[int, Field(ge=1, le=100)] = 8
    """The number of parts of pool.kind=parts."""


class Head(Part):
    kind: Literal["tokens", "copy", "ctc", "label", "numbers", "notes", "span", "hidden", "vector"] = "tokens"
    """Predicted: tokens, tokens or copies, tokens or blanks, labels, numbers, notes, spans, hidden tokens, vectors."""
    tied: bool = True
    """Use the target embeddings as the output matrix."""
