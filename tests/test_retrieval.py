"""Documents that are found for queries: pairs, towers, the objective, hard negatives, rankings, indexes, whole runs."""

from __future__ import annotations

import json
import math
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import weft as package
from commands import Weft, refused
from resuming import resumed_copy, weights_of
from variants import TOWERS
from weft.api import Run
from weft.cli.summary import summarise
from weft.compare.results import read_outputs, write_outputs
from weft.core.batching import batch_of, column_of
from weft.core.errors import UserError
from weft.core.kinds import Batch, Column
from weft.core.pair import Pair
from weft.core.vectors import Vector, row_keys
from weft.data.blocks import blocks_of
from weft.data.cells import Kinds
from weft.data.corpus import write_blocks
from weft.data.prepare import Files, Prepared
from weft.data.sides.document import Document, body, with_excerpts
from weft.data.sides.sides import Sides
from weft.data.sides.table import side_from_json
from weft.data.text.stems import stems
from weft.data.text.tokens import learn
from weft.learn.latent import latent_vectors, start_reader
from weft.learn.model import model_of
from weft.learn.objectives import Contrastive
from weft.learn.retrieval import evaluate_pairs, hard_negatives, ranking_of, vectors_of
from weft.nn.model import Towers
from weft.predict import index as index_module
from weft.predict.lexical import Lexical
from weft.predict.lexicon import Lexicon
from weft.predict.retriever import Retriever
from weft.recipes.cranfield import judgements, records
from weft.runs.folder import RunFolder
from weft.runs.log import LogFile
from weft.runs.report import Quiet
from weft.score.retrieval import RETRIEVAL, Ranking, average_precision, ndcg, recall, reciprocal_rank
from weft.serve.served import Served
from weft.serve.settings import Serve
from weft.settings import compose

WORDS = ["river", "bridge", "castle", "winter", "bakery", "engine", "garden", "violin", "planet", "harbor"]
SMALL: dict[str, Any] = {"encoder.width": 16, "embed.width": 16, "train.evaluations": 2, "train.batch_tokens": 64}


def library(count: int = 60, seed: int = 1) -> list[tuple[str, str]]:
    """Return queries of two words, and documents that have both among others."""
    draw, pairs = random.Random(seed), []
    for number in range(count):
        words = draw.sample(WORDS, 4)
        pairs.append((f"{words[0]} {words[1]}", f"The {' and the '.join(words)} stand here. Number x{number} is new."))
    return pairs


def sides_of(texts: list[str]) -> Sides:
    tokeniser = learn("stems", 0, texts)
    return Sides(tokeniser, Document(tokeniser, 100))


def model_like(name: str, sides: Sides) -> Towers:
    torch.manual_seed(1)
    model = model_of(compose(("flag", TOWERS[name])).spec, sides)
    assert isinstance(model, Towers)
    return model.eval()


