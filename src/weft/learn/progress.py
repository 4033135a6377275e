"""How far a run has come: everything besides tensors that a resumed run needs to go on as if nothing had happened."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

MOST_STEPS, MOST = 10**15, 1e30  # that any count, and any sum, can reach


@dataclass
class Window:
    """What has been added up since the last report."""

    total: float = 0.0
    count: int = 0
    gradient: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    operations: float = 0.0  # of matrix products, see `effort`

    def add(self, total: float, count: int, gradient: float, seconds: float) -> None:
        self.total += total
        self.count += count
        self.gradient += gradient
        self.steps += 1
        self.seconds += seconds


@dataclass
class Progress:
    step: int = 0
    epoch: int = 0
    place: int = 0  # batches of this epoch that are done
    seconds: float = 0.0  # spent so far, validation included
    tokens: int = 0  # target symbols learned from so far
    reports: int = 0
    evaluations: int = 0  # marks of the evaluation grid that are passed
    evaluated_step: int = -1
    evaluated_seconds: float = 0.0  # the time spent when it was over
    evaluation_seconds: float = 0.0  # what it took
    validation_pairs: int = 0  # that a wall-clock budget can afford each time; 0: not known yet
    best_step: int = -1
    best_score: float | None = None
    best_loss: float | None = None
    stale: int = 0  # evaluations since the best
    stopped_early: bool = False
    log_bytes: int = 0
    log_sum: str = ""  # the checksum of that many bytes of the log
    processes: int = 1
    spent: dict[str, float] = field(default_factory=dict)  # seconds, by what they went to
    operations: float = 0.0  # of matrix products
    window: Window = field(default_factory=Window)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Progress:
        """Return the progress that `to_dict` made this of; TypeError or ValueError if it cannot be one."""
        known = {field.name for field in fields(cls)}  # others are of an older Weft
        window = Window(**content["window"])
        progress = cls(**{**{k: v for k, v in content.items() if k in known}, "window": window})
        for values in (progress, window):
            _check(values)
        return progress


def _check(values: Progress | Window) -> None:
    """Refuse values of other types than the fields have, and counts that no run can reach."""
    defaults = vars(type(values)())
    for name, value in vars(values).items():
        numbers = [*value.values()] if isinstance(value, dict) else [value]
        if isinstance(defaults[name], dict | Window):
            right = isinstance(value, type(defaults[name])) and (name == "window" or all(map(_is_number, numbers)))
        elif defaults[name] is None:
            right = value is None or _is_number(value)
        elif isinstance(defaults[name], bool | str):
            right = isinstance(value, type(defaults[name]))
        elif isinstance(defaults[name], int):
            right = isinstance(value, int) and _is_number(value) and -1 <= value <= MOST_STEPS
        else:
            right = _is_number(value) and -MOST <= value <= MOST
        if not right:
            raise TypeError(f"{name} is {str(value)[:40]!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
