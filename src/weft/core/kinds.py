"""The few kinds of value that the stations of Weft hand to each other, and the protocols they speak.

Everything is batch first; masks are True where real; the target is shifted once, in `Batch.between`.
"""

# B batch · S source length · T target length · D width · F features · V symbols · N hypotheses

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from weft.core.noise import Noise
from weft.core.pair import END, PAD, START, Ids


@dataclass(frozen=True)
class Column:
    """Padded sequences of one column: symbol ids (B, S), or vectors (B, S, F) in float32."""

    values: Tensor
    mask: Tensor  # (B, S)

    @classmethod
    def of_ids(cls, rows: Sequence[Ids]) -> Column:
        """Pad rows of ids, each followed by END."""
        return cls(*padded(rows, after=END))

    @classmethod
    def of_labels(cls, rows: Sequence[Ids]) -> Column:
        """Pad rows of labels' ids, with nothing after them."""
        return cls(*_stacked([np.asarray(row, dtype=np.int64) for row in rows]))

    @classmethod
    def of_vectors(cls, rows: Sequence[npt.NDArray[Any]]) -> Column:
        """Pad rows of vectors (S, F) with zeros."""
        return cls(*_stacked([np.asarray(row, dtype=np.float32) for row in rows]))

    @classmethod
    def of_nothing(cls, rows: int) -> Column:
        """Return so many empty rows, for a role that has no column."""
        return cls(torch.zeros(rows, 0, dtype=torch.long), torch.zeros(rows, 0, dtype=torch.bool))

    @property
    def size(self) -> int:
        """How many rows there are."""
        return self.mask.shape[0]

    @property
    def real(self) -> int:
        """How many real positions there are in all rows."""
        return int(self.mask.sum())

    @property
    def device(self) -> torch.device:
        return self.mask.device

    def to(self, device: torch.device) -> Column:
        return Column(self.values.to(device), self.mask.to(device))

    def rows(self, chosen: slice | Tensor) -> Column:
        """Return only some of the rows."""
        return Column(self.values[chosen], self.mask[chosen])


@dataclass(frozen=True)
class Batch:
    """Rows of data as columns. `given` is what the decoder reads, `wanted` what it should predict."""

    source: Column
    given: Column  # START y₁ … yₙ; for vectors, zeros y₁ … yₙ₋₁; for hidden symbols, their positions in the source
    wanted: Column  # y₁ … yₙ END; for vectors, y₁ … yₙ
    context: Column | None = None
    others: Column | None = None  # further targets, as many for each row, which are wrong

    @classmethod
    def of(cls, sources: Sequence[Ids], targets: Sequence[Ids]) -> Batch:
        """Pad rows of ids, each followed by END, and shift the targets."""
        return cls.between(Column.of_ids(sources), Column.of_ids(targets))

    @classmethod
    def between(cls, source: Column, wanted: Column, context: Column | None = None) -> Batch:
        """Shift the target: the only place where that is done."""
        values, mask = wanted.values, wanted.mask
        symbols = values.dim() == 2
        first = torch.full_like(values[:, :1], START if symbols else 0)
        given = torch.cat([first, values[:, :-1]], dim=1)
        hidden = ~mask if symbols else ~mask[..., None]
        return cls(source, Column(given.masked_fill(hidden, PAD if symbols else 0), mask), wanted, context)

    def begun_with(self, values: Sequence[int]) -> Batch:
        """Return the batch with other symbols than START as what the decoder reads first, one for each row."""
        given = self.given.values.clone()
        given[:, 0] = torch.tensor(values)
        return replace(self, given=Column(given, self.given.mask))

    @property
    def size(self) -> int:
        return self.source.size

    @property
    def target_tokens(self) -> int:
        """How many real target positions there are; of symbols, END included."""
        return self.wanted.real

    def to(self, device: torch.device) -> Batch:
        context = None if self.context is None else self.context.to(device)
        others = None if self.others is None else self.others.to(device)
        return Batch(self.source.to(device), self.given.to(device), self.wanted.to(device), context, others)

    def rows(self, chosen: slice | Tensor) -> Batch:
        """Return only some of the rows; further targets stay, all of them."""
        context = None if self.context is None else self.context.rows(chosen)
        return Batch(self.source.rows(chosen), self.given.rows(chosen), self.wanted.rows(chosen), context, self.others)


