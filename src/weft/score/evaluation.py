"""The result of an evaluation: the scores of a run on a set of pairs, and its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.score.metrics import table_of


@dataclass(frozen=True)
class Evaluation(Mapping[str, float]):
    """Metrics of a run on some pairs: percent, but `loss` in nats per target symbol. `n` is the number of pairs."""

    metrics: dict[str, float]
    n: int
    outputs: list[Any] = field(repr=False)  # texts, or likelihoods of the targets
    signatures: dict[str, str] = field(default_factory=dict)
    scored_as: str = "text"  # the table of the metrics

    def __getitem__(self, name: str) -> float:
        return self.metrics[table_of(self.scored_as)[name].name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    def _repr_html_(self) -> str:
        return (
            f"<table><tr><th>metric</th><th>{self.n} pairs</th></tr>{html_rows(self.metrics, self.scored_as)}</table>"
        )


def html_rows(scores: Mapping[str, Any], scored_as: str = "text") -> str:
    """The rows of a table of scores, for a notebook."""
    present = table_of(scored_as).present(scores)
    return "".join(
        f"<tr><td>{metric.name}</td><td style='text-align:right'>{metric.show(value)}</td></tr>"
        for metric, value in present
    )
