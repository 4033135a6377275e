"""Whether a model that is to be trained fits into the memory of the machine, told before it is made."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch import nn

from weft.core.errors import UserError, WeftError
from weft.settings import flatten
from weft.spec import Spec

BYTES = 20  # of memory for each parameter: itself, its gradient, two moments and the running average


def check_room(make: Callable[[], nn.Module], spec: Spec, device: torch.device) -> None:
    """Refuse a model that cannot fit even if nothing else is in memory. (Batches need room, too: this is the least.)"""
    with torch.device("meta"):  # shapes without numbers
        parameters = sum(p.numel() for p in make().parameters())
    needed, there = parameters * BYTES, _memory(device)
    if needed > there:
        sizes = [f"{k}={v}" for k, v in flatten(spec.model_dump()) if k.endswith((".width", ".inner", ".layers"))]
        raise UserError(
            f"a model of {parameters:,} parameters needs {needed / 1e9:,.1f} GB of memory to train, "
            f"and there are {there / 1e9:,.1f} GB",
            f"settings {', '.join(s for s in sizes if not s.startswith('search.'))}",
            "choose smaller widths or fewer layers, such as --set encoder.width=256",
        )


def explain_room(error: Exception, spec: Spec) -> None:
    """Say it in three parts, if training ended because a batch did not fit."""
    said = str(error).lower()
    if isinstance(error, RuntimeError) and ("out of memory" in said or "can't allocate memory" in said):
        tokens = spec.train.batch_tokens
        raise WeftError(
            f"the memory is not enough to learn from {tokens:,} symbols at a time",
            f"setting train.batch_tokens={tokens}",
            f"lower it: --set train.batch_tokens={max(16, tokens // 2)}",
        ) from error


def _memory(device: torch.device) -> int:
    """The bytes that the device has, used or not."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
