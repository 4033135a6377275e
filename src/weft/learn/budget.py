"""How long training goes on, as a share from 0 to 1 that every schedule is a function of."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from weft.core.errors import UserError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_seconds(text: str) -> float:
    """Return the seconds of `90s`, `10m`, `1.5h` or `1h30m`; a number without a unit is refused."""
    number = text.strip()
    if re.fullmatch(r"\d+(?:\.\d+)?", number):
        todo = f"give the unit: {number}s, {number}m or {number}h"
        raise UserError(f"the budget {number} has no unit", f"--budget {text}", todo)
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", number)
    if not parts or "".join(n + u for n, u in parts) != number:
        raise UserError(f"'{text}' is not a time", f"--budget {text}", "write it like 90s, 10m or 1h30m")
    return checked_seconds(sum(float(n) * UNITS[unit] for n, unit in parts), f"--budget {text}")


def read_seconds(budget: str | float) -> float:
    """Return the seconds of a budget as Python takes it: a text with units, or a number of seconds."""
    return parse_seconds(budget) if isinstance(budget, str) else checked_seconds(float(budget), f"budget={budget}")


def checked_seconds(seconds: float, where: str) -> float:
    if not 0 < seconds < math.inf:
        raise UserError("the budget must be a positive time", where, "give a positive time, such as 10m")
    return seconds


@dataclass(frozen=True)
class Budget:
    """Seconds, steps or epochs: exactly one of them; with seconds, also the most epochs, if not 0."""

    seconds: float | None = None
    steps: int | None = None
    epochs: float | None = None
    max_epochs: float = 0.0

    def share(self, step: int, epochs: float, seconds: float) -> float:
        """Return the share that is spent, at most 1."""
        if self.steps is not None:
            return min(1.0, step / self.steps)
        if self.epochs is not None:
            return min(1.0, epochs / self.epochs)
        assert self.seconds is not None
        by_epochs = epochs / self.max_epochs if self.max_epochs else 0.0
        return min(1.0, max(seconds / self.seconds, by_epochs))

    @property
    def by_clock(self) -> bool:
        return self.seconds is not None


def rate_at(share: float, schedule: str, warmup: float) -> float:
    """Return the factor of the learning rate at a share of the budget: a linear warm-up, then down to almost 0."""
    if share < warmup:
        return max(share, 1e-3 * warmup) / warmup
    rest = (share - warmup) / (1 - warmup)
    if schedule == "constant":
        return 1.0
    shape = 1 - rest if schedule == "linear" else 0.5 * (1 + math.cos(math.pi * rest))
    return max(shape, 0.005)
