"""The model is one sentence: head(decode(bridge(encode(x)), y)); for CTC it is head(encode(x))."""

# B lines · S source length · N hypotheses · V symbols

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic

import torch
from torch import Tensor, nn

from weft.core import native
from weft.core.kinds import Batch, Decoder, Emission, Encoder, Head, Memory, S
from weft.core.lines import Lines
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

    head: Head

    def forward(self, batch: Batch) -> Emission:
        return self.head(*self.decode(batch))

    def decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        """Run everything but the head; return outputs (B, T, D) and the memory."""
        raise NotImplementedError

    @property
    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())


class Seq2Seq(Model, Generic[S]):
    """Any encoder, bridge, decoder and head, trained on whole batches and searched step by step.

    When `prompted`, the first token of the source is not read by the encoder: the decoder reads it instead of START.
    """

    def __init__(
        self, encoder: Encoder, bridge: nn.Module, decoder: Decoder[S], head: Head, prompted: bool = False
    ) -> None:
        super().__init__()
        self.encoder, self.bridge, self.decoder, self.head, self.prompted = encoder, bridge, decoder, head, prompted

    def decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        given = batch.given
        if self.prompted:
            given = torch.cat([batch.source[:, :1], given[:, 1:]], dim=1)
        memory = self._read(batch.source, batch.source_mask)
        return self.decoder.unroll(given, self.decoder.start(memory)), memory

    def begin(self, source: Tensor, mask: Tensor) -> SearchState[S]:
        memory = self._read(source, mask)
        prompt = source[:, 0] if self.prompted else None
        lines = Lines(source.shape[0])
        return SearchState(self.decoder.start(memory), lines, memory if self.head.sees_source else None, prompt)

    def advance(self, y: Tensor, search: SearchState[S]) -> tuple[Tensor, SearchState[S]]:
        if search.prompt is not None:
            y = torch.where(y == START, search.prompt, y)
        out, state = self.decoder.step(y, search.state)
        log_probs = _log_probs(self.head(search.lines.fold(out[:, None]), search.memory))
        return search.lines.unfold(log_probs)[:, 0], replace(search, state=state)  # (N, V)

    def _read(self, source: Tensor, mask: Tensor) -> Memory:
        first = 1 if self.prompted else 0
        memory: Memory = self.bridge(self.encoder(source[:, first:], mask[:, first:]))
        return memory


def _log_probs(fresh: Emission) -> Tensor:
    """Return the log-probabilities of an emission that nobody else uses."""
    logits, compiled = fresh.logits, native.pointwise()
    if compiled is not None and native.is_plain(logits) and logits.is_contiguous():
        return compiled.log_softmax_(logits)
    return fresh.log_probs


class Aligned(Model):
    """An encoder alone, which predicts at every position of the source: for CTC."""

    def __init__(self, encoder: Encoder, head: Head) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def decode(self, batch: Batch) -> tuple[Tensor, Memory]:
        memory = self.encoder(batch.source, batch.source_mask)
        return memory.states, memory

    def frames(self, source: Tensor, mask: Tensor) -> Tensor:
        """Return the log-probabilities of tokens and blank at each position (B, S, V)."""
        memory = self.encoder(source, mask)
        return self.head(memory.states, memory).log_probs
