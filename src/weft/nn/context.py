"""A further sequence that the target depends on: read by the decoder step by step, or attended to with the source."""

# B batch · S source length · C context length · T target length · D width

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from weft.core.kinds import Column, Encoder, Memory, Reader, StepReader
from weft.core.masks import reverse_real
from weft.core.pair import PAD
from weft.core.trace import scope


def at_steps(beside: Tensor, place: int, length: int) -> Tensor:
    """Return the vectors of steps `place` … (B, length, D); zeros where the context is over."""
    part = beside[:, place : place + length]
    return part if part.shape[1] == length else pad(part, (0, 0, 0, length - part.shape[1]))


class ContextUse(nn.Module):
    """How a context is used. By default nothing changes; each kind of use replaces the method that it needs."""

    def join(self, vectors: Tensor, mask: Tensor, context: Column) -> tuple[Tensor, Tensor]:
        """Return what the encoder reads: the vectors of the source (B, S, D) and their mask, and what is added."""
        return vectors, mask

    def extend(self, memory: Memory, context: Column) -> Memory:
        """Return the memory of the source with what the context adds."""
        return memory

    def steps(self, context: Column) -> Tensor | None:
        """Return what the decoder reads of the context at each step (B, T, D)."""
        return None


class EncodedContext(ContextUse):
    """A context with an encoder of its own."""

    def __init__(self, reader: Reader, encoder: Encoder) -> None:
        super().__init__()
        self.reader, self.encoder = reader, encoder

    def encoded(self, context: Column) -> Memory:
        self.reader.begin()
        read = Column(reverse_real(context.values, context.mask), context.mask) if self.encoder.reverse else context
        with scope("context"):
            return self.encoder(*self.reader.read(read))


class StepContext(ContextUse):
    """At step t the decoder reads the context's value t, and no later one."""

    def __init__(self, reader: StepReader) -> None:
        super().__init__()
        self.reader = reader

    def steps(self, context: Column) -> Tensor | None:
        self.reader.begin()
        return self.reader(context.values)


class AttendedContext(EncodedContext):
    """The states of the context are appended to those of the source."""

    def extend(self, memory: Memory, context: Column) -> Memory:
        more = self.encoded(context)
        states, mask = torch.cat([memory.states, more.states], dim=1), torch.cat([memory.mask, more.mask], dim=1)
        copied = memory.source
        if copied is None or copied.shape != memory.mask.shape:  # vectors, or fewer states than symbols
            return replace(memory, states=states, mask=mask, source=None)
        not_copied = copied.new_full(more.mask.shape, PAD)  # heads copy from the source alone
        return replace(memory, states=states, mask=mask, source=torch.cat([copied, not_copied], dim=1))
