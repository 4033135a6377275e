"""What a metric is, and the table of those that one kind of target has.

Everything that lists, names, orders or tests scores reads the table: reports, model cards, JSON, plots, the choice of a
checkpoint and significance. A metric is one line of the table in the file of its target kind (`text.py`); a kind of
target is one such file and one line in `metrics.py`.
"""

# N lines · R resamples · K numbers a line

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from weft.core.errors import did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Better = Literal["higher", "lower"]
Unit = Literal["percent", "nats", "number", "count"]
Outputs = Sequence[Any]
References = Sequence[Sequence[Any]]  # for each line, every target that counts as right
NOT_APPLICABLE = "not_applicable"  # among scores: the names of metrics that are 0 whatever the outputs are
LineNumbers = Callable[[Any, Sequence[Any]], Sequence[float]]


@dataclass(frozen=True)
class Likelihood:
    """How probable a model finds a target, which is what language models are scored by in the place of an output."""

    nats: float
    symbols: int  # or steps
    ended: bool  # whether the end of the target is one of them
    right: int = 0  # symbols that are the most probable ones, where that is counted


@dataclass(frozen=True)
class Metric:
    """One way to score a run on a set of pairs.

    A corpus score is a function of sums over lines: `line` gives the K numbers of one line, `combine` the scores (R,)
    of sums (R, K). That is how subsets, single lines and bootstrap resamples are scored without comparing any output
    twice. A metric without `corpus` and `line` is measured by the model itself, given the references.
    """

    name: str
    label: str  # for axes and headings
    better: Better
    explain: str  # for people who read it in a model card
    combine: Callable[[Array], Array]
    corpus: Callable[[Outputs, References], float] | None = None
    line: LineNumbers | None = None
    unit: Unit = "percent"
    per_line: bool = True  # whether the score of a single line means anything
    selects: bool = True  # whether a checkpoint may be chosen by it
    reported: Literal["always", "unless zero", "never"] = "always"  # in the short reports of training
    signature: Callable[[References | None], str] | None = None  # what is to be quoted beside it
    aliases: tuple[str, ...] = ()  # earlier names, which are still understood
    applies: Callable[[str], bool] | None = None  # whether a score other than 0 is possible with a reference; None: yes

    @property
    def from_outputs(self) -> bool:
        """Whether outputs and references are all it takes, line by line."""
        return self.corpus is not None and self.line is not None

    @property
    def scale(self) -> float:
        """100 for percentages, else 1."""
        return 100.0 if self.unit == "percent" else 1.0

    def is_better(self, new: float, old: float | None) -> bool:
        """Return whether `new` beats `old`; NaN beats nothing, any number beats None and NaN."""
        if math.isnan(new):
            return False
        if old is None or math.isnan(old):
            return True
        return new > old if self.better == "higher" else new < old

    def rank(self, value: float) -> float:
        """Return a number to sort by: the better the value, the smaller."""
        return -value if self.better == "higher" else value

    def show(self, value: float) -> str:
        """`95.31`, `0.214` for what is counted in nats, `752.3` for a number in the units of the data."""
        digits = {"percent": ".2f", "nats": ".3f", "number": ".4g", "count": ",.0f"}
        return format(value, digits[self.unit])

    def of_line(self, output: Any, references: Sequence[Any]) -> float:
        """Return the score of a single line."""
        import numpy as np

        if self.line is None:
            raise ValueError(f"{self.name} is measured by the model, not from outputs")
        return float(self.combine(np.array([self.line(output, references)], dtype=np.float64))[0])

    def numbers(self, outputs: Outputs, references: References) -> Array:
        """Return the numbers that each line adds to the sums, (N, K)."""
        import numpy as np

        if self.line is None:
            raise ValueError(f"{self.name} is measured by the model, not from outputs")
        check_lines(outputs, references)
        return np.array(list(map(self.line, outputs, references)), dtype=np.float64)


