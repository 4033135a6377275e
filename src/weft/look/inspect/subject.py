"""What is looked at: a run with its model, and single lines that the model has written.

Every view sees the line as the model does: token by token, with the output that it wrote (or one that was given), under
teacher forcing. Since step by step equals all at once for every decoder, that shows what happened while it was written.
"""

# B batch · S source length · T target length

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.core.batching import batch_of
from weft.core.errors import UserError
from weft.core.kinds import Batch, Column, Encoder
from weft.core.pair import UNKNOWN, Pair
from weft.core.trace import trace
from weft.data.sides.label import Label
from weft.data.sides.side import Encoded, Side
from weft.data.sides.table import shown
from weft.data.text.tokens import Tokeniser
from weft.learn.model import model_of
from weft.look.inspect.pieces import check_length, in_pieces
from weft.nn.assemble import AnyModel
from weft.nn.context import AttendedContext
from weft.nn.model import LanguageModel, Seq2Seq, Writer
from weft.predict.predictions import Output
from weft.predict.predictor import Predictor
from weft.search.decode import SearchPlan

UNTRAINED_SEED = 1
MOST_NAMED = 20  # labels in a message


class Subject:
    """A run that is looked at: of an ensemble, its first model."""

    def __init__(self, predictor: Predictor, path: Path | None = None) -> None:
        self.path, self.models = path, 1 + len(predictor.others)
        self.predictor = Predictor(predictor.spec, predictor.sides, predictor.model, predictor.device)
        self.spec, self.sides, self.device = predictor.spec, predictor.sides, predictor.device

    @cached_property
    def model(self) -> AnyModel:
        """A copy of the model that is not packed: it has gradients, and its weights can be changed."""
        model = self.untrained()
        model.load_state_dict(self.predictor.model.state_dict())
        return model

    def untrained(self, seed: int = UNTRAINED_SEED) -> AnyModel:
        """Return a model of the same shape with random weights; the random state of the caller stays as it is."""
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return model_of(self.spec, self.sides).to(self.device).eval().requires_grad_(False)

    def with_model(self, model: AnyModel) -> Predictor:
        """Return a predictor with another model of the same shape."""
        return Predictor(self.spec, self.sides, model, self.device)

    @cached_property
    def plan(self) -> SearchPlan:
        """The search of the run."""
        return self.predictor.plan()

    @property
    def has_decoder(self) -> bool:
        return isinstance(self.predictor.model, Writer)

    @property
    def is_language_model(self) -> bool:
        """Whether it reads nothing but its own output: then the inputs are texts that it is shown."""
        return isinstance(self.predictor.model, LanguageModel)

    @property
    def encoder(self) -> Encoder | None:
        """The encoder, if the model has one."""
        model = self.predictor.model
        return None if isinstance(model, LanguageModel) else model.encoder

    @property
    def read_side(self) -> Side:
        """The side of what is read: the source or, of a language model, the text."""
        return self.sides.target if self.is_language_model else self.sides.source

    @property
    def writes_text(self) -> bool:
        return isinstance(self.sides.target, Tokeniser)

    @property
    def searches(self) -> bool:
        """Whether outputs are found by a search: labels and numbers are predicted at once, and texts are only read."""
        return self.writes_text and not self.is_language_model

    @property
    def has_probabilities(self) -> bool:
        """Whether outputs have a log-probability: numbers and notes have densities, or only a mean."""
        return self.sides.target_kind not in ("numbers", "notes")

    @property
    def reads_text(self) -> bool:
        return isinstance(self.sides.source, Tokeniser)

    def cut(self, text: str) -> Sequence[str]:
        """Return the symbols in which an output is compared: words, or else characters."""
        return text.split() if self.reads_words() else list(text)

    def reads_words(self, part: str = "decode") -> bool:
        """Return whether the symbols of the encoder's or the decoder's texts are words, with spaces between them."""
        side, spec = (
            (self.sides.source, self.spec.source) if part == "encode" else (self.sides.target, self.spec.target)
        )
        return isinstance(side, Tokeniser) and spec.tokens == "words"

    def cannot_write(self, text: str) -> list[str]:
        """Return the symbols of a text that are not in the vocabulary of the outputs."""
        side = self.sides.target
        if isinstance(side, Label):
            return [] if side.knows(text) else [text]
        if not isinstance(side, Tokeniser):
            return []
        return [symbol for symbol in dict.fromkeys(self.cut(text)) if UNKNOWN in side.encode(symbol)]

    def lines(self, pairs: Sequence[Pair], force: str | None = None) -> list[Line]:
        """Return the lines of these inputs, with the outputs of the model or the one that is given."""
        self._check(pairs)
        self._check_force(force)
        if self.is_language_model:
            if force is not None:
                what = "a language model has no input apart from its text, so no other output can be given"
                raise UserError(what, "--force", "give the text as the input, without --force")
            return [Line(self, pair, self._forced(pair, pair.source)) for pair in pairs]
        if force is None:
            outputs = [prediction.outputs[0] for prediction in self.predictor.predict(pairs, self.plan)]
        else:
            outputs = [self._forced(pair, force) for pair in pairs]
        return [Line(self, pair, output, force is not None) for pair, output in zip(pairs, outputs)]

    def written(self, pairs: Sequence[Pair], outputs: Sequence[str]) -> list[Line]:
        """Return the lines of inputs whose outputs are known, so that nothing has to be decoded."""
        self._check(pairs)
        return [Line(self, pair, self._forced(pair, output)) for pair, output in zip(pairs, outputs, strict=True)]

    def _check(self, pairs: Sequence[Pair]) -> None:
        """Refuse inputs that are empty or too long."""
        for number, pair in enumerate(pairs, 1):
            if not pair.source.strip():
                raise UserError("this input is empty", f"input {number}", "give a text to look at")
        for number, row in enumerate(self.sides.inputs(pairs).source, 1):
            check_length("input", len(row), f"input {number}")

    def _check_force(self, force: str | None) -> None:
        """Refuse an output that is empty, or a label that there is not."""
        if force is not None and not force.strip():
            raise UserError("the output that is given is empty", "--force", "give the output to look at")
        side = self.sides.target
        if force is not None and isinstance(side, Label) and not side.knows(force):
            todo = f"choose from {', '.join(side.names_of_labels[:MOST_NAMED])}"
            raise UserError(f"the model has no label {force!r}", "--force", todo)

    def as_read(self, table: Sequence[Pair]) -> Sequence[Pair]:
        """Return rows with an input: a language model is shown its own text, in pieces that are not too long."""
        if not self.is_language_model:
            return table
        if not self.writes_text:
            return [replace(pair, source=pair.target) for pair in table]
        pieces = [(pair, piece) for pair in table for piece in in_pieces(pair.target)]
        return [replace(pair, source=piece, target=piece) for pair, piece in pieces if piece.strip()]

    def consecutive(self, pairs: Sequence[Pair]) -> list[Line]:
        """Return the lines of a table; those of a language model follow each other, and are scored like that."""
        if not self.is_language_model:
            return self.lines(pairs)
        return [
            Line(self, pair, self._scored(pair.source, scores))
            for pair, scores in zip(pairs, self.predictor.step_scores(pairs), strict=True)
        ]

    def _forced(self, pair: Pair, text: str) -> Output:
        """Return a given output with the scores that the model gives to it."""
        forced = replace(pair, target=text)
        if not self.has_decoder:
            log_prob = self.predictor.log_probs([forced])[0]
            return Output(text, log_prob, log_prob, (), ())
        (scores,) = self.predictor.step_scores([forced])
        return self._scored(text, scores)

    def _scored(self, text: str, scores: tuple[float, ...]) -> Output:
        log_prob = sum(scores)
        rank = log_prob / max(1, len(scores)) ** self.plan.length_penalty
        return Output(text, rank, log_prob, (), scores)

    def batch(self, pairs: Sequence[Pair]) -> Batch:
        """Return pairs as one batch, with their targets."""
        return self.batch_of_rows(self.sides.encode(pairs))

    def batch_of_rows(self, rows: Encoded) -> Batch:
        return batch_of(rows.source, rows.target, rows.context, self.sides.shapes).to(self.device)

    def names(self, side: Side, values: Tensor, source: str) -> list[str]:
        """Return a readable name for each position of one row of a column (S, …)."""
        if isinstance(side, Tokeniser):
            return self.predictor.shown(source, side, values.tolist())
        if isinstance(side, Label):
            return [side.names[int(i)] for i in values]
        return [str(position) for position in range(1, len(values) + 1)]


