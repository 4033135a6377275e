"""`weft predict --among` and `weft evaluate --among`: documents that are found for queries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli import common

if TYPE_CHECKING:
    from weft.api import Run
    from weft.predict.index import AnyIndex
    from weft.predict.retriever import Found

CHUNK = 256  # queries that are read and answered together
FORMATS = ("tsv", "jsonl", "text")


def index(run: Run, among: str) -> AnyIndex:
    """Return the index of a file of documents; the first time, building it is shown."""
    from weft.data.formats import ReadReport

    report = ReadReport()
    with common.progress("indexing", 0) as tick:
        built = run.retriever.index(among, report, tick)
    for note in report.notes:
        common.complain(note, label="note")
    if report.blank:
        common.complain(f"{among}: empty lines left out: {report.blank:,}", label="note")
    return built


def predict_among(run: Run, queries: Iterable[str], among: str, nbest: int, format: str) -> int:
    """Print the best documents of each query; return the number of queries."""
    documents, count, iterator = index(run, among), 0, iter(queries)
    while chunk := list(islice(iterator, CHUNK)):
        for number, (query, found) in enumerate(zip(chunk, run.retriever.search(chunk, documents, nbest)), count + 1):
            for line in _lines(query, found, format, number):
                common.write_line(line)
        common.flush()
        count += len(chunk)
    return count


def _lines(query: str, found: Sequence[Found], format: str, number: int) -> Iterator[str]:
    if format == "jsonl":
        outputs = [{"id": f.id, "text": f.text, "score": round(f.score, 6), "cosine": round(f.cosine, 6),
                    "bm25": round(f.bm25, 6)} for f in found]  # fmt: skip
        best = found[0].text if found else ""
        yield json.dumps({"line": number, "source": query, "prediction": best, "outputs": outputs}, ensure_ascii=False)
    elif format == "text":
        yield common.one_line(found[0].text) if found else ""
    else:
        for f in found:
            yield "\t".join([*(common.one_line(cell, "\t") for cell in (query, f.id, f.text)), f"{f.score:.4f}"])
        if not found:
            yield "\t\t\t"


def evaluate_among(run: Run, queries: Sequence[str], among: str, qrels: Path | None) -> dict[str, Any]:
    """Return the scores of queries whose documents stand in a file, by both parts together and by each alone."""
    documents = index(run, among)
    if qrels is not None:
        texts, relevant, notes = _judged(run, queries, documents, str(qrels))
    else:
        texts, relevant, notes = _paired(run, queries, documents, among)
    for note in notes:
        common.complain(note, label="note")
    return run.evaluate_rankings(run.retriever.rankings(texts, relevant, documents))


def _judged(
    run: Run, queries: Sequence[str], documents: AnyIndex, qrels: str
) -> tuple[list[str], list[Mapping[int, float]], list[str]]:
    """Return the queries that a file of judgements names, and the relevant documents of each."""
    from weft.core.errors import UserError
    from weft.data.documents import SHOWN, check_ids, read_judgements, read_queries
    from weft.data.formats import ReadReport

    report, judged, rows = ReadReport(), read_judgements(qrels), documents.rows_by_id()
    asked: dict[str, str] = {}
    for each in (query for path in queries for query in read_queries(path, run.columns.source, report)):
        if each[0] in asked:
            check_ids({each[0]: 2}, "query id", ", ".join(queries))
        asked[each[0]] = each[1]
    unknown = {d for each in judged.values() for d in each} - set(rows)
    notes = [_note("document", "documents", sorted(unknown), qrels)] if unknown else []
    missing = [query for query in judged if query not in asked]
    notes += [_note("query", "queries", missing, qrels)] if missing else []
    relevant = {
        query: {rows[d]: gain for d, gain in each.items() if d in rows and gain > 0}
        for query, each in judged.items()
        if query in asked
    }
    texts = [asked[query] for query, each in relevant.items() if each]
    if not any(gain > 0 for each in judged.values() for gain in each.values()):
        what = "no document is judged to be relevant: no relevance in this file is above 0"
        raise UserError(what, qrels, "give judgements with relevances above 0, such as: 1 0 184 3")
    if not texts:
        shown = ", ".join(list(judged)[:SHOWN])
        raise UserError(
            f"none of the queries has a relevant document: the relevance judgements are for the ids {shown}, …",
            qrels,
            "check that the columns `id` of queries and documents hold the ids that the file names",
        )
    return texts, [each for each in relevant.values() if each], notes


def _note(one: str, many: str, ids: Sequence[str], where: str) -> str:
    from weft.data.documents import SHOWN
    from weft.data.prepare import counted

    shown = f"{', '.join(ids[:SHOWN])}{', …' * (len(ids) > SHOWN)}"
    missing = f"that {'is' if len(ids) == 1 else 'are'} not among those given"
    return f"{where}: left out {counted(len(ids), one, many)} {missing} ({shown})"


def _paired(
    run: Run, queries: Sequence[str], documents: AnyIndex, among: str
) -> tuple[list[str], list[Mapping[int, float]], list[str]]:
    """Return the queries of a table, and where the target of each stands among the documents."""
    from weft.core.errors import UserError
    from weft.data.pairs import read_pairs

    kinds, longest = run.predictor.sides.kinds, run.spec.data.longest
    pairs = list(
        read_pairs(queries, run.columns, on_bad_line=common.on_bad_line() or "stop", longest=longest, kinds=kinds)
    )
    rows = {documents.text(row): row for row in reversed(range(documents.rows))}
    relevant = [{rows[text]: 1.0 for text in pair.targets if text in rows} for pair in pairs]
    missing = sum(not each for each in relevant)
    if missing == len(pairs):
        what = "no target of these pairs is among the documents"
        raise UserError(what, f"--among {among}", "check the columns, or give --qrels FILE")
    notes = [f"pairs left out because their target is not among the documents: {missing:,}"] if missing else []
    kept = [(pair.source, each) for pair, each in zip(pairs, relevant) if each]
    return [query for query, _ in kept], [each for _, each in kept], notes
