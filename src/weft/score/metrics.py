"""Numbers for outputs against references: exact, cer, ter, bleu and chrf, each for a whole corpus and in percent.

    exact  100 · lines equal to one of their references / lines
    cer    100 · Σ edits / Σ length, in characters; per line the reference with the fewest edits (Levenshtein 1966)
    ter    the same in tokens between white space: phone or word error rate, without the shifts of Snover et al. 2006
    bleu   Papineni et al. 2002 as sacrebleu's defaults (13a, cased, Post 2018)
    chrf   Popović 2015 as sacrebleu's defaults (characters up to 6, β = 2)

`references` holds, for each line, every target that counts as right. Of equally near references the longest counts,
so that their order changes nothing in cer and ter.

Limits: strings are compared as they are (no Unicode normalisation, no stripping). cer and ter pass 100 when outputs
are much longer than references. bleu is 0 for a corpus in which no output has four tokens, however right, and 13a
does not split scripts without spaces: read exact, cer or chrf there. An empty output matches no n-gram, so chrf takes
its first reference, even if an empty one stands behind it (sacrebleu's rule).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from weft.core.errors import did_you_mean

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

Outputs = Sequence[str]
References = Sequence[Sequence[str]]
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Metric:
    """One way to score a corpus."""

    name: str
    better: Better
    corpus: Callable[[Outputs, References], float]
    explain: str


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


def is_hit(output: str, references: Sequence[str]) -> bool:
    """Whether the output is one of its references."""
    return output in references


def character_edits(output: str, references: Sequence[str]) -> tuple[int, int]:
    """Edits to the nearest reference and the length of that reference, in characters."""
    return _nearest(output, references)


def token_edits(output: str, references: Sequence[str]) -> tuple[int, int]:
    """Edits to the nearest reference and the length of that reference, in tokens between white space."""
    return _nearest(output.split(), [reference.split() for reference in references])


def _nearest(output: Sequence[Hashable], references: Sequence[Sequence[Hashable]]) -> tuple[int, int]:
    from rapidfuzz.distance import Levenshtein

    found = [(Levenshtein.distance(output, reference), len(reference)) for reference in references]
    return min(found, key=lambda edits_length: (edits_length[0], -edits_length[1]))


def _exact(outputs: Outputs, references: References) -> float:
    check_lines(outputs, references)
    return 100.0 * sum(map(is_hit, outputs, references)) / len(outputs)


def _cer(outputs: Outputs, references: References) -> float:
    check_lines(outputs, references)
    return _rate(list(map(character_edits, outputs, references)))


def _ter(outputs: Outputs, references: References) -> float:
    check_lines(outputs, references)
    return _rate(list(map(token_edits, outputs, references)))


def _rate(edits_lengths: Sequence[tuple[int, int]]) -> float:
    edits = sum(edits for edits, _ in edits_lengths)
    length = sum(length for _, length in edits_lengths)
    return 100.0 * edits / max(length, 1)  # references may all be empty


def _bleu(outputs: Outputs, references: References) -> float:
    check_lines(outputs, references)
    return float(_sacre_bleu().corpus_score(outputs, _streams(references)).score)


def _chrf(outputs: Outputs, references: References) -> float:
    check_lines(outputs, references)
    return float(_sacre_chrf().corpus_score(outputs, _streams(references)).score)


def _sacre_bleu() -> BLEU:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(force=True)  # silences the advice to detokenise; the score and the signature stay the same


def _sacre_chrf() -> CHRF:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF()


def _streams(references: References) -> list[list[str]]:
    """Line by line → sacrebleu's stream by stream; None stands where a line has fewer references than others."""
    most = max(map(len, references))
    streams = [[targets[i] if i < len(targets) else None for targets in references] for i in range(most)]
    return streams  # type: ignore[return-value]  # sacrebleu reads None but its annotation says str


METRICS: dict[str, Metric] = {
    "exact": Metric("exact", "higher", _exact, "outputs equal to one of their references, in percent"),
    "cer": Metric("cer", "lower", _cer, "character edits to the nearest reference per 100 of its characters"),
    "ter": Metric("ter", "lower", _ter, "token edits (between spaces) to the nearest reference per 100 of its tokens"),
    "bleu": Metric(
        "bleu", "higher", _bleu, "sacrebleu's BLEU: 1- to 4-grams of words; for running text, not for words"
    ),
    "chrf": Metric("chrf", "higher", _chrf, "sacrebleu's chrF2: 1- to 6-grams of characters, recall counts double"),
}

# Loss and accuracy need the model, so they are measured elsewhere; a run may still be selected by them.
BETTER: dict[str, Better] = {name: metric.better for name, metric in METRICS.items()}
BETTER |= {"loss": "lower", "accuracy": "higher"}


def is_better(name: str, new: float, old: float | None) -> bool:
    """Whether `new` beats `old` by the metric or loss `name`; NaN beats nothing, any number beats None and NaN."""
    if name not in BETTER:
        raise ValueError(f"metric {name!r} is not known; {did_you_mean(name, BETTER)}")
    if math.isnan(new):
        return False
    if old is None or math.isnan(old):
        return True
    return new > old if BETTER[name] == "higher" else new < old


def score(outputs: Outputs, references: References) -> dict[str, float]:
    """Every metric by its name, unrounded."""
    return {name: metric.corpus(outputs, references) for name, metric in METRICS.items()}


def signatures(references: References | None = None) -> dict[str, str]:
    """What sacrebleu asks to be quoted beside bleu and chrf; with `references` it tells how many a line has."""
    return {"bleu": _signature(_sacre_bleu(), references), "chrf": _signature(_sacre_chrf(), references)}


def _signature(metric: BLEU | CHRF, references: References | None) -> str:
    metric.corpus_score(["."], [["."]])  # a signature exists only after scoring
    signature = metric.get_signature()
    signature.update("nrefs", _reference_count(references))
    return str(signature)


def _reference_count(references: References | None) -> str | None:
    if references is None:
        return None  # sacrebleu leaves out what is None
    counts = {len(targets) for targets in references}
    return str(counts.pop()) if len(counts) == 1 else "var"