class Table(Mapping[str, Metric]):
    """The metrics of one kind of target, by name, in the order in which they are shown; aliases are understood."""

    def __init__(self, *metrics: Metric, of_likelihood: bool = False) -> None:
        """`of_likelihood`: an "output" is the `Likelihood` of a target, so that nothing has to be decoded."""
        self.of_likelihood = of_likelihood
        self._metrics = {metric.name: metric for metric in metrics}
        self._aliases = {alias: metric.name for metric in metrics for alias in metric.aliases}

    def __getitem__(self, name: str) -> Metric:
        name = self._aliases.get(name, name)
        if name not in self._metrics:
            raise KeyError(f"metric {name!r} is not known; {did_you_mean(name, self._metrics)}")
        return self._metrics[name]

    def __contains__(self, name: object) -> bool:
        return name in self._metrics or name in self._aliases

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)

    @property
    def from_outputs(self) -> list[Metric]:
        """The metrics that need outputs and references only."""
        return [metric for metric in self.values() if metric.from_outputs]

    @property
    def compared(self) -> list[Metric]:
        """The metrics by which the outputs of two runs are compared."""
        return [metric for metric in self.from_outputs if metric.selects]

    def score(self, outputs: Outputs, references: References) -> dict[str, float]:
        """Return every metric of the outputs by its name, unrounded."""
        return {m.name: m.corpus(outputs, references) for m in self.values() if m.corpus is not None}

    def signatures(self, references: References | None = None) -> dict[str, str]:
        """Return what is to be quoted beside scores; with `references` it says how many each line has."""
        return {m.name: m.signature(references) for m in self.values() if m.signature is not None}

    def present(self, scores: Mapping[str, Any]) -> list[tuple[Metric, float]]:
        """Return the metrics that `scores` has a value for, with the value; without those that do not apply."""
        without = scores.get(NOT_APPLICABLE) or ()
        present = {name: metric for name, metric in self.items() if scores.get(name) is not None}
        return [(metric, scores[name]) for name, metric in present.items() if name not in without]

    def not_applicable(self, references: References) -> list[str]:
        """Return the metrics that are 0 whatever the outputs are, such as BLEU where all references are short."""
        texts = list(chain.from_iterable(references))
        return [name for name, m in self.items() if m.applies is not None and not any(map(m.applies, texts))]

    def reported(self, scores: Mapping[str, Any], selects: str | None = None) -> dict[str, str]:
        """Return what a short report shows of the scores, as text, always with the metric that `selects`."""
        return {
            metric.name: metric.show(value)
            for metric, value in self.present(scores)
            if metric.name == selects or metric.reported == "always" or (metric.reported == "unless zero" and value)
        }

    def renamed(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        """Return the scores with today's names for earlier ones."""
        return {self._aliases.get(name, name): value for name, value in scores.items()}

    def with_aliases(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        """Return the scores, and again those with earlier names, for programs that know only these."""
        return {**scores, **{alias: scores[name] for alias, name in self._aliases.items() if name in scores}}


def sums_of(metric_line: LineNumbers, combine: Callable[[Array], Array]) -> Callable[[Outputs, References], float]:
    """Return the corpus score of a metric whose lines add up."""

    def corpus(outputs: Outputs, references: References) -> float:
        import numpy as np

        check_lines(outputs, references)
        lines = np.array([metric_line(*line) for line in zip(outputs, references)], dtype=np.float64)
        return float(combine(lines.sum(axis=0, keepdims=True))[0])

    return corpus


def percent(sums: Array) -> Array:
    """Return 100 · Σ first / Σ second, for each resample."""
    import numpy as np

    return 100.0 * sums[:, 0] / np.maximum(sums[:, 1], 1.0)


def mean(sums: Array) -> Array:
    return percent(sums) / 100.0


def check_lines(outputs: Outputs, references: References) -> None:
    """Raise ValueError unless each of one or more outputs has a non-empty list of references."""
    if not outputs:
        raise ValueError("there are no outputs to score")
    if len(outputs) != len(references):
        raise ValueError(f"{len(outputs)} outputs but {len(references)} lists of references")
    for number, targets in enumerate(references, start=1):
        # A bare string would pass as a list of one-character references.
        if isinstance(targets, str) or not targets:
            raise ValueError(f"line {number}: references must be a non-empty list of strings, got {targets!r}")
