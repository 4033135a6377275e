"""What is wrong with an output, edit by edit: the least edits from the right output, each with a kind."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from weft.core.pair import Pair

KINDS = {
    "omission": "a symbol of the right output is missing",
    "insertion": "a symbol too many",
    "repetition": "a symbol too many that repeats the one before it",
    "substitution": "another symbol in the place of the right one",
    "unseen character": "the right symbol never occurred in training targets: the model cannot write it",
    "copy": "the output is the input, which is not right",
    "wrong feature": "the output is right for other features of the same input",
}


@dataclass(frozen=True)
class Mistake:
    """One edit: the kind, the symbol that is right and the one that was written ('' where there is none)."""

    kind: str
    right: str
    written: str


def nearest(output: Sequence[str], references: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return the reference with the fewest edits, the longest of equals, as the error rates count."""
    from rapidfuzz.distance import Levenshtein

    return min(references, key=lambda reference: (Levenshtein.distance(output, reference), -len(reference)))


def mistakes(output: Sequence[str], right: Sequence[str], strange: Collection[str] = ()) -> list[Mistake]:
    """Return the least edits from the right output to the one that was written; the model cannot write `strange`."""
    from rapidfuzz.distance import Levenshtein

    found = []
    for edit in Levenshtein.editops(right, output):
        operation, at, to = edit.tag, edit.src_pos, edit.dest_pos
        if operation == "delete":
            found.append(_missing(right[at], "", strange, "omission"))
        elif operation == "insert":
            repeats = to > 0 and output[to - 1] == output[to]
            found.append(Mistake("repetition" if repeats else "insertion", "", output[to]))
        else:
            found.append(_missing(right[at], output[to], strange, "substitution"))
    return found


def _missing(right: str, written: str, strange: Collection[str], kind: str) -> Mistake:
    return Mistake("unseen character" if right in strange else kind, right, written)


class LineKinds:
    """Kinds of mistakes that concern a whole line, and are told by the other lines of its table."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._forms: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
        for pair in pairs:
            if pair.features:
                self._forms.setdefault((pair.source, pair.tag), {})[pair.target] = pair.features

    def of(self, pair: Pair, output: str) -> str:
        """Return `copy`, `wrong feature`, or nothing."""
        if output == pair.source and output not in pair.targets:
            return "copy"
        features = self._forms.get((pair.source, pair.tag), {}).get(output)
        return "wrong feature" if features is not None and features != pair.features else ""
