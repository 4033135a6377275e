"""The model is one sentence: head(decode(bridge(encode(read(x))), read(y))); for CTC it is head(encode(read(x)))."""

# B lines · S source length · N hypotheses · V symbols

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Protocol

import torch
from torch import Tensor, nn

from weft.core import native
from weft.core.emissions import Choice
from weft.core.kinds import (
    Batch,
    Column,
    ContextReader,
    Decoder,
    Emission,
    Encoder,
    Head,
    Memory,
    Reader,
    S,
    StepReader,
)
from weft.core.lines import Lines
from weft.core.masks import reverse_real
from weft.core.trace import note


@dataclass(frozen=True)
class SearchState(Generic[S]):
    """The state of open hypotheses: the decoder's, the lines for heads that see them, and what is read for START."""

    state: S
    lines: Lines
    memory: Memory | None  # once a line
    prompt: Tensor | None = None  # (N,)

    def select(self, rows: Tensor) -> SearchState[S]:
        memory, prompt, (lines, kept) = self.memory, self.prompt, self.lines.select(rows)
        if memory is not None and kept is not None:
            memory = memory.select(kept)
        return SearchState(self.state.select(rows), lines, memory, None if prompt is None else prompt[rows])


class Model(nn.Module):
    """What training and validation need of a model."""

    source_reader: Reader
    encoder: Encoder
    head: Head
    context_reader: ContextReader | None

    def __init__(self) -> None:
        super().__init__()
        self.context_reader = None

    def forward(self, batch: Batch) -> Emission:
        return self.head(*self.decode(batch))

    def decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        """Run everything but the head; return outputs (B, T, D) and the memory."""
        raise NotImplementedError

    def encode(self, source: Column, context: Column | None = None) -> Memory:
        """Return what the encoder reads of the source, and what is attended to of the context, if there is one."""
        self.source_reader.begin()
        read = Column(reverse_real(source.values, source.mask), source.mask) if self.encoder.reverse else source
        vectors, mask = self.source_reader.read(read)  # (B, S', D), (B, S')
        if self.context_reader is None:
            return replace(self.encoder(note("encode.inputs", vectors), mask), source=source.values)
        assert context is not None, "this model reads a context"
        vectors, mask = self.context_reader.join(vectors, mask, context)
        memory = replace(self.encoder(note("encode.inputs", vectors), mask), source=source.values)
        return self.context_reader.extend(memory, context)

    @property
    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())


class Writer(Model, Generic[S]):
    """A model with a decoder: what feeding and searches need of it."""

    target_reader: StepReader
    decoder: Decoder[S]

    def begin(self, source: Column, context: Column | None = None) -> SearchState[S]:
        raise NotImplementedError

    def advance(self, y: Tensor, search: SearchState[S]) -> tuple[Tensor, SearchState[S]]:
        out, search = self._step(y, search)
        log_probs = _log_probs(self.head(search.lines.fold(out), search.memory))
        return search.lines.unfold(log_probs)[:, 0], search  # (N, V)

    def emit(self, y: Tensor, search: SearchState[S]) -> tuple[Emission, SearchState[S]]:
        out, search = self._step(y, search)
        memory, lines = search.memory, search.lines
        if memory is not None and lines.each > 1:
            memory = memory.select(torch.arange(lines.count, device=y.device).repeat_interleave(lines.each))
        return self.head(out, memory), search  # (N, 1, …)

    def _step(self, y: Tensor, search: SearchState[S]) -> tuple[Tensor, SearchState[S]]:
        """Read the last values, or first of all the prompt, and return the decoder's output (N, 1, D)."""
        y = y if search.prompt is None else search.prompt
        x = note("decode.inputs", self.target_reader(y[:, None], search.state.place))[:, 0]  # (N, D)
        out, state = self.decoder.step(x, search.state)
        return out[:, None], replace(search, state=state, prompt=None)


