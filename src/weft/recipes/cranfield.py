"""The recipe of documents that are found for queries: the Cranfield collection."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.recipes.study import PUBLIC, Files, Recipe, Study, public_paths

if TYPE_CHECKING:
    from weft.compare.compare import Compared

NAMES = "cranfield/cran.all.1400", "cranfield/cran.qry", "cranfield/cranqrel"
TABLE = "train.tsv"
_FIELD = re.compile(r"\.([TABW])\s*")


def records(lines: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """Yield the fields of each record, by the letter that begins them: I, T (title), W (text)."""
    record: dict[str, str] = {}
    field = ""
    for line in lines:
        if line.startswith(".I"):
            if record:
                yield record
            record, field = {"I": line[2:].strip()}, ""
        elif found := _FIELD.fullmatch(line.rstrip("\n")):
            field = found[1]
        elif field:
            record[field] = f"{record.get(field, '')} {' '.join(line.split())}".strip()
    if record:
        yield record


def data(folder: Path) -> Files:
    """Write the documents as a table; a text begins with its title, and is left out where there is none."""
    documents, *_ = public_paths(*NAMES)
    folder.mkdir(parents=True, exist_ok=True)
    rows = ["id\ttitle\ttext\n"]
    with documents.open(encoding="utf-8", errors="replace") as lines:
        rows += [f"{r['I']}\t{r['T']}\t{r['W']}\n" for r in records(lines) if r.get("T") and r.get("W")]
    (folder / TABLE).write_text("".join(rows), encoding="utf-8")
    return Files(str(folder / TABLE))


def judgements(lines: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the gain of documents by query: 5 − code, where 1 is the best and −1 the least of codes."""
    judged: dict[str, dict[str, float]] = {}
    for cells in (line.split() for line in lines):
        if len(cells) >= 3:
            code = int(cells[2])
            judged.setdefault(cells[0], {})[cells[1]] = 1.0 if code == -1 else max(0.0, 5.0 - code)
    return judged


def by_queries(compared: Compared) -> list[str]:
    """Return nDCG@10 of the collection's own queries, by vectors, by BM25, and by both."""
    from weft.api import load  # torch, which `weft recipe list` does not need
    from weft.compare.results import ComparisonFolder
    from weft.data.formats import ReadReport

    _, asked, judged = public_paths(*NAMES)
    with asked.open(encoding="utf-8", errors="replace") as lines:
        queries = [record["W"] for record in records(lines)]  # the judgements count them
    with judged.open(encoding="utf-8") as lines:
        gains = judgements(lines)
    table = ["| | vectors | BM25 | both |", "|---|---:|---:|---:|"]
    labels = {each.name: each.label for each in compared.plan.combinations}
    for result in (result for result in compared.results if result.valid and result.seed == 1):
        run = load(ComparisonFolder(compared.path).run(result.cell, result.seed).path)
        index = run.retriever.index(str(compared.path.parent / "data" / compared.path.name / TABLE), ReadReport())
        rows = index.rows_by_id()
        relevant = {q: {rows[d]: gain for d, gain in each.items() if d in rows and gain} for q, each in gains.items()}
        kept = {query: each for query, each in relevant.items() if each}
        scores = run.evaluate_rankings(
            run.retriever.rankings([queries[int(query) - 1] for query in kept], list(kept.values()), index)
        )
        parts = [*(each["ndcg@10"] for each in scores.get("alone", {}).values()), scores["ndcg@10"]]
        table.append(f"| {labels[result.cell]} | " + " | ".join(f"{part:.1f}" for part in parts) + " |")
    return [
        "nDCG@10 of the queries that engineers asked, which no model has seen, among all documents:",
        "",
        *table,
        "",
    ]


def cranfield() -> Recipe:
    variants: dict[str, dict[str, Any]] = {
        "random start": {"retrieve.latent": False},
        "latent start": {"retrieve.latent": True},
        "latent start, titles alone": {"retrieve.latent": True, "retrieve.excerpts": 0},
    }
    settings = {
        **{"task": "retrieve", "data.source": "title", "data.target": "text", "source.tokens": "stems"},
        **{"encoder.kind": "none", "pool.kind": "mean", "encoder.width": 256, "embed.width": 256},
        **{"retrieve.excerpts": 2, "retrieve.negatives": 1, "train.dropout": 0.3, "train.rate": 0.001},
        **{"train.weight_decay": 0.0, "train.batch_tokens": 32_768, "train.select": "mrr"},
    }
    return Recipe(
        "cranfield",
        "Which of 1,398 abstracts about aerodynamics belong to a query? There are no queries to learn from, only "
        "titles and texts. What do learned vectors add to BM25, and what should they start from?",
        "The data are the Cranfield collection (Cleverdon 1967), in cranfield/cran.all.1400, cran.qry and cranqrel. "
        "Titles, and sentences of each text, are the queries of training; the score `mrr` is that of held-out titles. "
        f"{PUBLIC}",
        CRANFIELD_LEARNS,
        (Study("cranfield", data, variants, settings, "1Mtokens", also=by_queries),),
    )


CRANFIELD_LEARNS = (
    "Held-out titles do not tell the variants apart (there are few of them), but the engineers' queries do. Vectors "
    "that start from the singular vectors of the documents have an nDCG@10 of 45.6, and those with a random start "
    "28.9; BM25 has 43.0. Using sentences as queries, in addition to titles, raises the nDCG@10 of the vectors by 2 "
    "points. BM25 and the vectors together have 45.2, which is not more than the vectors alone: the weight of BM25 is "
    "chosen on titles."
)