@pytest.fixture(scope="module")
def library_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on few pairs, with hard negatives, and the table that it was trained on."""
    table = tmp_path_factory.mktemp("library") / "pairs.tsv"
    table.write_text("query\ttext\n" + "".join(f"{q}\t{t}\n" for q, t in library()), encoding="utf-8")
    settings = {**SMALL, "train.evaluations": 4, "retrieve.negatives": 2, "retrieve.lexical": 0.5}
    options = {"source": "query", "target": "text", "steps": 12, "settings": settings, "reporter": Quiet()}
    return package.train(table, task="retrieve", out=table.with_name("run"), **options)


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "documents.tsv"
    rows = "".join(f"d{n}\t{text}\n" for n, (_, text) in enumerate(library(), 1))
    path.write_text(f"id\ttext\n{rows}", encoding="utf-8")
    return path


# --- pairs


def test_a_document_loses_the_title_that_it_begins_with() -> None:
    assert body(Pair("A title", "A title and more.")) == " and more."
    assert body(Pair("A title", "Other words.")) == "Other words."
    assert body(Pair("same", "same")) == "same"


def test_a_sentence_is_a_query_for_the_rest() -> None:
    text = "The first sentence has words. The second one has more words. No."
    pairs = list(with_excerpts([Pair("query", text), Pair("another", text)], 5))
    assert [p.source for p in pairs if p.target == text] == ["query", "another"]
    excerpts = [p for p in pairs if p.target != text]
    assert len(excerpts) == 2, "a short sentence is no query, and a document is used once"
    for pair in excerpts:
        assert pair.source not in pair.target
        assert sorted((pair.source + " " + pair.target).split()) == sorted(text.split())


def test_a_pair_without_a_query_teaches_by_its_sentences_only() -> None:
    text = "The first sentence has words. The second one has more words."
    assert {p.source for p in with_excerpts([Pair(text, text)], 9)} < set(text.split(". ")) | {text[:29], text[30:]}


def test_stems_are_beginnings_of_words() -> None:
    assert stems("Aerodynamics, aerodynamical (2!)") == ["aerody", "aerody", "2"]


def test_documents_are_saved_with_their_tokeniser() -> None:
    side = sides_of(["one two three"]).target
    loaded = side_from_json(side.to_json(), "target.json")
    assert loaded.rows([Pair("", "two one four")], "target") == side.rows([Pair("", "two one four")], "target")
    with pytest.raises(UserError, match="longest must be a length"):
        side_from_json(side.to_json().replace('"longest": 100', '"longest": -1'), "target.json")


# --- towers


@pytest.mark.parametrize("name", TOWERS)
def test_padding_changes_no_vector_and_every_parameter_learns(name: str) -> None:
    sides = sides_of(["a b c d e f g h"])
    model = model_like(name, sides)
    pairs = [Pair("a b", "c d"), Pair("e f g a c", "h a b c d e"), Pair("g", "b a")]
    rows = sides.encode(pairs)
    vectors = vectors_of([model], [rows.target], "target", sides.shapes.target, torch.device("cpu"))
    for number in range(len(pairs)):
        alone = vectors_of(
            [model], [rows.target[number : number + 1]], "target", sides.shapes.target, torch.device("cpu")
        )
        assert (alone[0] == vectors[number]).all()
    batch = batch_of(rows.source, rows.target, None, sides.shapes)
    Contrastive()(model.train()(batch), batch).total.backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None]


def test_a_bag_counts_words_by_the_logarithm_and_leaves_out_unknown_ones() -> None:
    sides = sides_of(["a b c"])
    model = model_like("retrieve-none-mean-own", sides)
    column = column_of(sides.target.rows([Pair("", "a b a zzz a"), Pair("", "zzz")], "target"), sides.shapes.target)
    tower = model.tower("target")
    table = tower.table.weight
    a, b = (sides.source.encode(letter)[0] for letter in "ab")
    expected = (1 + math.log(3)) * table[a] + table[b]
    torch.testing.assert_close(tower(column)[0], expected)
    assert not tower(column)[1].any()


def test_the_objective_is_that_of_the_design() -> None:
    torch.manual_seed(1)
    vectors = torch.nn.functional.normalize(torch.randn(3, 2, 4), dim=-1)
    batch = Batch.between(Column.of_ids([[4], [5], [6]]), Column.of_ids([[7], [8], [7]]))
    emission = Vector(vectors[:, 0], vectors[:, 1], vectors[:0, 0], torch.tensor(5.0))
    scores = 5 * vectors[:, 0] @ vectors[:, 1].T
    expected = 0.0
    for rows in (scores, scores.T):
        for row in range(3):
            others = [column for column in range(3) if column == row or {row, column} != {0, 2}]  # 0 and 2 are equal
            expected += float(torch.logsumexp(rows[row, others], 0) - rows[row, row]) / 2
    loss = Contrastive()(emission, batch)
    assert float(loss.total) == pytest.approx(expected, rel=1e-5)
    assert int(loss.count) == 3


def test_a_hard_negative_that_is_right_does_not_count() -> None:
    torch.manual_seed(1)
    vectors = torch.nn.functional.normalize(torch.randn(2, 3, 4), dim=-1)
    batch = Batch.between(Column.of_ids([[4], [5]]), Column.of_ids([[7], [8]]))
    right, wrong = (
        Batch(batch.source, batch.given, batch.wanted, others=Column.of_ids(ids)) for ids in ([[7], [7]], [[9], [9]])
    )
    emission = Vector(vectors[:, 0], vectors[:, 1], vectors[:, 2], torch.tensor(5.0))
    assert float(Contrastive()(emission, right).total) < float(Contrastive()(emission, wrong).total)


def test_keys_of_rows_are_equal_for_equal_rows_only() -> None:
    column = Column.of_ids([[4, 5], [5, 4], [4, 5], [4, 5, 6]])
    keys = row_keys(column).tolist()
    assert keys[0] == keys[2]
    assert len(set(keys)) == 3


def test_hard_negatives_are_the_nearest_wrong_documents(tmp_path: Path) -> None:
    pairs = [Pair(query, text) for query, text in library(30)] + [Pair("another", library(1)[0][1])]
    sides = sides_of([pair.target for pair in pairs])
    corpus = write_blocks(blocks_of(pairs), sides, tmp_path / "corpus")
    model, cpu = model_like("retrieve-none-mean-own", sides), torch.device("cpu")
    negatives = hard_negatives(model, corpus, 3, cpu)
    rows = sides.encode(pairs)
    cosines = vectors_of([model], [rows.source], "source", sides.shapes.source, cpu) @ (
        vectors_of([model], [rows.target], "target", sides.shapes.target, cpu).T
    )
    for row, mined in enumerate(negatives):
        wrong = [n for n in range(len(pairs)) if pairs[n].target != pairs[row].target]
        best = max(cosines[row, n] for n in wrong)
        assert cosines[row, mined[0]] == pytest.approx(best)
        assert pairs[row].target not in [pairs[n].target for n in mined]


def test_embeddings_start_from_the_singular_vectors_of_documents(tmp_path: Path) -> None:
    pairs = [Pair(query, text) for query, text in library(40)]
    sides = sides_of([pair.target for pair in pairs])
    corpus = write_blocks(blocks_of(pairs), sides, tmp_path / "corpus")
    vectors = latent_vectors(corpus, len(sides.source), 4, seed=1).numpy()
    counts = np.zeros((len(pairs), len(sides.source)))
    for number, row in enumerate(sides.encode(pairs).target):
        ids, times = np.unique(row, return_counts=True)
        counts[number, ids] = 1 + np.log(times)
    idf = np.log((1 + len(pairs)) / (1 + (counts > 0).sum(0)))
    weighted = counts * idf
    weighted /= np.linalg.norm(weighted, axis=1, keepdims=True)
    exact = np.linalg.svd(weighted, full_matrices=False)[2][:4].T * idf[:, None]
    np.testing.assert_allclose(np.abs(counts @ vectors), np.abs(counts @ exact), atol=0.03)


def test_tokens_that_occur_together_start_with_similar_embeddings(tmp_path: Path) -> None:
    pairs = [Pair("", text) for text in ("sun warm", "warm sun", "rain cold wet", "wet cold", "rain cold")]
    sides = sides_of([pair.target for pair in pairs])
    table = torch.nn.Embedding(len(sides.source) + 1, 2)
    before = table.weight.detach().clone()
    start_reader(table, write_blocks(blocks_of(pairs), sides, tmp_path / "corpus"), seed=1)
    ids = {name: number for number, name in enumerate(sides.source.names)}
    vectors = torch.nn.functional.normalize(table.weight.detach(), dim=1)
    assert vectors[ids["sun"]] @ vectors[ids["warm"]] > 0.99
    assert vectors[ids["rain"]] @ vectors[ids["wet"]] > 0.99
    assert vectors[ids["sun"]] @ vectors[ids["rain"]] < 0.1
    assert torch.equal(table.weight[-1], before[-1]), "no text has this token"


# --- scores


def test_scores_of_a_ranking_are_those_of_trec_eval() -> None:
    ranking = Ranking((2, 5, 40), (1.0, 3.0, 1.0))
    assert recall(ranking, 5) == pytest.approx(2 / 3)
    assert reciprocal_rank(ranking) == 0.5
    assert average_precision(ranking) == pytest.approx((1 / 2 + 2 / 5 + 3 / 40) / 3)
    gained = 1 / math.log2(3) + 3 / math.log2(6)
    assert ndcg(ranking) == pytest.approx(gained / (3 + 1 / math.log2(3) + 1 / math.log2(4)))
    assert RETRIEVAL.score([Ranking((), ())], [["x"]])["map"] == 0


def test_of_equal_scores_the_earlier_document_is_first() -> None:
    scores = np.array([1, 2, 2, 0], np.float32)
    assert ranking_of(scores, [2, 3, 0], [1, 1, 1]).ranks == (2, 4, 3)


def test_an_evaluation_ranks_every_different_target() -> None:
    pairs = [Pair("a", "a b"), Pair("b", "b c", references=("c b b",)), Pair("c", "a b")]
    sides = sides_of(["a b c"])
    model = model_like("retrieve-none-mean-own", sides)
    rankings, loss = evaluate_pairs([model], [sides.encode(pairs)], pairs, [sides], torch.device("cpu"))
    assert [len(ranking.ranks) for ranking in rankings] == [1, 2, 1]
    assert max(rank for ranking in rankings for rank in ranking.ranks) <= 3
    assert loss > 0


# --- whole runs


def test_a_run_finds_documents_by_id(library_run: Run, documents: Path, weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "queries.txt").write_text("river bridge\n\ncastle winter\n", encoding="utf-8")
    done = weft("predict", library_run.path, "queries.txt", "--among", documents, "--nbest", "3")
    assert done.code == 0, done.err
    rows = [line.split("\t") for line in done.lines]
    assert [row[0] for row in rows] == ["river bridge"] * 3 + [""] + ["castle winter"] * 3
    assert all(row[1].startswith("d") and len(row) == 4 for row in rows if row[0])
    scores = [float(row[3]) for row in rows[:3]]
    assert scores == sorted(scores, reverse=True)
    again = weft("predict", library_run.path, "queries.txt", "--among", documents, "--format", "jsonl")
    first = json.loads(again.lines[0])["outputs"][0]
    assert (first["id"], first["text"]) == (rows[0][1], rows[0][2])
    weight = library_run.retriever.weight
    assert first["score"] == pytest.approx(first["cosine"] + weight * first["bm25"], abs=1e-4)


def test_commands_that_are_shown_fit_the_task(library_run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    summarise(library_run)
    assert f"next:  weft predict {library_run.path} QUERIES --among DOCUMENTS" in "".join(capsys.readouterr())
    use = (library_run.path / "README.md").read_text(encoding="utf-8").partition("## Use")[2]
    assert f"weft predict {library_run.path} QUERIES --among DOCUMENTS" in use
    assert "weft inspect" not in use


def test_without_ids_documents_are_numbered_by_lines(library_run: Run, weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("A castle.\n\nThe river and the bridge.\n", encoding="utf-8")
    done = weft("predict", library_run.path, "-", "--among", "plain.txt", stdin="river bridge\n")
    assert done.lines[0].split("\t")[:3] == ["river bridge", "3", "The river and the bridge."]
    assert "empty lines left out: 1" in done.err


def test_search_is_exact_in_blocks(library_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text for _, text in library(50, seed=3)]
    retriever = Retriever(library_run.predictor, 0.7)
    index = retriever.listed(texts)
    queries = ["river bridge", "garden violin planet"]
    whole = list(retriever.search(queries, index, 10))
    monkeypatch.setattr("weft.predict.retriever.BLOCK", 7)
    for found, blocked in zip(whole, retriever.search(queries, index, 10)):
        assert [f.id for f in found] == [f.id for f in blocked]
        assert all(a.score >= b.score for a, b in pairwise(found))
        best = retriever.rankings(queries[:1], [{int(whole[0][0].id) - 1: 1.0}], index)
        assert best["both"][0].ranks == (1,)


def test_a_result_does_not_depend_on_the_other_queries(library_run: Run, documents: Path) -> None:
    queries = ["river bridge", "castle", "winter bakery engine and the garden", "planet"]
    together = library_run.retrieve(queries, documents, nbest=5)
    for query, found in zip(queries, together):
        assert library_run.retrieve([query], documents, nbest=5)[0] == found


def test_an_index_is_built_once_and_again_for_other_documents(
    library_run: Run, documents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Any] = []
    real = index_module._build
    monkeypatch.setattr(index_module, "_build", lambda *given: built.append(given) or real(*given))
    for _ in range(2):
        library_run.retrieve(["river"], documents)
    assert len(built) <= 1
    documents.write_text(documents.read_text() + "new\tA river of rivers.\n")
    found = library_run.retrieve(["river"], documents, nbest=100)[0]
    assert "new" in [f.id for f in found]


def test_more_documents_than_words_fit_are_compared_by_vectors(
    library_run: Run, documents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "LEXICAL_ROWS", 10)
    documents.write_text(documents.read_text() + "x\tAnother document.\n")
    with pytest.warns(UserWarning, match="BM25 is left out: there are more than 10 documents"):
        found = library_run.retrieve(["river"], documents, nbest=3)[0]
    assert all(f.bm25 == 0 for f in found)


def test_a_killed_run_with_hard_negatives_ends_with_the_same_weights(library_run: Run, tmp_path: Path) -> None:
    copy = resumed_copy(library_run.path, tmp_path / "copy")
    assert weights_of(copy) == weights_of(library_run.path)


def test_bm25_is_weighed_on_validation(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("query\ttext\n" + "".join(f"{q}\t{t}\n" for q, t in library(200)))
    options = {"source": "query", "target": "text", "steps": 1, "settings": SMALL, "reporter": Quiet()}
    run = package.train(tmp_path / "pairs.tsv", task="retrieve", out=tmp_path / "run", **options)
    weighed = json.loads((run.path / "log.jsonl").read_text().splitlines()[-1])["lexical"]
    assert weighed["both"] >= weighed["vectors"]
    assert run.retriever.weight == weighed["weight"]


def test_documents_are_held_out_with_all_their_queries(tmp_path: Path) -> None:
    rows = [(f"query {n}", f"document {n % 40}") for n in range(200)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{query}\t{text}\n" for query, text in rows))
    prepared = Prepared(Files((str(tmp_path / "pairs.tsv"),), kinds=Kinds("text", "document"), hold_out=0.2))
    held_out = {pair.target for pair in prepared.valid}
    assert held_out
    assert held_out.isdisjoint(pair.target for pair in prepared.training())


def test_scores_say_what_each_part_brings(library_run: Run, documents: Path, weft: Weft, tmp_path: Path) -> None:
    queries = "".join(f"q{n}\t{query}\n" for n, (query, _) in enumerate(library(10), 1))
    (tmp_path / "queries.tsv").write_text(f"id\tquery\n{queries}", encoding="utf-8")
    judged = "".join(f"q{n} 0 d{n} 1\n" for n in range(1, 11))
    (tmp_path / "qrels.txt").write_text(f"{judged}q1 0 unknown 2\nq99 0 d1 1\n", encoding="utf-8")
    command = ("evaluate", library_run.path, "queries.tsv", "--among", documents, "--qrels", "qrels.txt")
    done = weft(*command, "--json")
    result = json.loads(done.out)
    assert result["n"] == 10
    assert set(result["alone"]) == {"vectors", "bm25"}
    assert {"ndcg@10", "map", "mrr", "recall@1", "recall@5", "recall@10"} <= set(result)
    assert "left out 1 document that is not among those given (unknown)" in done.err
    assert "left out 1 query that is not among those given (q99)" in done.err
    assert "bm25 alone" in weft(*command).out


def test_pairs_are_scored_among_their_targets_or_among_a_file(library_run: Run, weft: Weft, tmp_path: Path) -> None:
    table = library_run.path.with_name("pairs.tsv")
    alone = json.loads(weft("evaluate", library_run.path, table, "--json").out)
    among = json.loads(weft("evaluate", library_run.path, table, "--among", table, "--json").out)
    assert alone["n"] == among["n"] == 60
    assert alone["mrr"] == pytest.approx(among["mrr"])
    done = weft("evaluate", library_run.path, table, "--lines", "lines.tsv")
    assert done.code == 0, done.err
    assert (tmp_path / "lines.tsv").read_text().splitlines()[1].split("\t")[2].startswith("rank ")


def test_two_runs_find_together(library_run: Run, documents: Path) -> None:
    both = package.load(library_run.path, library_run.path)
    alone = library_run.retrieve(["river bridge"], documents)[0]
    for one, two in zip(alone, both.retrieve(["river bridge"], documents)[0]):
        assert one.cosine == pytest.approx(two.cosine, abs=1e-5)


# --- mistakes


def test_mistakes_with_documents_are_told(library_run: Run, documents: Path, weft: Weft, tmp_path: Path) -> None:
    run = library_run.path
    (tmp_path / "queries.tsv").write_text("id\tquery\n1\triver\n", encoding="utf-8")
    twice = tmp_path / "twice.tsv"
    twice.write_text("id\ttext\n7\tA river.\n7\tA castle.\n", encoding="utf-8")
    (tmp_path / "empty.txt").write_text("\n\n", encoding="utf-8")
    refused(weft("predict", run, "-", stdin="river\n"), "no documents to search were given", "--among")
    refused(weft("predict", run, "-", "--among", "missing.tsv", stdin="a\n"), "missing.tsv")
    refused(weft("predict", run, "-", "--among", twice, stdin="a\n"), "the document id 7 occurs several times")
    (tmp_path / "unclear.jsonl").write_text('{"title": "A river.", "body": "A castle."}\n', encoding="utf-8")
    done = weft("predict", run, "-", "--among", "unclear.jsonl", stdin="a\n")
    refused(done, "name the column of the target `text`")
    assert "--target" not in done.err
    (tmp_path / "clear.jsonl").write_text('{"title": "A river.", "text": "A castle."}\n', encoding="utf-8")
    assert weft("predict", run, "-", "--among", "clear.jsonl", stdin="river\n").code == 0
    refused(weft("predict", run, "-", "--among", "-", stdin="a\n"), "--among -")
    refused(weft("predict", run, "-", "--among", "empty.txt", stdin="a\n"), "there is no document in this file")
    refused(weft("evaluate", run, "queries.tsv", "--qrels", "q.txt"), "--qrels needs --among", "--among")
    wrong = {
        "1 0 2": "four fields",
        "1 0 d1 x": "q.txt:1",
        "": "no judgement",
        "9 0 d1 1": "none of the queries has",
        "1 0 d1 0": "no relevance in this file is above 0",
    }
    for content, said in wrong.items():
        (tmp_path / "q.txt").write_text(f"{content}\n", encoding="utf-8")
        done = weft("evaluate", run, "queries.tsv", "--among", documents, "--qrels", "q.txt")
        refused(done, said)


def test_what_needs_outputs_refuses_a_run_that_finds_documents(library_run: Run, weft: Weft) -> None:
    refused(weft("inspect", library_run.path, "river"), "this run finds documents for queries")
    with pytest.raises(UserError, match="cannot be served"):
        Served("library", library_run.path, Serve())


def test_documents_need_a_run_that_finds_them(tiny_run: Run, documents: Path, weft: Weft) -> None:
    done = weft("predict", tiny_run.path, "-", "--among", documents, stdin="abcd\n")
    refused(done, "but this run was trained with --task transduce", "--among")


MISTAKES = {
    "the head alone": ({"head": {"kind": "vector"}}, "head.kind=vector needs task=retrieve, but task=transduce"),
    "stems to write": ({"target": {"tokens": "stems"}}, "tokens=stems cannot be turned back into text"),
    "settings of another task": (
        {"retrieve": {"negatives": 2}},
        "retrieve.negatives has no effect without task=retrieve",
    ),
    "latent words in order": ({"task": "retrieve", "retrieve": {"latent": True}}, "retrieve.latent=true"),
    "a tag": ({"task": "retrieve", "data": {"tag": "language"}}, "data.tag has no effect with task=retrieve"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_settings_that_do_not_go_together_are_refused(name: str) -> None:
    settings, said = MISTAKES[name]
    with pytest.raises(UserError, match=said):
        compose(("flag", settings))


# --- what BM25 knows of words

ASKED = [Pair("what rivers", "The river is long."), Pair("what castles", "A castle stands."), Pair("x", "x")]


def test_words_that_queries_have_and_documents_do_not_count_little() -> None:
    lexicon = Lexicon.of(ASKED, "porter")
    assert lexicon.counts["what"] == (2, 0, 0)
    assert lexicon.counts["river"] == (1, 1, 1)
    assert lexicon.documents == 3
    assert lexicon.weight("what", 0, 10) == pytest.approx(0.4 * math.log(14 / 0.5))
    assert lexicon.weight("river", 1, 10) == pytest.approx(0.68 * math.log(14 / 2.5))
    assert lexicon.weight("new", 1, 10) == pytest.approx(0.6 * math.log(14 / 1.5))


def test_a_lexicon_is_saved_and_loaded() -> None:
    lexicon = Lexicon.of(ASKED, "prefix")
    assert Lexicon.from_json(lexicon.to_json()) == lexicon


@pytest.mark.parametrize(
    "change",
    [{"stemmer": "other"}, {"stems": {"a": [1, 2, 0]}}, {"stems": {"a": [1]}}, {"documents": None}, {"format": 9}],
)
def test_a_lexicon_that_weft_did_not_write_is_refused(change: dict[str, Any]) -> None:
    content = {**json.loads(Lexicon.of(ASKED, "prefix").to_json()), **change}
    with pytest.raises(ValueError, match=r"not what Weft writes|do not fit together"):
        Lexicon.from_json(json.dumps(content))


def test_scores_are_those_of_the_formula() -> None:
    texts = ["the river is long and the river is old", "a castle", "the long road"]
    lexical = Lexical.of(texts, Lexicon())
    scores = lexical.scores("long rivers, new")
    weights = [math.log(4 / 2.5), math.log(4 / 0.5)]
    lengths = [len(text.split()) for text in texts]
    expected = [weights[0] / (1 + 1.2 * (0.25 + 0.75 * n / (sum(lengths) / 3))) for n in lengths]
    expected[1] = 0.0
    torch.testing.assert_close(
        torch.tensor(scores), torch.tensor(expected) / (weights[0] + 2 * weights[1]), atol=1e-5, rtol=1e-4
    )


def test_the_stemmer_that_finds_more_on_validation_is_used(library_run: Run) -> None:
    run = library_run
    assert (run.folder.path / "words.json").is_file()
    assert run.retriever.lexicon.counts
    assert LogFile(run.folder.log).final()["lexical"]["stemmer"] == run.retriever.lexicon.stemmer


# --- comparisons


def test_rankings_of_a_comparison_are_written_and_read(tmp_path: Path) -> None:
    folder, rankings = RunFolder(tmp_path), [Ranking((3, 1), (1.0, 2.0)), Ranking((), ())]
    write_outputs(folder, "valid.jsonl", [Pair("a", "b"), Pair("c", "d")], rankings)
    assert read_outputs(folder, "valid.jsonl") == (rankings, [["b"], ["d"]])


def test_cranfield_is_read() -> None:
    lines = ".I 1\n.T\na title\n.A\nwho\n.W\na title and\n  text\n.I 2\n.W\nx\n".splitlines(keepends=True)
    first, second = records(lines)
    assert first == {"I": "1", "T": "a title", "A": "who", "W": "a title and text"}
    assert second == {"I": "2", "W": "x"}
    assert judgements(["1 184 2\n", "1 29 -1\n", "2 3 5\n"]) == {"1": {"184": 3.0, "29": 1.0}, "2": {"3": 0.0}}


def test_directions_are_as_many_as_few_tokens_allow(tmp_path: Path) -> None:
    pairs = [Pair("", " ".join("abc"[(number + k) % 3] * 2 for k in range(1 + number % 3))) for number in range(60)]
    sides = sides_of([pair.target for pair in pairs])
    corpus = write_blocks(blocks_of(pairs), sides, tmp_path / "corpus")
    vectors = latent_vectors(corpus, len(sides.source), 32, seed=1)
    assert vectors.shape == (len(sides.source), 32)
    assert vectors.isfinite().all()
    assert not vectors[:, len(sides.source) :].any()


def test_the_card_says_what_vectors_and_bm25_bring(library_run: Run) -> None:
    pytest.importorskip("bm25s")
    page = (library_run.path / "README.md").read_text(encoding="utf-8")
    parts = LogFile(library_run.folder.log).final()["lexical"]
    assert "These scores are those of the vectors alone" in page
    assert f"BM25, with a weight of {parts['weight']:g}" in page
    assert f"{parts['vectors']:.2f} for the vectors, {parts['bm25']:.2f} for BM25" in page
