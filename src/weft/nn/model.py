"""The model is one sentence: head(decode(bridge(encode(read(x))), read(y))); for CTC it is head(encode(read(x)))."""

# B lines · S source length · N hypotheses · V symbols

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic

import torch
from torch import Tensor, nn

from weft.core import native
from weft.core.emissions import Choice
from weft.core.kinds import Batch, Column, ContextReader, Decoder, Emission, Encoder, Head, Memory, Reader, S
from weft.core.lines import Lines
from weft.core.masks import reverse_real
from weft.core.pair import START


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
        values = reverse_real(source.values, source.mask) if self.encoder.reverse else source.values
        memory = replace(self.encoder(self.source_reader(values), source.mask), source=source.values)
        if self.context_reader is None:
            return memory
        assert context is not None, "this model reads a context"
        return self.context_reader.extend(memory, context)

    @property
    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())


class Seq2Seq(Model, Generic[S]):
    """Any readers, encoder, bridge, decoder and head, trained on whole batches and searched step by step.

    When `prompted`, the first token of the source is not read by the encoder: the decoder reads it instead of START.
    """

    def __init__(
        self,
        source_reader: Reader,
        encoder: Encoder,
        bridge: nn.Module,
        target_reader: Reader,
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
        return self.decoder.unroll(self.target_reader(given, state.place), state), memory

    def begin(self, source: Column, context: Column | None = None) -> SearchState[S]:
        memory = self.read(source, context)
        prompt = source.values[:, 0] if self.prompted else None
        lines = Lines(source.size)
        state = self._start(memory, context)
        return SearchState(state, lines, memory if self.head.sees_source else None, prompt)

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
        """Read the last values and return the decoder's output (N, 1, D)."""
        if search.prompt is not None:
            y = torch.where(y == START, search.prompt, y)
        x = self.target_reader(y[:, None], search.state.place)[:, 0]  # (N, D)
        out, state = self.decoder.step(x, search.state)
        return out[:, None], replace(search, state=state)

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

    def frames(self, source: Column) -> Tensor:
        """Return the log-probabilities of tokens and blank at each position (B, S, V)."""
        memory = self.encode(source)
        emission = self.head(memory.states, memory)
        assert isinstance(emission, Choice)
        return emission.log_probs


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
