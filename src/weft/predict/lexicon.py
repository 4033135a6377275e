"""How much each word of a query tells about its document, as the training pairs of a run have it.

The weight of a stem is p · log((N + 1) / (n + ½)). n of N documents have it, those of training included, so that
a small collection does not take a common word for a rare one. p is the share of training queries with that stem whose
document has it, too, (hits + A · P) / (queries + A): «what» is in many queries and says nothing about documents.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from weft.core.files import parse_json
from weft.core.pair import Pair
from weft.data.sides.document import body
from weft.data.text.stems import STEMMERS

FORMAT = 1
AMOUNT, PRIOR = 4.0, 0.6  # A and P: what a stem that no query had is taken to be
MOST_PAIRS = 50_000  # that stems are counted in
MOST_STEMS = 100_000  # that are kept, the most frequent first


@dataclass(frozen=True)
class Lexicon:
    """A stemmer, and what was counted of its stems: queries, queries whose document has it, and documents."""

    stemmer: str = "prefix"
    documents: int = 0
    counts: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, pairs: Iterable[Pair], stemmer: str) -> Lexicon:
        """Count the stems of training pairs; a pair whose source is its target has no query."""
        cut, known = STEMMERS[stemmer], dict[str, frozenset[str]]()
        queries, hits = Counter[str](), Counter[str]()
        for pair in islice(pairs, MOST_PAIRS):
            document = body(pair)
            stems = known.get(document)
            if stems is None:
                stems = known[document] = frozenset(cut(document))
            if pair.source != pair.target:
                asked = set(cut(pair.source))
                queries.update(asked)
                hits.update(asked & stems)
        documents = Counter(stem for stems in known.values() for stem in stems)
        kept = [stem for stem, _ in (queries + documents).most_common(MOST_STEMS)]
        counts = {stem: (queries[stem], hits[stem], documents[stem]) for stem in kept}
        return cls(stemmer, len(known), counts)

    def cut(self, text: str) -> list[str]:
        """Return the stems of a text."""
        return STEMMERS[self.stemmer](text)

    def weight(self, stem: str, count: int, rows: int) -> float:
        """Return how much a stem tells that `count` of `rows` documents have."""
        queries, hits, documents = self.counts.get(stem, (0, 0, 0))
        share = (hits + AMOUNT * PRIOR) / (queries + AMOUNT)
        return share * math.log((rows + self.documents + 1) / (count + documents + 0.5))

    def to_json(self) -> str:
        content = {"format": FORMAT, "stemmer": self.stemmer, "documents": self.documents, "stems": self.counts}
        return json.dumps(content, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Lexicon:
        """Return what `to_json` wrote; ValueError if it is something else."""
        content = parse_json(text)
        try:
            stems = {stem: (int(q), int(h), int(d)) for stem, (q, h, d) in content["stems"].items()}
            documents = int(content["documents"])
            right = content["format"] == FORMAT and content["stemmer"] in STEMMERS
            right = right and all(0 <= hits <= queries and 0 <= n <= documents for queries, hits, n in stems.values())
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"it is not what Weft writes ({type(error).__name__})") from None
        if not right:
            raise ValueError("its counts do not fit together")
        return cls(content["stemmer"], documents, stems)