@dataclass(frozen=True, eq=False)
class Line:
    """One input and the output that is looked at."""

    subject: Subject
    pair: Pair  # its target is the right output, where that is known
    output: Output
    forced: bool = False

    @cached_property
    def written(self) -> Pair:
        """The input with the output that is looked at as its target."""
        return replace(self.pair, target=self.output.text, references=())

    @cached_property
    def rows(self) -> Encoded:
        rows = self.subject.sides.encode([self.written])
        check_length("output", len(rows.target[0]))
        return rows

    @cached_property
    def batch(self) -> Batch:
        return self.subject.batch_of_rows(self.rows)

    @cached_property
    def source_tokens(self) -> list[str]:
        """The input as the encoder reads it, END included."""
        return self._names(self.subject.sides.source, self.batch.source)

    @cached_property
    def target_tokens(self) -> list[str]:
        """The output step by step, END included."""
        return self._names(self.subject.sides.target, self.batch.wanted)

    @cached_property
    def given_tokens(self) -> list[str]:
        """What the decoder reads at each step: the output, one step later."""
        return ["<start>", *self.target_tokens[:-1]]

    @cached_property
    def attended_tokens(self) -> list[str]:
        """The positions that a decoder attends to: the source, without what only the decoder reads, and the context."""
        model, context = self.subject.model, self.batch.context
        tokens = self.source_tokens[1:] if isinstance(model, Seq2Seq) and model.prompted else self.source_tokens
        if context is None or not isinstance(model.context_reader, AttendedContext):
            return tokens
        assert self.subject.sides.context is not None
        return tokens + self._names(self.subject.sides.context, context)

    def _names(self, side: Side, column: Column) -> list[str]:
        return self.subject.names(side, column.values[0], self.pair.source)

    @cached_property
    def seen(self) -> dict[str, list[Tensor]]:
        """Everything that the model noted while it read the input and wrote the output."""
        with torch.no_grad(), trace() as seen:
            self.subject.model(self.batch)
        return seen

    @property
    def has_right(self) -> bool:
        """Whether the right output is known; what a language model reads is neither right nor wrong."""
        return bool(self.pair.target) and not self.subject.is_language_model

    @property
    def is_right(self) -> bool:
        return self.output.text in self.pair.targets

    def to_json(self) -> dict[str, Any]:
        content: dict[str, Any] = {"input": shown(self.pair.source), "output": self.output.text}
        content |= {"tag": self.pair.tag} if self.pair.tag else {}
        content |= {"features": list(self.pair.features)} if self.pair.features else {}
        content |= {"context": shown(self.pair.context)} if self.pair.context else {}
        content |= {"forced": True} if self.forced else {}
        content |= {"right": self.pair.target, "is_right": self.is_right} if self.has_right else {}
        if self.subject.has_probabilities:
            content |= {"score": self.output.score, "log_prob": self.output.log_prob}
        return {**content, "source_tokens": self.source_tokens, "target_tokens": self.target_tokens}
