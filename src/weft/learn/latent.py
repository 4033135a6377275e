"""Where embeddings start: directions of words that occur together in documents (latent semantic analysis).

The matrix of documents and tokens, (1 + log n) · idf with rows of length 1, is X ≈ U S Vᵀ. A token's vector is its row
of V times its idf, so that the sum over the tokens of a text is its projection (Deerwester 1990). V is found by
iterated products with random vectors (Halko 2011).
"""

# M documents · V tokens · K directions

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from weft.core.pair import SPECIALS
from weft.data.corpus import Corpus
from weft.nn.model import Towers
from weft.nn.towers import BagTower

MOST_DOCUMENTS = 20_000
SMALL = 0.01  # of the usual length: directions that stay random
ITERATIONS, MORE = 6, 16  # products with X and Xᵀ; further directions, which make the wanted ones exact


def latent_vectors(corpus: Corpus, symbols: int, width: int, seed: int) -> Tensor:
    """Return a vector for each token (V, width); directions that the documents do not have are zero."""
    documents = _documents(corpus)
    matrix, idf = _weighted(documents, symbols)
    random = torch.Generator().manual_seed(seed)
    most = min(len(documents), symbols)
    rank = min(width, most)
    basis = torch.randn(symbols, min(rank + MORE, most), generator=random)  # (V, K)
    transposed = matrix.t()
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(torch.sparse.mm(transposed, torch.sparse.mm(matrix, basis))).Q
    _, _, rotation = torch.linalg.svd(torch.sparse.mm(matrix, basis), full_matrices=False)
    directions = (basis @ rotation.T)[:, :rank]
    vectors = torch.zeros(symbols, width)
    vectors[:, :rank] = directions * idf[:, None]
    return vectors


def _documents(corpus: Corpus) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the different tokens of each different target, and how often each stands there."""
    first = np.unique(corpus.target_numbers, return_index=True)[1]
    chosen = np.linspace(0, len(first) - 1, min(len(first), MOST_DOCUMENTS)).astype(int)
    rows = corpus.rows("target", np.sort(first[chosen]))
    counted = [np.unique(row[row >= len(SPECIALS)], return_counts=True) for row in rows]
    return [each for each in counted if len(each[0])]


def _weighted(documents: list[tuple[np.ndarray, np.ndarray]], symbols: int) -> tuple[Tensor, Tensor]:
    """Return the matrix (M, V), and the idf of each token (V,)."""
    tokens = np.concatenate([ids for ids, _ in documents])
    idf = np.log((1 + len(documents)) / (1 + np.bincount(tokens, minlength=symbols)))
    idf[: len(SPECIALS)] = 0
    rows = np.repeat(np.arange(len(documents)), [len(ids) for ids, _ in documents])
    values = np.concatenate([1 + np.log(counts) for _, counts in documents]) * idf[tokens]
    length = np.sqrt(np.bincount(rows, values**2, minlength=len(documents)))
    values = values / np.maximum(length, 1e-9)[rows]
    places = torch.from_numpy(np.stack([rows, tokens]).astype(np.int64))
    size = len(documents), symbols
    matrix = torch.sparse_coo_tensor(places, torch.from_numpy(values).float(), size, check_invariants=True).coalesce()
    return matrix, torch.from_numpy(idf).float()


@torch.no_grad()
def start_reader(table: nn.Embedding, corpus: Corpus, seed: int) -> None:
    """Put such vectors into a table, of length 1 on average; a token that no text has stays random."""
    weight = table.weight
    vectors = latent_vectors(corpus, weight.shape[0], weight.shape[1], seed).to(weight.device)
    known = vectors.any(1, keepdim=True)
    length = vectors.norm(dim=1, keepdim=True)[known].mean()
    weight.copy_(torch.where(known, vectors / length, weight))


def start_latent(model: Towers, corpus: Corpus, seed: int) -> None:
    """Put such vectors into the tables of a model; a direction that the documents do not have stays random."""
    for tower in {id(t): t for t in (model.source_tower, model.target_tower)}.values():
        assert isinstance(tower, BagTower), "only the sum of embeddings is a projection"
        weight = tower.table.weight
        vectors = latent_vectors(corpus, weight.shape[0], weight.shape[1], seed)
        with torch.no_grad():
            weight.copy_(torch.where(vectors.any(0), vectors.to(weight.device), SMALL * weight))
