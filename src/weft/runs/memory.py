"""Memory: whether a model fits into the machine's, checked before it is built, and what to do where a batch did not."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch import nn

from weft.core.errors import UserError, WeftError
from weft.settings import flatten
from weft.spec import Spec

BYTES = 20  # of memory for each parameter: itself, its gradient, two moments and the running average


def check_memory_fits(make: Callable[[], nn.Module], spec: Spec, device: torch.device) -> None:
    """Refuse a model that cannot fit even if nothing else is in memory (batches need memory, too)."""
    with torch.device("meta"):  # shapes without numbers
        parameters = sum(p.numel() for p in make().parameters())
    needed, there = parameters * BYTES, _memory(device)
    if needed > there:
        sizes = [f"{k}={v}" for k, v in flatten(spec.model_dump()) if k.endswith((".width", ".inner", ".layers"))]
        raise UserError(
            f"a model of {parameters:,} parameters needs {needed / 1e9:,.1f} GB of memory to train, but there are only "
            f"{there / 1e9:,.1f} GB",
            f"settings {', '.join(s for s in sizes if not s.startswith('search.'))}",
            "choose smaller widths or fewer layers, such as --set encoder.width=256",
        )


def explain_out_of_memory(error: Exception, spec: Spec) -> None:
    """Raise an error in three parts if training ended because a batch did not fit."""
    message = str(error).lower()
    if isinstance(error, RuntimeError) and ("out of memory" in message or "can't allocate memory" in message):
        tokens = spec.train.batch_tokens
        raise WeftError(
            f"there is not enough memory for batches of {tokens:,} tokens",
            f"setting train.batch_tokens={tokens}",
            f"lower it: --set train.batch_tokens={max(16, tokens // 2)}",
        ) from error


def _memory(device: torch.device) -> int:
    """Return the bytes that the device has, used or not."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
