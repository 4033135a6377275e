"""Several references: a list of texts in the target field. One of them each epoch in training, all in evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data.batches import References
from weft.data.corpus import Corpus, is_corpus, write_corpus
from weft.data.pairs import Columns, ReadReport, read_pairs
from weft.data.prepare import Files, Prepared, keep_given
from weft.data.sides.sides import Sides
from weft.data.text.tokens import learn

TWO = Pair("ab", "x", references=("yy",))
THREE = Pair("c", "zzz", "en", ("V",), ("y", "zzz"))
ONE = Pair("d", "x")


def put(folder: Path, *records: object) -> str:
    path = folder / "p.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def corpus_of(pairs: list[Pair], folder: Path) -> Corpus:
    tokens = learn("characters", 0, ["abcdxyz"], ())
    return write_corpus(pairs, tokens, tokens, folder / "corpus")


def targets(corpus: Corpus, epoch: int, seed: int = 1, batch_tokens: int = 100) -> dict[str, list[str]]:
    """What each source is learned with in an epoch."""
    tokens = learn("characters", 0, ["abcdxyz"], ())
    learned: dict[str, list[str]] = {}
    for rows in corpus.epoch(epoch, batch_tokens, seed):
        batch = corpus.batch(rows)
        for source, target in zip(batch.source.values.tolist(), batch.wanted.values.tolist()):
            learned.setdefault(tokens.decode(source), []).append(tokens.decode(target))
    return learned


# Reading


def test_a_list_of_texts_is_several_references(tmp_path: Path) -> None:
    path = put(tmp_path, {"src": "ab", "tgt": ["x", "yy"]}, {"src": "d", "tgt": "x"}, {"src": "e", "tgt": ["z"]})
    assert list(read_pairs([path])) == [TWO, ONE, Pair("e", "z")]


def test_parquet_lists_are_references_too(tmp_path: Path) -> None:
    path = str(tmp_path / "p.parquet")
    pq.write_table(pa.table({"src": ["ab", "e"], "tgt": [["x", "yy"], ["z"]]}), path)
    assert list(read_pairs([path])) == [TWO, Pair("e", "z")]


def test_tags_and_features_stand_beside_references(tmp_path: Path) -> None:
    path = put(tmp_path, {"src": "c", "tags": "V", "tgt": ["zzz", "y", "zzz"], "lang": "en"})
    assert list(read_pairs([path], Columns("src", "tgt", "tags", "lang"))) == [THREE]


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ([], "the field 'tgt' is an empty list"),
        (["x", 1], "the field 'tgt' is a list, but not of texts"),
        ([["C4"], []], "the field 'tgt' is a list of lists, but not of numbers or notes"),
        (["x", " "], "the target is empty"),
        (["x", "x" * 99], "the target has 99 characters, but the limit is 50"),
    ],
)
def test_a_list_that_holds_no_references_is_a_bad_row(tmp_path: Path, target: object, what: str) -> None:
    path = put(tmp_path, {"src": "ab", "tgt": "x"}, {"src": "ab", "tgt": target})
    with pytest.raises(UserError) as caught:
        list(read_pairs([path], longest=50))
    assert (caught.value.what, caught.value.where) == (what, f"{path}:2")
    report = ReadReport()
    assert len(list(read_pairs([path], longest=50, on_bad_line="skip", report=report))) == 1
    assert report.skipped == 1


def test_text_in_a_table_is_never_parsed_for_references(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_text('ab\t["x", "yy"]\n', encoding="utf-8")
    assert list(read_pairs([str(path)])) == [Pair("ab", '["x", "yy"]')]


def test_pairs_given_in_memory_keep_their_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    columns = Columns("source", "target", "features", "tag")
    assert list(read_pairs([keep_given([THREE, ONE])], columns)) == [THREE, ONE]


# Learning


def test_an_epoch_has_one_reference_of_each_pair(tmp_path: Path) -> None:
    corpus = corpus_of([TWO, ONE, THREE], tmp_path)
    assert (corpus.pairs, len(corpus)) == (3, 6)
    seen: dict[str, set[str]] = {}
    for epoch in range(30):
        learned = targets(corpus, epoch)
        assert {source: len(texts) for source, texts in learned.items()} == {"ab": 1, "c": 1, "d": 1}
        for source, (text,) in learned.items():
            seen.setdefault(source, set()).add(text)
    assert seen == {"ab": {"x", "yy"}, "c": {"zzz", "y"}, "d": {"x"}}


def test_the_choice_is_a_function_of_seed_and_epoch_alone(tmp_path: Path) -> None:
    corpus = corpus_of([TWO, THREE] * 20, tmp_path)
    for epoch in (0, 5):
        assert targets(Corpus(corpus.folder), epoch) == targets(corpus, epoch)
    assert len({json.dumps(targets(corpus, epoch, seed), sort_keys=True) for epoch in (0, 1) for seed in (1, 2)}) == 4


def test_references_are_drawn_evenly_among_those_that_fit(tmp_path: Path) -> None:
    references = References(np.repeat(np.arange(3, dtype=np.int32), [3, 1, 2]))
    rows = np.array([0, 2, 3, 4, 5], dtype=np.int32)  # row 1 does not fit
    drawn = np.array([references(rows, 7, epoch) for epoch in range(2000)])
    assert drawn.shape == (2000, 3)
    assert 900 < (drawn[:, 0] == 0).sum() < 1100
    assert set(drawn[:, 0]) == {0, 2}
    assert set(drawn[:, 1]) == {3}
    assert 900 < (drawn[:, 2] == 4).sum() < 1100


def test_a_pair_of_which_no_reference_fits_is_left_out(tmp_path: Path) -> None:
    corpus = corpus_of([TWO, Pair("b", "x" * 50, references=("y" * 60, "z")), Pair("a", "x" * 70)], tmp_path)
    assert targets(corpus, 0, batch_tokens=20)["b"] == ["z"]
    assert "a" not in targets(corpus, 0, batch_tokens=20)


def test_a_corpus_without_references_has_no_trace_of_them(tmp_path: Path) -> None:
    corpus = corpus_of([ONE, ONE], tmp_path)
    assert corpus.pairs == len(corpus) == 2
    assert not (corpus.folder / "pairs.rows").exists()


def test_a_corpus_that_lost_its_references_is_not_whole(tmp_path: Path) -> None:
    corpus = corpus_of([TWO], tmp_path)
    (corpus.folder / "pairs.rows").unlink()
    assert not is_corpus(corpus.folder)


# Preparing


def records(count: int) -> list[dict[str, object]]:
    return [{"src": f"s{n}", "tgt": [f"t{n}", f"u{n}"] if n % 2 else f"t{n}"} for n in range(count)]


def test_references_count_as_one_pair_and_all_their_symbols_are_known(tmp_path: Path) -> None:
    prepared = Prepared(Files((put(tmp_path, *records(100)),)), root=tmp_path / "cache")
    assert prepared.survey.pairs == 100
    assert prepared.training_pairs == sum(1 for _ in prepared.training()) == 100 - prepared.held_out
    assert any(pair.references for pair in prepared.valid)
    source, target = prepared.tokenisers(("characters", 0), ("characters", 0), False)
    assert "u" in target.symbols
    assert prepared.corpus(Sides(source, target)).pairs == prepared.training_pairs
    again = Prepared(prepared.files, root=tmp_path / "cache")
    assert again.valid == prepared.valid


def test_a_validation_pair_that_shares_a_reference_with_training_is_counted(tmp_path: Path) -> None:
    train = put(tmp_path, *records(60))
    valid = tmp_path / "valid.jsonl"
    rows = [{"src": "s1", "tgt": "u1"}, {"src": "s2", "tgt": ["no", "t2"]}, {"src": "s3", "tgt": ["no", "none"]}]
    valid.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert Prepared(Files((train,), (str(valid),)), root=tmp_path / "cache").repeats() == 2


# From end to end


def test_a_run_learns_from_references_and_is_scored_on_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    path = put(tmp_path, *records(80))
    small = {"encoder.width": 16, "decoder.width": 16, "embed.width": 16}
    whole = weft.train(path, out=tmp_path / "whole", steps=6, settings=small)
    resumed = weft.train(path, out=tmp_path / "resumed", steps=6, settings=small)
    weights = "best/weights.safetensors"
    assert (whole.path / weights).read_bytes() == (resumed.path / weights).read_bytes()
    output = whole.predict(["s5"])[0].text
    assert whole.evaluate([Pair("s5", "other", references=(output,))])["exact"] == 100.0
    assert whole.evaluate([Pair("s5", "other", references=("else",))])["exact"] == 0.0
