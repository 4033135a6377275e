"""The names and ranges that settings are made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

CellName = Literal[
    "elman", "lstm", "lstm-f", "lstm-i", "lstm-o", "lstm-b", "gru", "gru-after", "mut1", "mut2", "mut3", "elman-sigmoid"
]
ScoreName = Literal["none", "dot", "scaled", "scaled-width", "bilinear", "additive", "concat", "rbf", "cosine"]
HeadScoreName = Literal["dot", "scaled", "scaled-width", "bilinear", "additive", "concat", "rbf", "cosine"]
WeigherName = Literal["softmax", "nearest", "straight-through", "exact", "sparsemax", "kernel"]
PositionName = Literal["none", "sinusoid", "sinusoid-concat", "learned", "relative", "bucketed", "rotary", "alibi"]
MetricName = Literal[
    "exact", "cer", "token_error_rate", "bleu", "chrf", "accuracy", "macro_f1", "span_f1", "f1",
    "ade", "fde", "mse", "mae", "r2", "nll", "note_f1", "perplexity", "bits_per_character", "loss",
    "rouge1", "rouge2", "rougeL", "mrr", "ndcg@10", "map", "recall@1", "recall@5", "recall@10",
]  # fmt: skip
SPELLED = ("characters", "parts")  # the ways to cut text that are about single letters
TokensName = Literal["characters", "parts", "bytes", "words", "bpe", "unigram", "stems"]
VocabularySize = Annotated[int, Field(ge=300, le=1_000_000)]
Width = Annotated[int, Field(ge=1, le=100_000)]
Layers = Annotated[int, Field(ge=1, le=1000)]
Heads = Annotated[int, Field(ge=1, le=1000)]
Seed = Annotated[int, Field(ge=0, le=10**18)]
Noise = Annotated[float, Field(ge=0, le=100)]
Share = Annotated[float, Field(ge=0, lt=1)]


class Part(BaseModel):
    """A branch of the tree: it cannot be changed afterwards, and unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)