def padded(rows: Sequence[Ids], after: int) -> tuple[Tensor, Tensor]:
    """Rows of ids, each followed by `after`, as one PAD-filled matrix and its mask."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    places = np.arange(1 + int(lengths.max()))
    ids = np.full((len(rows), len(places)), PAD, dtype=np.int64)
    ids[places < lengths[:, None]] = np.concatenate(rows)  # in one go: a call for each row takes twenty times as long
    ids[np.arange(len(rows)), lengths] = after
    return torch.from_numpy(ids), torch.from_numpy(places <= lengths[:, None])


def _stacked(rows: Sequence[npt.NDArray[Any]]) -> tuple[Tensor, Tensor]:
    """Rows of equally wide values, padded with zeros (which is PAD), and the mask."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    real = np.arange(int(lengths.max())) < lengths[:, None]
    values = np.zeros((*real.shape, *rows[0].shape[1:]), dtype=rows[0].dtype)
    values[real] = np.concatenate(rows)
    return torch.from_numpy(values), torch.from_numpy(real)


@dataclass(frozen=True)
class Memory:
    """What an encoder leaves behind. `final` holds one summary a layer, or nothing."""

    states: Tensor  # (B, S, D)
    mask: Tensor  # (B, S)
    final: tuple[Tensor, ...] = ()  # each (B, D)
    source: Tensor | None = None  # (B, S) ids
    cells: tuple[
        Tensor, ...
    ] = ()  # each (B, D): the cell states of an LSTM, one a layer, if the bridge hands them over

    def select(self, rows: Tensor | slice) -> Memory:
        return replace(
            self,
            states=self.states[rows],
            mask=self.mask[rows],
            final=tuple(f[rows] for f in self.final),
            source=None if self.source is None else self.source[rows],
            cells=tuple(c[rows] for c in self.cells),
        )


S = TypeVar("S", bound="State")


class State(Protocol):
    """All that a decoder remembers between two steps, as a value."""

    @property
    def place(self) -> int:
        """The position of the next step."""
        ...

    def select(self: S, rows: Tensor) -> S:
        """Reorder, repeat or drop hypotheses."""
        ...


class Emission(Protocol):
    """What a model predicts at each step, as a distribution. The kinds are in `core/emissions.py`."""

    def nll(self, wanted: Column) -> Tensor:
        """Return −log p of what is wanted at each step (B, T); 0 where it is not real."""
        ...

    def best(self) -> Tensor:
        """Return what the decoder reads next: ids (B, T) or vectors (B, T, F)."""
        ...

    def draw(self, noise: Noise) -> Tensor:
        """Return the same, drawn at random."""
        ...

    def mean(self, others: Sequence[Self]) -> Self:
        """Return what several models predict together."""
        ...

    def scaled(self, unit: Tensor) -> Self:
        """Return the same of numbers in other units, by feature (F,); symbols have none."""
        ...

    def stops(self) -> Tensor:
        """Return whether each step is likely to be the last (B,), where the model has learned to stop."""
        ...


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
    def row(self) -> tuple[int, ...]:
        """What a side decodes."""
        return self.ids

    @property
    def log_prob(self) -> float:
        return sum(self.token_scores)


@dataclass(frozen=True)
class Rollout:
    """One output of numbers or notes: encoded vectors (T, F), the log-probability of each step, and their sum."""

    values: npt.NDArray[np.float32]
    token_scores: tuple[float, ...]
    score: float

    @property
    def row(self) -> npt.NDArray[np.float32]:
        """What a side decodes."""
        return self.values

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


class Reader(Protocol):
    """From a column to the vectors that an encoder reads, with positions and dropout."""

    width: int

    def begin(self) -> None:
        """Begin a new sequence, which ends what lasts over the steps of the one before."""
        ...

    def read(self, column: Column) -> tuple[Tensor, Tensor]:
        """Return vectors (B, S', D) and their mask (B, S'), which may be fewer than the positions of the column."""
        ...


