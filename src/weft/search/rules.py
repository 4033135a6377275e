"""What a hypothesis may not say next: pure functions on log-probabilities, the same for every search."""

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
    """What holds for every output: the first id of text (marks are not written), a forced prefix, no n-gram twice.

    `joining` are symbols that would change the prefix if they followed it, as an accent does.
    """

    first_symbol: int = 4
    prefix: tuple[int, ...] = ()
    no_repeat: int = 0
    joining: tuple[int, ...] = ()

    def are_plain(self, place: int, limits: Tensor) -> bool:
        """Whether at this place nothing is forbidden but marks and specials other than END."""
        free = place > len(self.prefix) or (place == len(self.prefix) and not self.joining)
        return free and not self.no_repeat and not bool((limits <= place).any())

    def apply(self, log_probs: Tensor, written: Tensor, limits: Tensor) -> Tensor:
        """Log-probabilities (N, V) after `written` (N, t), with what is forbidden at −∞; `limits` (N,): the most."""
        place = written.shape[1]
        if place < len(self.prefix):
            return only(log_probs, self.prefix[place])
        log_probs = forbid(log_probs, self.first_symbol)
        if self.joining and place == len(self.prefix):
            log_probs[:, list(self.joining)] = NEVER
        if self.no_repeat:
            log_probs = without_repeats(log_probs, written, self.no_repeat)
        full = limits <= place
        return torch.where(full[:, None], only(log_probs, END), log_probs) if bool(full.any()) else log_probs


def forbid(log_probs: Tensor, first_symbol: int) -> Tensor:
    """Specials but END, and marks, are never written."""
    allowed = log_probs.clone()  # and two strips: several times as fast as a mask over all
    allowed[:, :END] = NEVER
    allowed[:, END + 1 : first_symbol] = NEVER
    return allowed


def forbid_blanked(log_probs: Tensor, first_symbol: int) -> Tensor:
    """Frames of a CTC model (…, V): specials but the blank, and marks, are never written; END is none either."""
    hidden = torch.zeros(log_probs.shape[-1], dtype=torch.bool, device=log_probs.device)
    hidden[PAD + 1 : first_symbol] = True
    return log_probs.masked_fill(hidden, NEVER)


def only(log_probs: Tensor, symbol: int) -> Tensor:
    """Everything but one symbol forbidden; that keeps its log-probability, or gets a finite one."""
    kept = torch.full_like(log_probs, NEVER)
    kept[:, symbol] = log_probs[:, symbol].clamp(min=-1e4)
    return kept


def without_repeats(log_probs: Tensor, written: Tensor, size: int) -> Tensor:
    """No n-gram of `size` symbols twice within a hypothesis."""
    if written.shape[1] < size:
        return log_probs
    log_probs = log_probs.clone()
    for row, ids in enumerate(written.tolist()):
        log_probs[row, _completions(ids, size)] = NEVER
    return log_probs


def _completions(ids: Sequence[int], size: int) -> list[int]:
    """The symbols that would complete an n-gram that `ids` already holds."""
    tail = list(ids[len(ids) - size + 1 :])
    return [ids[i + size - 1] for i in range(len(ids) - size + 1) if list(ids[i : i + size - 1]) == tail]


assert max(PAD, UNKNOWN, START) < END, "forbid() hides the ids below END"
