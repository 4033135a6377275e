"""The result of an evaluation: the scores of a run on a set of pairs, and its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.score.metrics import table_of
from weft.score.table import NOT_APPLICABLE


@dataclass(frozen=True)
class Baseline:
    """The scores of a prediction that needs no model, on the same pairs, and how it is made."""

    name: str
    metrics: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, **self.metrics}


@dataclass(frozen=True)
class Evaluation(Mapping[str, float]):
    """Metrics of a run on some pairs: percent, but `loss` in nats per target symbol. `n` is the number of pairs."""

    metrics: dict[str, float]
    n: int
    outputs: list[Any] = field(repr=False)  # texts, or likelihoods of the targets
    signatures: dict[str, str] = field(default_factory=dict)
    scored_as: str = "text"  # the table of the metrics
    baseline: Baseline | None = None
    not_applicable: tuple[str, ...] = ()  # metrics that are 0 whatever the outputs are

    def __getitem__(self, name: str) -> float:
        return self.metrics[table_of(self.scored_as)[name].name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    @property
    def _shown(self) -> dict[str, Any]:
        return {**self.metrics, NOT_APPLICABLE: self.not_applicable}

    def _repr_html_(self) -> str:
        columns = ["metric", f"{self.n} pairs", *([] if self.baseline is None else ["baseline"])]
        headings = "".join(f"<th>{column}</th>" for column in columns)
        baseline = None if self.baseline is None else self.baseline.metrics
        return f"<table><tr>{headings}</tr>{html_rows(self._shown, self.scored_as, baseline)}</table>"


def html_rows(scores: Mapping[str, Any], scored_as: str = "text", baseline: Mapping[str, Any] | None = None) -> str:
    """Return the rows of a table of scores, for a notebook; beside each the baseline's, if there is one."""
    rows = []
    for metric, value in table_of(scored_as).present(scores):
        beside = [] if baseline is None else [metric.show(baseline[metric.name]) if metric.name in baseline else ""]
        cells = "".join(f"<td style='text-align:right'>{cell}</td>" for cell in (metric.show(value), *beside))
        rows.append(f"<tr><td>{metric.name}</td>{cells}</tr>")
    return "".join(rows)
