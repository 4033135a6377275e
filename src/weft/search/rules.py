"""Which symbols may not come next in a hypothesis: pure functions on log-probabilities, the same for every search."""

# N hypotheses · V symbols

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.pair import END, PAD, START, UNKNOWN

NEVER = float("-inf")


@dataclass(frozen=True)
class Rules:
    """Rules for every output: the first id of text (marks are not written), a forced prefix, no n-gram twice.

    `joining` are symbols that would change the prefix if they followed it, as an accent does.
    """

    first_symbol: int = 4
    prefix: tuple[int, ...] = ()
    no_repeat: int = 0
    joining: tuple[int, ...] = ()
    endless: bool = False  # whether an output ends at its limit, and never before

    def are_plain(self, position: int, limits: Tensor) -> bool:
        """Return whether at this position only marks and specials other than END are forbidden."""
        free = position > len(self.prefix) or (position == len(self.prefix) and not self.joining)
        return free and not self.no_repeat and not self.endless and not bool((limits <= position).any())

    def apply(self, log_probs: Tensor, written: Tensor, limits: Tensor) -> Tensor:
        """Set what is forbidden after `written` (N, t) to −∞ in log-probabilities (N, V); `limits` (N,): the most."""
        position = written.shape[1]
        if position < len(self.prefix):
            return only(log_probs, self.prefix[position])
        log_probs = forbid(log_probs, self.first_symbol)
        if self.joining and position == len(self.prefix):
            log_probs[:, list(self.joining)] = NEVER
        if self.no_repeat:
            log_probs = without_repeats(log_probs, written, self.no_repeat)
        full = limits <= position
        if self.endless:
            allowed = log_probs.clone()
            allowed[:, END] = NEVER
            return torch.where(full[:, None], only(log_probs, END), allowed)
        return torch.where(full[:, None], only(log_probs, END), log_probs) if bool(full.any()) else log_probs


def forbid(log_probs: Tensor, first_symbol: int) -> Tensor:
    """Forbid marks, and specials other than END."""
    allowed = log_probs.clone()  # and two strips: several times as fast as a mask over all
    allowed[:, :END] = NEVER
    allowed[:, END + 1 : first_symbol] = NEVER
    return allowed


def forbid_blanked(log_probs: Tensor, first_symbol: int) -> Tensor:
    """Forbid marks, and specials other than the blank (END too), in the frames of a CTC model (…, V)."""
    hidden = torch.zeros(log_probs.shape[-1], dtype=torch.bool, device=log_probs.device)
    hidden[PAD + 1 : first_symbol] = True
    return log_probs.masked_fill(hidden, NEVER)


def only(log_probs: Tensor, symbol: int) -> Tensor:
    """Forbid everything but one symbol, which keeps its log-probability, or gets a finite one."""
    kept = torch.full_like(log_probs, NEVER)
    kept[:, symbol] = log_probs[:, symbol].clamp(min=-1e4)
    return kept


def without_repeats(log_probs: Tensor, written: Tensor, size: int) -> Tensor:
    """Forbid what would repeat an n-gram of `size` symbols within a hypothesis."""
    if written.shape[1] < size:
        return log_probs
    log_probs = log_probs.clone()
    for row, ids in enumerate(written.tolist()):
        log_probs[row, _completions(ids, size)] = NEVER
    return log_probs


def _completions(ids: Sequence[int], size: int) -> list[int]:
    """Return the symbols that would complete an n-gram that `ids` already holds."""
    tail = list(ids[len(ids) - size + 1 :])
    return [ids[i + size - 1] for i in range(len(ids) - size + 1) if list(ids[i : i + size - 1]) == tail]


assert max(PAD, UNKNOWN, START) < END, "forbid() hides the ids below END"
