"""A further sequence that the target depends on: read by the decoder step by step, or attended to with the source."""

# B batch · S source length · C context length · T target length · D width

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from weft.core.kinds import Column, Encoder, Memory, Reader
from weft.core.masks import reverse_real


def at_steps(beside: Tensor, place: int, length: int) -> Tensor:
    """Return the vectors of steps `place` … (B, length, D); zeros where the context is over."""
    part = beside[:, place : place + length]
    return part if part.shape[1] == length else pad(part, (0, 0, 0, length - part.shape[1]))


class StepContext(nn.Module):
    """At step t the decoder reads the context's value t, and no later one."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self.reader = reader

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

    def extend(self, memory: Memory, context: Column) -> Memory:
        self.reader.begin()
        values = reverse_real(context.values, context.mask) if self.encoder.reverse else context.values
        more = self.encoder(self.reader(values), context.mask)
        states, mask = torch.cat([memory.states, more.states], dim=1), torch.cat([memory.mask, more.mask], dim=1)
        return replace(memory, states=states, mask=mask, source=None)