class Seq2Seq(Writer[S]):
    """Any readers, encoder, bridge, decoder and head, trained on whole batches and searched step by step.

    When `prompted`, the first token of the source is not read by the encoder: the decoder reads it instead of START.
    """

    def __init__(
        self,
        source_reader: Reader,
        encoder: Encoder,
        bridge: nn.Module,
        target_reader: StepReader,
        decoder: Decoder[S],
        head: Head,
        prompted: bool = False,
        context_reader: ContextReader | None = None,
    ) -> None:
        super().__init__()
        self.source_reader, self.encoder, self.bridge = source_reader, encoder, bridge
        self.target_reader, self.decoder, self.head, self.prompted = target_reader, decoder, head, prompted
        self.context_reader = context_reader

    def decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        given = batch.given.values
        if self.prompted:
            given = torch.cat([batch.source.values[:, :1], given[:, 1:]], dim=1)
        memory = self.read(batch.source, batch.context)
        state = self._start(memory, batch.context)
        vectors = note("decode.inputs", self.target_reader(given, state.place))  # (B, T, D)
        return self.decoder.unroll(vectors, state), memory

    def begin(self, source: Column, context: Column | None = None) -> SearchState[S]:
        return self.begin_from(self.read(source, context), source, context)

    def begin_from(self, memory: Memory, source: Column, context: Column | None = None) -> SearchState[S]:
        """Begin with what encoder and bridge hand over, or with what somebody put in its place."""
        prompt = source.values[:, 0] if self.prompted else None
        lines = Lines(source.size)
        state = self._start(memory, context)
        return SearchState(state, lines, memory if self.head.sees_source else None, prompt)

    def _start(self, memory: Memory, context: Column | None) -> S:
        self.target_reader.begin()
        if self.context_reader is None or context is None:
            return self.decoder.start(memory)
        return self.decoder.start(memory, self.context_reader.steps(context))

    def read(self, source: Column, context: Column | None = None) -> Memory:
        """Return what encoder and bridge hand to the decoder."""
        if self.prompted:
            source = Column(source.values[:, 1:], source.mask[:, 1:])
        memory: Memory = self.bridge(self.encode(source, context))
        return memory


class JointHead(Head, Protocol):
    """Scores what a decoder writes, and by CTC what the encoder reads."""

    aligner: Head


class JointSeq2Seq(Seq2Seq[S]):
    """One with a head that also scores the encoder's states by CTC; these scores are computed once for a search."""

    head: JointHead

    def begin_from(self, memory: Memory, source: Column, context: Column | None = None) -> SearchState[S]:
        return replace(super().begin_from(memory, source, context), memory=None)

    def begin_aligned(
        self, source: Column, context: Column | None = None
    ) -> tuple[SearchState[S], tuple[Tensor, Tensor]]:
        memory = self.read(source, context)
        frames = self.head.aligner(memory.states, memory)
        assert isinstance(frames, Choice)
        return self.begin_from(memory, source, context), (frames.log_probs, memory.mask)


class LanguageModel(Writer[S]):
    """A decoder alone, which continues what it reads. The source of a search is a prompt; in training it is empty."""

    def __init__(self, target_reader: StepReader, decoder: Decoder[S], head: Head) -> None:
        super().__init__()
        self.target_reader, self.decoder, self.head = target_reader, decoder, head

    def decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        memory = self._nothing(batch.size, batch.wanted.device)
        state = self._start(memory)
        vectors = note("decode.inputs", self.target_reader(batch.given.values))  # (B, T, D)
        return self.decoder.unroll(vectors, state), memory

    def begin(self, source: Column, context: Column | None = None) -> SearchState[S]:
        """Read prompts, which are equally long; their last values are read in the first step of the search."""
        state, lines = self._start(self._nothing(source.size, source.device)), Lines(source.size)
        if not source.mask.shape[1]:
            return SearchState(state, lines, None)
        before = Batch.between(source, source).given.values  # START p₁ … pₙ₋₁
        _, state = self.decoder.read(self.target_reader(before), state)
        return SearchState(state, lines, None, source.values[:, -1])

    def decode_from(self, batch: Batch, before: S | None) -> tuple[Tensor, Memory, S]:
        """Decode from a state of an earlier batch, or from the start; also return the state after the batch."""
        memory = self._nothing(batch.size, batch.wanted.device)
        state = self._start(memory)
        state = state if before is None else before
        out, after = self.decoder.read(self.target_reader(batch.given.values), state)
        return out, memory, after

    def start(self, rows: int, device: torch.device) -> S:
        """Return the state before the first symbol."""
        return self._start(self._nothing(rows, device))

    def _start(self, memory: Memory) -> S:
        self.target_reader.begin()
        return self.decoder.start(memory)

    def _nothing(self, rows: int, device: torch.device) -> Memory:
        """Return the memory of a model that reads no source."""
        states = torch.zeros(rows, 0, self.decoder.width, device=device)
        return Memory(states, states.new_zeros(rows, 0, dtype=torch.bool))


def _log_probs(fresh: Emission) -> Tensor:
    """Return the log-probabilities of a choice that nobody else uses."""
    assert isinstance(fresh, Choice)
    logits, compiled = fresh.logits, native.pointwise()
    if compiled is not None and native.is_plain(logits) and logits.is_contiguous():
        return compiled.log_softmax_(logits)
    return fresh.log_probs