class StepReader(Reader, Protocol):
    """One that keeps every position, so that a decoder can read values one after the other."""

    def __call__(self, values: Tensor, start: int = 0) -> Tensor:
        """Return the vectors (B, T, D) of ids (B, T) or numbers (B, T, F), the first of which is at `start`."""
        ...


class ContextReader(Protocol):
    """How a model reads a further column."""

    def join(self, vectors: Tensor, mask: Tensor, context: Column) -> tuple[Tensor, Tensor]:
        """Return what the encoder reads: the vectors of the source, and those of the context if it reads both."""
        ...

    def extend(self, memory: Memory, context: Column) -> Memory:
        """Return the memory with what is attended to of the context."""
        ...

    def steps(self, context: Column) -> Tensor | None:
        """Return a vector for each step of the target (B, T, D), if it is read step by step."""
        ...


class Encoder(Protocol):
    width: int

    @property
    def reverse(self) -> bool:
        """Whether it reads from the end: then its vectors are those of the reversed source."""
        ...

    def __call__(self, x: Tensor, mask: Tensor) -> Memory: ...


class Decoder(Protocol[S]):
    """A decoder of any family. `unroll` equals repeated `step`, and is the fast path."""

    width: int

    def start(self, memory: Memory, beside: Tensor | None = None) -> S:
        """Begin to write; `beside` (B, T, D) has a further vector for each step, where there is a context of steps."""
        ...

    def step(self, x: Tensor, state: S) -> tuple[Tensor, S]:
        """Read one vector (N, D); return the output (N, D) and the state after it."""
        ...

    def unroll(self, x: Tensor, state: S) -> Tensor:
        """Read all vectors (B, T, D); return the outputs (B, T, D)."""
        ...

    def read(self, x: Tensor, state: S) -> tuple[Tensor, S]:
        """Do the same, and also return the state after the last vector."""
        ...


class Head(Protocol):
    symbols: int  # how many it gives scores to
    sees_source: bool  # whether it needs the memory at every step

    def __call__(self, out: Tensor, memory: Memory | None) -> Emission: ...


class Objective(Protocol):
    def __call__(self, emission: Any, batch: Batch) -> Loss: ...


@runtime_checkable
class Aligner(Protocol):
    """A model that predicts at each position of the source, for CTC."""

    def frames(self, source: Column) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the symbols, PAD being the blank (B, S', V), and their mask (B, S')."""
        ...


@runtime_checkable
class Labeller(Protocol):
    """A model that predicts everything at once: a label for each row, or for each token of it."""

    def label(self, source: Column, context: Column | None = None) -> Emission:
        """Return the emission of one step (B, 1, …), or of each source token (B, S, …)."""
        ...


class Emitter(Protocol[S]):
    """What feeding and roll-outs need: sequences begin from sources and grow by one value at a time."""

    def begin(self, source: Column, context: Column | None = None) -> S: ...

    def emit(self, y: Tensor, state: S) -> tuple[Emission, S]:
        """From the last values, ids (N,) or vectors (N, F), to the emission of one step (N, 1, …) and the new state."""
        ...


@runtime_checkable
class AlignedStepper(Protocol[S]):
    """A model with CTC beside its decoder."""

    def begin_aligned(self, source: Column, context: Column | None = None) -> tuple[S, tuple[Tensor, Tensor]]:
        """Begin a search; also return the log-probabilities of CTC (B, S', V), PAD being the blank, and the mask."""
        ...

    def advance(self, y: Tensor, state: S) -> tuple[Tensor, S]: ...


class Stepper(Protocol[S]):
    """What a search needs: hypotheses begin from sources and grow by one symbol at a time."""

    def begin(self, source: Column, context: Column | None = None) -> S: ...

    def advance(self, y: Tensor, state: S) -> tuple[Tensor, S]:
        """The last symbols (N,) and the state to log-probabilities of the next (N, V) and the new state."""
        ...
