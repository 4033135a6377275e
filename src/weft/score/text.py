"""Scores of text: exact, cer, token_error_rate, bleu and chrf from outputs; accuracy and loss from the model.

    exact             100 · lines equal to one of their references / lines
    cer               100 · Σ edits / Σ length, in characters; per line the reference with the fewest edits
                      (Levenshtein 1966)
    token_error_rate  the same in tokens between white space: phone or word error rate. Not the TER of machine
                      translation (Snover et al. 2006), which has shifts
    bleu              Papineni et al. 2002 as sacrebleu's defaults (13a, cased, Post 2018)
    chrf              Popović 2015 as sacrebleu's defaults (characters up to 6, β = 2)
    accuracy          100 · target symbols (END included) that are the most probable, given the right ones before
    loss              − Σ log p of target symbols / symbols, in nats, given the right ones before

`references` holds, for each line, every target that counts as right. Of equally near references the longest counts,
so that their order changes nothing in cer and token_error_rate.

Limits: strings are compared as they are (no Unicode normalisation, no stripping). cer and token_error_rate pass 100
when outputs are much longer than references. bleu is 0 for a corpus in which no output has four tokens, however right,
and 13a does not split scripts without spaces: read exact, cer or chrf there. An empty output matches no n-gram, so chrf
takes its first reference, even if an empty one stands behind it (sacrebleu's rule).
"""

# R resamples · K numbers a line · G n-gram orders

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from weft.score.rouge import ROUGE
from weft.score.table import Metric, Outputs, References, Table, check_lines, mean, percent

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    from weft.score.table import Array

_TOKEN = re.compile(r"\w+|[^\w\s]")
_CHRF_ORDERS, _CHRF_BETA = 6, 2  # sacrebleu's defaults; test_metrics compares the values


def _exact_counts(output: str, references: Sequence[str]) -> tuple[int, int]:
    """Return whether the output is one of its references, and 1 for the line."""
    return int(output in references), 1


def _character_edits(output: str, references: Sequence[str]) -> tuple[int, int]:
    """Return the edits to the nearest reference and the length of that reference, in characters."""
    return _nearest(output, references)


def _token_edits(output: str, references: Sequence[str]) -> tuple[int, int]:
    """Return the edits to the nearest reference and the length of that reference, in tokens between white space."""
    return _nearest(output.split(), [reference.split() for reference in references])


def _nearest(output: Sequence[Hashable], references: Sequence[Sequence[Hashable]]) -> tuple[int, int]:
    from rapidfuzz.distance import Levenshtein

    edits_lengths = [(Levenshtein.distance(output, reference), len(reference)) for reference in references]
    return min(edits_lengths, key=lambda edits_length: (edits_length[0], -edits_length[1]))


def _share(counts: Callable[[str, Sequence[str]], tuple[int, int]]) -> Callable[[Outputs, References], float]:
    """Return the corpus score 100 · Σ first / Σ second of the lines' two counts."""

    def corpus(outputs: Outputs, references: References) -> float:
        check_lines(outputs, references)
        parts, wholes = zip(*map(counts, outputs, references))
        return float(100.0 * sum(parts) / max(sum(wholes), 1))  # references may all be empty

    return corpus


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


def _bleu_counts(output: str, references: Sequence[str]) -> list[int]:
    """Return matches and totals of 1- to 4-grams, and both lengths."""
    from sacrebleu.metrics.bleu import BLEU

    # effective_order changes the line's own score, which is not used, and silences a warning; the counts stay.
    score = BLEU(effective_order=True).sentence_score(output, references)
    return [*score.counts, *score.totals, score.sys_len, score.ref_len]


def _bleu_of(sums: Array) -> Array:
    import numpy as np
    from sacrebleu.metrics.bleu import BLEU

    rows = sums.astype(np.int64).tolist()
    scores = [BLEU.compute_bleu(row[:4], row[4:8], row[8], row[9], smooth_method="exp").score for row in rows]
    return np.array(scores, dtype=np.float64)


