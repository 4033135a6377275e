"""The few kinds of value that the stations of Weft hand to each other, and the protocols they speak.

Everything is batch first; masks are True where real; the target is shifted once, in `Batch.of`.
"""

# B batch · S source length · T target length · D width · V symbols · N hypotheses

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from weft.core.pair import END, PAD, START, Ids


@dataclass(frozen=True)
class Batch:
    """Some pairs as padded symbol ids. `given` is what the decoder reads, `wanted` what it should say."""

    source: Tensor  # (B, S)
    source_mask: Tensor  # (B, S)
    given: Tensor  # (B, T): START y₁ … yₙ
    wanted: Tensor  # (B, T): y₁ … yₙ END
    target_mask: Tensor  # (B, T)

    @classmethod
    def of(cls, sources: Sequence[Ids], targets: Sequence[Ids]) -> Batch:
        """Pad, and shift the target: the only place where that is done."""
        source, source_mask = padded(sources, after=END)
        wanted, target_mask = padded(targets, after=END)
        given = torch.cat([torch.full_like(wanted[:, :1], START), wanted[:, :-1]], dim=1)
        return cls(source, source_mask, given.masked_fill(~target_mask, PAD), wanted, target_mask)

    @property
    def size(self) -> int:
        return self.source.shape[0]

    @property
    def target_tokens(self) -> int:
        """How many real target symbols there are, END included."""
        return int(self.target_mask.sum())

    def to(self, device: torch.device) -> Batch:
        return Batch(*(x.to(device) for x in self._tensors))

    def rows(self, some: slice) -> Batch:
        """Only some of the pairs."""
        return Batch(*(x[some] for x in self._tensors))

    @property
    def _tensors(self) -> tuple[Tensor, ...]:
        return self.source, self.source_mask, self.given, self.wanted, self.target_mask


def padded(rows: Sequence[Ids], after: int) -> tuple[Tensor, Tensor]:
    """Rows of ids, each followed by `after`, as one PAD-filled matrix and its mask."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    places = np.arange(1 + int(lengths.max()))
    ids = np.full((len(rows), len(places)), PAD, dtype=np.int64)
    ids[places < lengths[:, None]] = np.concatenate(rows)  # in one go: a call for each row takes twenty times as long
    ids[np.arange(len(rows)), lengths] = after
    return torch.from_numpy(ids), torch.from_numpy(places <= lengths[:, None])


@dataclass(frozen=True)
class Memory:
    """What an encoder leaves behind. `final` holds one summary a layer, or nothing."""

    states: Tensor  # (B, S, D)
    mask: Tensor  # (B, S)
    final: tuple[Tensor, ...] = ()  # each (B, D)
    source: Tensor | None = None  # (B, S) ids

    def select(self, rows: Tensor | slice) -> Memory:
        return replace(
            self,
            states=self.states[rows],
            mask=self.mask[rows],
            final=tuple(f[rows] for f in self.final),
            source=None if self.source is None else self.source[rows],
        )


S = TypeVar("S", bound="State")


class State(Protocol):
    """All that a decoder remembers between two steps, as a value."""

    def select(self: S, rows: Tensor) -> S:
        """Reorder, repeat or drop hypotheses."""
        ...


@dataclass(frozen=True)
class Emission:
    """Unnormalised scores over the target symbols, one row a step."""

    logits: Tensor  # (…, V)

    @property
    def log_probs(self) -> Tensor:
        return torch.log_softmax(self.logits.float(), dim=-1)


@dataclass(frozen=True)
class Loss:
    """A sum and a count. They are added up anywhere and divided once, in the loop."""

    total: Tensor
    count: Tensor


@dataclass(frozen=True)
class Hypothesis:
    """One output: symbol ids without END, their log-probabilities (END's included), and the score it was ranked by."""

    ids: tuple[int, ...]
    token_scores: tuple[float, ...]
    score: float

    @property
    def log_prob(self) -> float:
        return sum(self.token_scores)


class Cell(Protocol):
    """One step of a recurrence: the paper's equations and nothing else. Time, layers and padding belong to `unroll`."""

    width: int

    def start(self, rows: int) -> tuple[Tensor, ...]:
        """The state before the first symbol: zeros."""
        ...

    def begin(self, summary: Tensor) -> tuple[Tensor, ...]:
        """A state that holds a given summary (B, D)."""
        ...

    def inputs(self, x: Tensor) -> Tensor:
        """The part of the equations that x alone decides, for any leading shape: computed for all steps at once."""
        ...

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The rest: `inputs` of one step and the state before it to (h, the state after it)."""
        ...


class Score(Protocol):
    """How well each query fits each key: (B, T, D), (B, S, D) → (B, T, S)."""

    def keys(self, keys: Tensor) -> Tensor:
        """What depends on the keys alone, computed once."""
        ...

    def __call__(self, query: Tensor, keys: Tensor) -> Tensor: ...


class Encoder(Protocol):
    width: int

    def __call__(self, source: Tensor, mask: Tensor) -> Memory: ...


class Decoder(Protocol[S]):
    """A decoder of any family. `unroll` equals repeated `step`, and is the fast path."""

    width: int

    def start(self, memory: Memory) -> S: ...

    def step(self, y: Tensor, state: S) -> tuple[Tensor, S]: ...

    def unroll(self, y: Tensor, state: S) -> Tensor: ...


class Head(Protocol):
    symbols: int  # how many it gives scores to
    sees_source: bool  # whether it needs the memory at every step

    def __call__(self, out: Tensor, memory: Memory | None) -> Emission: ...


class Objective(Protocol):
    def __call__(self, emission: Emission, batch: Batch) -> Loss: ...


@runtime_checkable
class Aligner(Protocol):
    """A model that says something at each place of the source, for CTC."""

    def frames(self, source: Tensor, mask: Tensor) -> Tensor:
        """Log-probabilities of the symbols, PAD being the blank (B, S, V)."""
        ...


class Stepper(Protocol[S]):
    """What a search needs: hypotheses begin from sources and grow by one symbol at a time."""

    def begin(self, source: Tensor, mask: Tensor) -> S: ...

    def advance(self, y: Tensor, state: S) -> tuple[Tensor, S]:
        """The last symbols (N,) and the state to log-probabilities of the next (N, V) and the new state."""
        ...