class Aligned(Model):
    """An encoder alone, which predicts at every position of the source: for CTC."""

    def __init__(self, source_reader: Reader, encoder: Encoder, head: Head) -> None:
        super().__init__()
        self.source_reader, self.encoder, self.head = source_reader, encoder, head

    def decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        memory = self.encode(batch.source)
        return memory.states, memory

    def frames(self, source: Column) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities of tokens and blank at each position (B, S', V), and which are real (B, S')."""
        memory = self.encode(source)
        emission = self.head(memory.states, memory)
        assert isinstance(emission, Choice)
        return emission.log_probs, memory.mask


class Classifier(Model):
    """An encoder, a pooled summary of what it read, and one label for it."""

    def __init__(
        self,
        source_reader: Reader,
        encoder: Encoder,
        pool: nn.Module,
        head: Head,
        context_reader: ContextReader | None = None,
    ) -> None:
        super().__init__()
        self.source_reader, self.encoder, self.pool, self.head = source_reader, encoder, pool, head
        self.context_reader = context_reader

    def decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        memory = self.encode(batch.source, batch.context)
        return self.pool(memory)[:, None], memory  # (B, 1, D)

    def label(self, source: Column, context: Column | None = None) -> Emission:
        memory = self.encode(source, context)
        return self.head(self.pool(memory)[:, None], memory)


class Tagger(Model):
    """An encoder and a label for each token that it reads.

    `ends` is how many positions at the end of each row have no label: one where END follows the tokens.
    """

    def __init__(self, source_reader: Reader, encoder: Encoder, head: Head, ends: int) -> None:
        super().__init__()
        self.source_reader, self.encoder, self.head, self.ends = source_reader, encoder, head, ends

    def decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        memory = self.encode(batch.source)
        return memory.states[:, : memory.states.shape[1] - self.ends], memory  # (B, T, D)

    def label(self, source: Column, context: Column | None = None) -> Emission:
        memory = self.encode(source)
        return self.head(memory.states[:, : memory.states.shape[1] - self.ends], memory)


class Restorer(Model):
    """An encoder, and a symbol for each position of what it reads that was hidden."""

    def __init__(self, source_reader: Reader, encoder: Encoder, head: Head) -> None:
        super().__init__()
        self.source_reader, self.encoder, self.head = source_reader, encoder, head

    def decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        memory = self.encode(batch.source)
        positions = batch.given.values[..., None].expand(-1, -1, memory.states.shape[-1])
        return memory.states.gather(1, positions), memory  # (B, K, D)

    def label(self, source: Column, context: Column | None = None) -> Emission:
        """Return what may stand at every position."""
        memory = self.encode(source)
        return self.head(memory.states, memory)


class Selector(Model):
    """An encoder that reads document and question, and where in the document a span begins and ends."""

    def __init__(
        self, source_reader: Reader, encoder: Encoder, head: Head, context_reader: ContextReader | None = None
    ) -> None:
        super().__init__()
        self.source_reader, self.encoder, self.head = source_reader, encoder, head
        self.context_reader = context_reader

    def decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        memory = self.encode(batch.source, batch.context)
        return memory.states, memory

    def label(self, source: Column, context: Column | None = None) -> Emission:
        memory = self.encode(source, context)
        return self.head(memory.states, memory)


class Tower(Protocol):
    """Reads a column into one vector a row."""

    alike: bool  # whether a row has the same vector in every batch, to the last bit

    def __call__(self, column: Column) -> Tensor:
        """Return vectors (B, D)."""
        ...


class ScaledHead(Head, Protocol):
    """Compares vectors."""

    def scale(self) -> Tensor:
        """Return 1/τ, by which similarities are multiplied."""
        ...


class Towers(Model):
    """A tower for sources and one for targets, which may be the same; they belong together if vectors are near."""

    head: ScaledHead

    def __init__(self, source_tower: Tower, target_tower: Tower, head: ScaledHead) -> None:
        super().__init__()
        self.source_tower, self.target_tower, self.head = source_tower, target_tower, head

    def decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        vectors = [self.source_tower(batch.source)[:, None], self.target_tower(batch.wanted)[:, None]]
        if batch.others is not None:
            further = self.target_tower(batch.others)  # (B · H, D)
            vectors.append(further.view(batch.size, -1, further.shape[-1]))
        out = torch.cat(vectors, dim=1)  # (B, 2 + H, D)
        return out, Memory(out, out.new_ones(out.shape[:2], dtype=torch.bool))

    def tower(self, role: str) -> Tower:
        """Return the tower of sources or targets."""
        return self.source_tower if role == "source" else self.target_tower
