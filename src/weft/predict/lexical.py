"""BM25 (Robertson 1994) over the stems of documents, by bm25s: exact words, which small encoders do not know.

Stems are weighed as the run's lexicon says. Scores are divided by the largest that a document could have, so that they
are between 0 and 1 for every query.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.core.files import parse_json
from weft.predict.lexicon import Lexicon

K1, B = 1.2, 0.75
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)  # that are tried on validation
FACTS = "words.json"
SMALLEST = 1e-9  # of what scores are divided by


def is_installed() -> bool:
    """Return whether bm25s is there, which comes with the extra `retrieve`."""
    try:
        import bm25s  # noqa: F401
    except ImportError:
        return False
    return True


class Lexical:
    """An index of words, in memory or memory-mapped."""

    def __init__(self, index: Any, counts: dict[str, int], rows: int, lexicon: Lexicon) -> None:
        """`counts` has the number of documents that each stem stands in."""
        self._index, self._counts, self.rows, self._lexicon = index, counts, rows, lexicon

    @classmethod
    def of(cls, texts: Sequence[str], lexicon: Lexicon) -> Lexical:
        """Index some documents."""
        import bm25s

        tokens = [lexicon.cut(text) or [""] for text in texts]
        counts = Counter(stem for each in tokens for stem in set(each))
        index = bm25s.BM25(k1=K1, b=B, method="lucene")
        index.index(tokens, show_progress=False)
        return cls(index, dict(counts), len(texts), lexicon)

    def save(self, folder: Path) -> list[str]:
        """Write the index into a folder; return the names of its files."""
        self._index.save(str(folder), show_progress=False)
        (folder / FACTS).write_text(json.dumps([self.rows, self._counts], ensure_ascii=False), encoding="utf-8")
        return sorted(path.name for path in folder.iterdir() if path.is_file())

    @classmethod
    def load(cls, folder: Path, lexicon: Lexicon) -> Lexical:
        """Open an index that `save` wrote, with a lexicon of the same stemmer; its postings are memory-mapped."""
        import bm25s

        rows, counts = parse_json((folder / FACTS).read_text(encoding="utf-8"))
        return cls(bm25s.BM25.load(str(folder), mmap=True), counts, rows, lexicon)

    def scores(self, query: str) -> npt.NDArray[np.float32]:
        """Return the score of every document (M,)."""
        scores, largest = np.zeros(self.rows, np.float32), 0.0
        postings = self._index.scores
        for stem in dict.fromkeys(self._lexicon.cut(query)):
            count = self._counts.get(stem, 0)
            weight = self._lexicon.weight(stem, count, self.rows)
            largest += weight
            if count:
                number = self._index.vocab_dict[stem]
                part = slice(int(postings["indptr"][number]), int(postings["indptr"][number + 1]))
                scores[postings["indices"][part]] += np.float32(weight / self._idf(count)) * postings["data"][part]
        return scores / np.float32(max(largest, SMALLEST))

    def _idf(self, count: int) -> float:
        """Return the weight that bm25s has multiplied the scores of a stem by."""
        return math.log(1 + (self.rows - count + 0.5) / (count + 0.5))
