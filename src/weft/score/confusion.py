"""Which labels are taken for which: counts, F1 of each label, and the pairs that are confused most often."""

# L labels

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_LABELS = 20  # that have a row of their own: the most frequent ones
OTHERS = "(others)"


@dataclass(frozen=True)
class Confusion:
    """`counts[i][j]` rows of label i were predicted as label j."""

    labels: Sequence[str]
    counts: Sequence[Sequence[int]]

    def f1(self) -> list[float]:
        """Return 2 · right / (predicted + actual) of each label, %."""
        actual, predicted = list(map(sum, self.counts)), [sum(column) for column in zip(*self.counts)]
        return [100 * 2 * self.counts[i][i] / max(1, actual[i] + predicted[i]) for i in range(len(self.labels))]

    def most_confused(self, count: int) -> list[tuple[str, str, int]]:
        """Return label, prediction and how often, of the most frequent mistakes."""
        cells = ((i, j) for i in range(len(self.labels)) for j in range(len(self.labels)) if i != j)
        wrong = sorted((-self.counts[i][j], i, j) for i, j in cells if self.counts[i][j])
        return [(self.labels[i], self.labels[j], -number) for number, i, j in wrong[:count]]

    def to_dict(self) -> dict[str, Any]:
        return {"labels": list(self.labels), "counts": [list(row) for row in self.counts]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Confusion:
        """Return what `to_dict` made; a ValueError if it is not square."""
        labels, counts = [str(label) for label in content["labels"]], [[int(n) for n in r] for r in content["counts"]]
        if not labels or [len(row) for row in counts] != [len(labels)] * len(labels):
            raise ValueError("a confusion matrix has a row and a column for each label")
        return cls(labels, counts)


def confusion(outputs: Sequence[str], references: Sequence[Sequence[str]], target_kind: str) -> Confusion:
    """Count labels and predictions; labels beyond the MOST_LABELS most frequent ones are counted together."""
    pairs = Counter(_pairs(outputs, references, target_kind))
    uses = Counter[str]()
    for (actual, predicted), number in pairs.items():
        uses[actual] += number
        uses[predicted] += 0
    ordered = sorted(uses, key=lambda label: (-uses[label], label))
    labels = ordered if len(ordered) <= MOST_LABELS else [*ordered[: MOST_LABELS - 1], OTHERS]
    index = {label: min(n, len(labels) - 1) for n, label in enumerate(ordered)}
    counts = [[0] * len(labels) for _ in labels]
    for (actual, predicted), number in pairs.items():
        counts[index[actual]][index[predicted]] += number
    return Confusion(labels, counts)


def _pairs(outputs: Sequence[str], references: Sequence[Sequence[str]], target_kind: str) -> Iterator[tuple[str, str]]:
    """Yield each label with its prediction; of several that are right, the predicted one."""
    for output, targets in zip(outputs, references, strict=True):
        if target_kind == "labels":
            yield from zip(targets[0].split(" "), output.split(" "))
        else:
            yield output if output in targets else targets[0], output
