"""Finds the documents that belong to queries: cosines of vectors, exact by blocked products, and BM25 beside them."""

# N queries · M documents · D width

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from weft.core.pair import Pair
from weft.data.documents import read_documents
from weft.data.files import fingerprint
from weft.data.formats import ReadReport
from weft.learn.retrieval import ranking_of, vectors_of
from weft.nn.model import Towers
from weft.predict.index import AnyIndex, Index, ListedIndex, Vectors, index_of
from weft.predict.lexical import Lexical, is_installed
from weft.predict.lexicon import Lexicon
from weft.predict.predictor import Predictor
from weft.score.retrieval import Ranking, reciprocal_rank

BLOCK = 65_536  # documents that queries are compared with at a time
QUERIES = 16  # queries that are compared at a time: always so many, so that no result depends on the others
PARTS = ("vectors", "bm25")  # what a score is made of


@dataclass(frozen=True)
class Found:
    """A document, its score, and what the score is made of."""

    id: str
    text: str
    score: float
    cosine: float
    bm25: float


@dataclass(frozen=True)
class Retriever:
    """A run's models, the weight of BM25 beside the cosine, and what BM25 knows of words."""

    predictor: Predictor
    weight: float
    lexicon: Lexicon = field(default_factory=Lexicon)

    def index(self, path: str, report: ReadReport, tick: Callable[[int], None] | None = None) -> Index:
        """Return the index of the documents of a file, which is built once."""
        column, lexicon = self.predictor.spec.data.target, self._words
        key = [fingerprint([path]), str(column), self._weights()]
        return index_of(lambda: read_documents(path, column, report), self.encode, key, path, lexicon, tick)

    def listed(self, texts: Sequence[str]) -> ListedIndex:
        """Return an index of a few documents, in memory."""
        return ListedIndex(texts, self.encode, self._words)

    @property
    def _words(self) -> Lexicon | None:
        """The lexicon, if BM25 counts, or at least can be shown beside the vectors."""
        if self.predictor.spec.retrieve.lexical == 0:
            return None
        if self.weight and not is_installed():
            warnings.warn("BM25 is left out: bm25s is not installed (pip install 'weft[retrieve]')", stacklevel=2)
        return self.lexicon if is_installed() else None

    def _weights(self) -> str:
        """Return a digest of the weights of all models."""
        digest = blake2b(digest_size=16)
        for predictor in (self.predictor, *self.predictor.others):
            for name, parameter in predictor.model.named_parameters():
                digest.update(name.encode() + parameter.detach().cpu().numpy().tobytes())
        return digest.hexdigest()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of documents (M, D)."""
        return self.vectors([Pair("", text) for text in texts], "target")

    def vectors(self, pairs: Sequence[Pair], role: str) -> Vectors:
        """Return the vectors of the sources or targets of pairs."""
        predictors, shapes = (self.predictor, *self.predictor.others), self.predictor.sides.shapes
        models = [p.model for p in predictors if isinstance(p.model, Towers)]
        sides = [p.sides.source if role == "source" else p.sides.target for p in predictors]
        rows = [side.rows(pairs, role) for side in sides]
        return vectors_of(models, rows, role, shapes.by_role[role], self.predictor.device)

    def _asked(self, queries: Sequence[str]) -> Vectors:
        """Return the vectors of queries, and zeros up to QUERIES of them."""
        vectors = self.vectors([Pair(query) for query in queries], "source")
        return np.pad(vectors, ((0, QUERIES - len(queries)), (0, 0)))

    def search(self, queries: Sequence[str], index: AnyIndex, nbest: int) -> Iterator[list[Found]]:
        """Yield the best documents of each query; an empty query has none."""
        for first in range(0, len(queries), QUERIES):
            some = queries[first : first + QUERIES]
            asked = self._asked(some)
            for query, best in zip(some, self._best(some, asked, index, nbest)):
                yield best if query.strip() else []

    def _best(self, queries: Sequence[str], asked: Vectors, index: AnyIndex, nbest: int) -> Iterator[list[Found]]:
        lexical = index.lexical
        words = None if lexical is None else [lexical.scores(query) for query in queries]
        rows, scores = _top(asked, index, words, self.weight, nbest)
        for number, (chosen, each) in enumerate(zip(rows[: len(queries)], scores)):
            yield [
                Found(index.id(row), index.text(row), float(score), float(index.vectors[row] @ asked[number]),
                      0.0 if words is None else float(words[number][row]))
                for row, score in zip(chosen.tolist(), each)
            ]  # fmt: skip

    def rankings(
        self, queries: Sequence[str], relevant: Sequence[Mapping[int, float]], index: AnyIndex
    ) -> dict[str, list[Ranking]]:
        """Return where the relevant documents stand, by both together and by each part alone."""
        results: dict[str, list[Ranking]] = {"both": [], **{part: [] for part in PARTS}}
        for first in range(0, len(queries), QUERIES):
            some = queries[first : first + QUERIES]
            cosines = self._asked(some) @ np.asarray(index.vectors).T
            words = words_of(index.lexical, some, index.rows)
            for number, wanted in enumerate(relevant[first : first + len(some)]):
                rows, gains = list(wanted), list(wanted.values())
                lines = cosines[number] + np.float32(self.weight) * words[number], cosines[number], words[number]
                for name, line in zip(results, lines):
                    results[name].append(ranking_of(line, rows, gains))
        return results if index.lexical is not None else {"both": results["both"]}


def _top(
    asked: Vectors, index: AnyIndex, words: Sequence[Vectors] | None, weight: float, nbest: int
) -> tuple[npt.NDArray[np.int64], Vectors]:
    """Return the rows and the scores of the best documents of each query; of equal ones, the earlier is first."""
    rows, scores = np.zeros((len(asked), 0), np.int64), np.zeros((len(asked), 0), np.float32)
    for begin in range(0, index.rows, BLOCK):
        block = asked @ np.asarray(index.vectors[begin : begin + BLOCK]).T  # (N, M)
        if words is not None:
            block[: len(words)] += np.float32(weight) * np.stack([each[begin : begin + BLOCK] for each in words])
        numbers = np.broadcast_to(np.arange(begin, begin + block.shape[1]), block.shape)
        scores, rows = np.concatenate([scores, block], 1), np.concatenate([rows, numbers], 1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :nbest]
        scores, rows = np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
    return rows, scores


def words_of(lexical: Lexical | None, queries: Sequence[str], rows: int) -> Vectors:
    """Return the BM25 scores of queries and documents (N, M); zeros without an index of words."""
    if lexical is None:
        return np.zeros((len(queries), rows), np.float32)
    return np.stack([lexical.scores(query) for query in queries])


@dataclass(frozen=True)
class Weighed:
    """A lexicon, a weight of BM25, and the mean reciprocal ranks of validation by each part and by both."""

    lexicon: Lexicon
    weight: float
    vectors: float
    bm25: float
    both: float


def learn_weight(
    predictor: Predictor,
    queries: Sequence[str],
    right: Sequence[int],
    documents: Sequence[str],
    lexicons: Sequence[Lexicon],
    weights: Sequence[float],
) -> Weighed:
    """Choose a lexicon and the weight of BM25 by the mean reciprocal rank of the right documents of validation."""
    retriever = Retriever(predictor, 0.0)
    of_documents = retriever.encode(documents)
    cosines = retriever.vectors([Pair(query) for query in queries], "source") @ of_documents.T
    each = {lexicon.stemmer: words_of(Lexical.of(documents, lexicon), queries, len(documents)) for lexicon in lexicons}

    def score(lines: Vectors) -> float:
        ranks = [reciprocal_rank(ranking_of(line, [row], [1.0])) for line, row in zip(lines, right)]
        return 100 * sum(ranks) / max(1, len(ranks))

    alone = {stemmer: score(words) for stemmer, words in each.items()}
    lexicon = max(lexicons, key=lambda lexicon: alone[lexicon.stemmer])
    words = each[lexicon.stemmer]
    by_weight = {weight: score(cosines + np.float32(weight) * words) for weight in weights}
    best = max(by_weight, key=lambda weight: by_weight[weight])
    return Weighed(lexicon, best, score(cosines), alone[lexicon.stemmer], by_weight[best])
