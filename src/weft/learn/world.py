"""One process or several that train one model together (`torchrun --nproc-per-node 2 -m weft train …`).

Every process has the whole model and a slice of each batch's rows. Gradients are summed, then divided once by the
number of target symbols in the whole batch, so that the result is that of one process up to the order of additions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from weft.core.errors import UserError

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process writes files and speaks to the user."""
        return self.rank == 0

    def sum(self, numbers: Tensor) -> Tensor:
        if self.size > 1:
            dist.all_reduce(numbers)
        return numbers

    def sum_gradients(self, model: nn.Module) -> None:
        """Add up the gradients of all processes, as one message."""
        if self.size == 1:
            return
        parameters = list(model.parameters())
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = self.sum(torch.cat([g.flatten() for g in grads]))
        for parameter, part in zip(parameters, torch.split(flat, [p.numel() for p in parameters])):
            parameter.grad = part.view_as(parameter).clone()
        for statistic in (p for p in parameters if not p.requires_grad):
            statistic.copy_(self.sum(statistic.detach().clone()) / self.size)

    def agree(self, value: T) -> T:
        """The first process's value, everywhere."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def gather(self, value: T) -> list[T]:
        """Every process's value, in order of rank."""
        if self.size == 1:
            return [value]
        values: list[T] = [value] * self.size
        dist.all_gather_object(values, value)
        return values

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """The first process goes through the block before the others: what it leaves in files they only read."""
        if self.size > 1 and not self.first:
            dist.barrier()
        yield
        if self.size > 1 and self.first:
            dist.barrier()

    def any(self, flag: bool) -> bool:
        return flag if self.size == 1 else any(self.gather(flag))


def pick_device(name: str) -> torch.device:
    """`auto` is the best there is; a device that is not there is refused."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(kind for kind, found in there.items() if found)
    if not there[name]:
        raise UserError(
            f"this machine has no {name} device that torch can use", "setting train.device", "use train.device=auto"
        )
    return torch.device(name)


@contextmanager
def join_world(device: str) -> Iterator[World]:
    """The processes that torchrun started, or this one alone."""
    size, rank, local = (int(os.environ.get(k, d)) for k, d in (("WORLD_SIZE", 1), ("RANK", 0), ("LOCAL_RANK", 0)))
    chosen = pick_device(device)
    if chosen.type == "cuda":
        chosen = torch.device("cuda", local)
        torch.cuda.set_device(chosen)
    if size == 1 or dist.is_initialized():
        yield World(rank, size, chosen)
        return
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield World(rank, size, chosen)
    finally:
        dist.destroy_process_group()
