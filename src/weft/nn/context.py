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


class StepContext(nn.Module):
    """At step t the decoder reads the context's value t, and no later one."""

    def __init__(self, reader: StepReader) -> None:
        super().__init__()
        self.reader = reader

    def join(self, vectors: Tensor, mask: Tensor, context: Column) -> tuple[Tensor, Tensor]:
        return vectors, mask

    def extend(self, memory: Memory, context: Column) -> Memory:
        return memory

    def steps(self, context: Column) -> Tensor | None:
        self.reader.begin()
        return self.reader(context.values)


class AttendedContext(nn.Module):
    """The context has an encoder of its own, whose states are appended to those of the source."""

    def __init__(self, reader: Reader, encoder: Encoder) -> None:
        super().__init__()
        self.reader, self.encoder = reader, encoder

    def steps(self, context: Column) -> Tensor | None:
        return None

    def join(self, vectors: Tensor, mask: Tensor, context: Column) -> tuple[Tensor, Tensor]:
        return vectors, mask

    def extend(self, memory: Memory, context: Column) -> Memory:
        self.reader.begin()
        read = Column(reverse_real(context.values, context.mask), context.mask) if self.encoder.reverse else context
        with scope("context"):
            more = self.encoder(*self.reader.read(read))
        states, mask = torch.cat([memory.states, more.states], dim=1), torch.cat([memory.mask, more.mask], dim=1)
        copied = memory.source
        if copied is None or copied.shape != memory.mask.shape:  # vectors, or fewer states than symbols
            return replace(memory, states=states, mask=mask, source=None)
        not_copied = copied.new_full(more.mask.shape, PAD)  # heads copy from the source alone
        return replace(memory, states=states, mask=mask, source=torch.cat([copied, not_copied], dim=1))