def _chrf_counts(output: str, references: Sequence[str]) -> list[int]:
    """Return the counts against the reference with the best F, the first of equals, as sacrebleu keeps privately."""
    import numpy as np

    against = [_ngram_counts(output, reference) for reference in references]
    if len(against) == 1:
        return against[0]
    return against[int(np.argmax(_chrf_of(np.array(against, dtype=np.float64))))]


def _ngram_counts(output: str, reference: str) -> list[int]:
    """Return the number of n-grams of the output, of the reference and of both, for each order, without white space."""
    output, reference = "".join(output.split()), "".join(reference.split())
    counts: list[int] = []
    for n in range(1, _CHRF_ORDERS + 1):
        ours, theirs = _ngrams(output, n), _ngrams(reference, n)
        # An order that the reference is too short for must not count against the output.
        counts += [ours.total() if theirs else 0, theirs.total(), (ours & theirs).total()]
    return counts


def _ngrams(text: str, n: int) -> Counter[str]:
    return Counter(text[i : i + n] for i in range(len(text) - n + 1))


def _chrf_of(sums: Array) -> Array:
    """Return F_β of precision and recall, each averaged over the orders that output and reference both have."""
    import numpy as np

    ours, theirs, both = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]  # (R, G)
    orders = np.maximum(((ours > 0) & (theirs > 0)).sum(axis=1), 1)  # (R,)
    # Where an order is missing on either side nothing matches, so it adds 0 to both sums.
    precision = (both / np.maximum(ours, 1.0)).sum(axis=1) / orders  # (R,)
    recall = (both / np.maximum(theirs, 1.0)).sum(axis=1) / orders  # (R,)
    weighted = _CHRF_BETA**2 * precision + recall
    top = (1 + _CHRF_BETA**2) * precision * recall
    scores: Array = 100.0 * top / np.where(weighted > 0, weighted, 1.0)
    return scores


def _has_four_words(reference: str) -> bool:
    """Return whether a text can have 4-grams: sacrebleu's tokens are at most these."""
    return len(_TOKEN.findall(reference)) >= 4


def _bleu_signature(references: References | None) -> str:
    return _signature(_sacre_bleu(), references)


def _chrf_signature(references: References | None) -> str:
    return _signature(_sacre_chrf(), references)


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


TEXT = Table(
    Metric(
        name="exact",
        label="exact match (%)",
        better="higher",
        explain="percentage of outputs that are equal to one of their references",
        corpus=_share(_exact_counts),
        line=_exact_counts,
        combine=percent,
    ),
    Metric(
        name="cer",
        label="character error rate (%)",
        better="lower",
        explain="character error rate: edits to the nearest reference per 100 of its characters",
        corpus=_share(_character_edits),
        line=_character_edits,
        combine=percent,
    ),
    Metric(
        name="token_error_rate",
        label="token error rate (%)",
        better="lower",
        explain="the same for tokens that are separated by spaces: word or phone error rate",
        corpus=_share(_token_edits),
        line=_token_edits,
        combine=percent,
        aliases=("ter",),
    ),
    Metric(
        name="bleu",
        label="BLEU",
        better="higher",
        explain="sacrebleu's BLEU: 1- to 4-grams of words; for running text, not for single words",
        corpus=_bleu,
        line=_bleu_counts,
        combine=_bleu_of,
        per_line=False,
        reported="unless zero",  # outputs of less than four words have no other
        signature=_bleu_signature,
        applies=_has_four_words,
    ),
    Metric(
        name="chrf",
        label="chrF",
        better="higher",
        explain="sacrebleu's chrF2: 1- to 6-grams of characters; recall counts twice as much as precision",
        corpus=_chrf,
        line=_chrf_counts,
        combine=_chrf_of,
        signature=_chrf_signature,
    ),
    *ROUGE,
    Metric(
        name="accuracy",
        label="next-token accuracy (%)",
        better="higher",
        explain="percentage of next tokens that are right, given the correct tokens before them (teacher forcing)",
        combine=percent,
        reported="never",
    ),
    Metric(
        name="loss",
        label="validation loss (nats per token)",
        better="lower",
        explain="cross-entropy in nats per target token",
        combine=mean,
        unit="nats",
        reported="never",  # the first number of every report already
    ),
)
