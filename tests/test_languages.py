"""Many languages in one model: tags from file names, pairs both ways round, tags evened out."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import weft as package
from commands import Weft, refused
from resuming import resumed_copy, weights_of
from weft.api import Run
from weft.core.pair import Pair
from weft.data.batches import MOST_REPEATS, Mixing, plan
from weft.data.columns import Columns
from weft.data.pairs import read_pairs
from weft.data.prepare import Files, Prepared
from weft.data.sides.sides import Sides
from weft.data.text.tokens import learn, marks_of
from weft.learn.back_translation import BackTranslation
from weft.learn.loop import Trainer
from weft.learn.model import model_of
from weft.predict.plans import make_plan
from weft.runs.report import Quiet
from weft.settings import compose

SMALL = {**{f"{part}.width": 16 for part in ("embed", "encoder", "decoder")}, "train.evaluations": 1}
BOTH_WAYS: dict[str, Any] = {"data.tag_from": "extension", "data.swap_pairs": True}
SWAPPED = Columns(tag_from="extension", swap=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words in three «languages»: as they are, in capitals, and reversed; of the last there are few."""
    folder, draw = tmp_path_factory.mktemp("languages"), random.Random(1)
    words = sorted({"".join(draw.choices("abcdefgh", k=draw.randint(3, 7))) for _ in range(120)})
    for name, change in (("aa", str), ("bb", str.upper), ("cc", lambda word: word[::-1])):
        (folder / f"train.{name}").write_text("".join(f"{change(word)}\n" for word in words))
        (folder / f"few.{name}").write_text("".join(f"{change(word)}\n" for word in words[:12]))
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    files = [f"{folder}/train.aa:{folder}/train.bb", f"{folder}/few.aa:{folder}/few.cc"]
    return package.train(files, out=folder / "run", steps=6, settings={**SMALL, **BOTH_WAYS}, reporter=Quiet())


def test_the_ending_of_the_target_file_is_the_tag_and_pairs_come_both_ways_round(folder: Path) -> None:
    rows = list(read_pairs([f"{folder}/few.aa:{folder}/few.cc"], SWAPPED))
    assert [(p.source, p.target, p.tag) for p in rows[:2]] == [
        (rows[0].source, rows[0].source[::-1], "cc"),
        (rows[0].source[::-1], rows[0].source, "aa"),
    ]
    assert len(rows) == 24


def test_each_reference_is_swapped_too(tmp_path: Path) -> None:
    table = tmp_path / "pairs.jsonl"
    table.write_text(json.dumps({"source": "a", "target": ["b", "c"]}) + "\n")
    rows = [(pair.source, pair.target) for pair in read_pairs([str(table)], Columns(swap=True))]
    assert rows == [("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")]


def test_a_pair_and_the_same_pair_swapped_are_held_out_together(folder: Path, tmp_path: Path) -> None:
    prepared = Prepared(Files((f"{folder}/train.aa:{folder}/train.bb",), columns=SWAPPED, hold_out=0.2), tmp_path)
    held_out = {frozenset((p.source, p.target)) for p in prepared.valid}
    learned = {frozenset((p.source, p.target)) for p in prepared.training()}
    assert len(prepared.valid) == 2 * len(held_out) > 20
    assert not held_out & learned


def test_swapped_pairs_count_as_rows_of_the_given_way(folder: Path, tmp_path: Path) -> None:
    paths = f"{folder}/train.aa:{folder}/train.bb", f"{folder}/few.aa:{folder}/few.cc"
    survey = Prepared(Files(paths, columns=SWAPPED), tmp_path).survey
    words = len((folder / "train.aa").read_text().splitlines())
    assert survey.tags == {"bb": words, "cc": 12}
    assert set(survey.marks) == {"<aa>", "<bb>", "<cc>"}


def test_rare_tags_are_used_more_often_the_higher_the_temperature() -> None:
    groups = np.array([0] * 900 + [1] * 100, dtype=np.int32)
    rows, counts = np.arange(1000, dtype=np.int32), {}
    for temperature in (1.0, 2.0, 100.0):
        mixed = Mixing(groups, temperature)(rows.copy(), np.random.default_rng(1))
        counts[temperature] = int((groups[mixed] == 1).sum()), len(mixed)
    assert counts[1.0] == (100, 1000)
    assert counts[2.0][0] == pytest.approx(250, abs=20)  # √900 : √100 = 3 : 1
    assert counts[100.0][0] == pytest.approx(500, abs=30)
    assert all(total == pytest.approx(1000, abs=50) for _, total in counts.values())


def test_a_tag_of_ten_rows_beside_one_of_very_many_is_not_repeated_without_end() -> None:
    groups = np.array([0] * 200_000 + [1] * 10, dtype=np.int32)
    mixed = Mixing(groups, 5.0)(np.arange(len(groups), dtype=np.int32), np.random.default_rng(1))
    _, times = np.unique(mixed[mixed >= 200_000], return_counts=True)
    assert times.tolist() == [MOST_REPEATS] * 10


def test_an_epoch_of_evened_tags_is_a_function_of_seed_and_epoch() -> None:
    lengths = np.full(60, 5, dtype=np.int32)
    mixing = Mixing(np.array([0] * 50 + [1] * 10, dtype=np.int32), 5.0)
    first, again, next_epoch = (plan(lengths, lengths, 50, 1, n, mixing=mixing).rows.tolist() for n in (1, 1, 2))
    assert first == again != next_epoch


def test_the_autopilot_evens_out_tags_and_says_why(run: Run) -> None:
    reasons = {row[0]: row for row in json.loads((run.path / "choices.json").read_text())["reasons"]}
    assert run.spec.data.tag_temperature > 1
    assert "the tag cc" in reasons["data.tag_temperature"][2]


def test_the_tag_before_both_is_read_by_encoder_and_decoder(folder: Path) -> None:
    pair = Pair("abc", tag="de")
    tokeniser = learn("characters", 0, ["abc"], marks_of(pair))
    tokeniser.tag_at = "both"
    assert tokeniser.show(tokeniser.encode_sources([pair])[0]) == ["<de>", "<de>", "a", "b", "c"]
    settings = {**SMALL, **BOTH_WAYS, "data.tag_at": "both"}
    files = [f"{folder}/train.aa:{folder}/train.bb"]
    run = package.train(files, out=folder / "both", steps=2, settings=settings, reporter=Quiet())
    read: list[list[str]] = []
    run.predictor.model.source_reader.table.register_forward_hook(  # type: ignore[attr-defined]
        lambda _, given, __: read.append(run.predictor.source.show(given[0][0].tolist()))
    )
    run.predict([Pair("abc", tag="bb")], search={"kind": "greedy"})
    assert read[0][:2] == ["<bb>", "a"]
    assert run.predictor.model.prompted


def test_predict_takes_one_tag_for_all_lines(weft: Weft, run: Run) -> None:
    by_flag = weft("predict", str(run.path), "--tag", "cc", "--greedy", stdin="abc\nabd\n")
    by_line = weft("predict", str(run.path), "--greedy", stdin="abc\tcc\nabd\tcc\n")
    assert by_flag.code == 0
    assert by_flag.out == by_line.out


def test_mistakes_with_tags_are_explained(weft: Weft, run: Run, folder: Path, tiny_run: Run) -> None:
    unknown = weft("predict", str(run.path), "--tag", "dd", stdin="abc\n")
    refused(unknown, "never saw the tag 'dd'", "--tag dd", "aa, bb")
    refused(weft("predict", str(tiny_run.path), "--tag", "dd", stdin="abc\n"), "trained without tags")
    refused(weft("predict", str(run.path), stdin="abc\n"), "this line has no tag", "--tag")
    pairs, out = f"{folder}/train.aa:{folder}/train.bb", ("--steps", "1", "--out", str(folder / "none"))
    extension = ("--set", "data.tag_from=extension")
    table = folder / "table.tsv"
    table.write_text("a\tb\n")
    refused(weft("train", str(table), *extension, *out), "this is a single table", "--tag")
    (folder / "a.txt").write_text("a\n")
    (folder / "b.txt").write_text("b\n")
    refused(weft("train", f"{folder}/a.txt:{folder}/b.txt", *extension, *out), "need different extensions")
    refused(weft("train", pairs, *extension, "--tag", "3", *out), "both say where the tag is")
    refused(weft("train", pairs, "--set", "data.tag_temperature=5", *out), "have no tags")
    refused(weft("train", str(table), "--set", "data.swap_pairs=true", "--tag", "3", *out), "applies to only one")


def test_evaluate_shows_a_row_for_each_direction_of_parallel_files(weft: Weft, run: Run, folder: Path) -> None:
    files = f"{folder}/few.aa:{folder}/few.bb", f"{folder}/few.bb:{folder}/few.cc"
    done = weft("evaluate", str(run.path), *files, "--by", "direction", "--greedy", "--json")
    scores = json.loads(done.out)
    assert scores["n"] == 24
    assert {name: each["n"] for name, each in scores["by"].items()} == {"aa-bb": 12, "bb-cc": 12}
    by_tag = json.loads(weft("evaluate", str(run.path), *files, "--by", "tag", "--greedy", "--json").out)
    assert set(by_tag["by"]) == {"bb", "cc"}


def test_evaluating_a_table_needs_its_column_of_tags(weft: Weft, run: Run, folder: Path) -> None:
    table = folder / "tagged.tsv"
    table.write_text("source\ttarget\tlanguage\nabc\tABC\tbb\n")
    refused(weft("evaluate", str(run.path), str(table)), "this is a single table", "--tag")
    assert weft("evaluate", str(run.path), str(table), "--tag", "language", "--json").code == 0


def test_data_shows_what_training_with_these_settings_would_see(weft: Weft, folder: Path) -> None:
    options = ("--set", "data.tag_from=extension", "--set", "data.swap_pairs=true")
    done = weft("data", f"{folder}/few.aa:{folder}/few.cc", *options)
    assert done.code == 0
    assert "24 pairs" in done.out
    assert "<aa> <cc>" in done.out


def test_a_run_both_ways_is_resumed_bit_by_bit(folder: Path) -> None:
    files = [f"{folder}/train.aa:{folder}/train.bb", f"{folder}/few.aa:{folder}/few.cc"]
    settings = {**SMALL, **BOTH_WAYS, "data.tag_temperature": 3, "train.evaluations": 3}
    whole = package.train(files, out=folder / "whole", steps=9, settings=settings, reporter=Quiet())
    assert weights_of(resumed_copy(whole.path, folder / "resumed")) == weights_of(whole.path)


# directions without pairs ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pivoted(folder: Path) -> list[str]:
    """Return files in which `aa` is in every pair, and `bb` and `cc` never together."""
    return [f"{folder}/train.aa:{folder}/train.bb", f"{folder}/train.aa:{folder}/train.cc"]


def trained(files: list[str], out: Path, **more: Any) -> Run:
    settings = {**SMALL, **BOTH_WAYS, "train.evaluations": 4, "search.max_extra": 5, **more}
    return package.train(files, out=out, steps=12, settings=settings, reporter=Quiet())


def test_a_model_learns_from_sources_that_it_has_written_itself(pivoted: list[str], tmp_path: Path) -> None:
    run = trained(pivoted, tmp_path / "run", **{"data.back_translate": True})
    plain = trained(pivoted, tmp_path / "plain", **{"data.back_translate": False})
    assert run.spec.data.back_translate
    weights, others = (weights_of(each.path) for each in (run, plain))
    assert any(not np.array_equal(weights[name], others[name]) for name in weights)


def test_written_sources_keep_the_tag_of_their_target_and_survive_a_checkpoint(pivoted: list[str]) -> None:
    prepared = Prepared(Files(tuple(pivoted), columns=SWAPPED, hold_out=0))
    spec = compose(("flag", {"data": {"tag_from": "extension", "swap_pairs": True, "back_translate": True}})).spec
    sides = Sides(*prepared.tokenisers(("characters", 0), ("characters", 0), True))
    corpus, model = prepared.corpus(sides), model_of(spec, sides)

    def made() -> BackTranslation:
        plan = make_plan(spec.search.model_copy(update={"kind": "greedy", "max_extra": 3}), sides)
        return BackTranslation(model, corpus, spec, sides, plan, torch.device("cpu"))

    translation = made()
    assert not translation.update(0.2, 9999, None, lambda _: None)
    assert translation.of_epoch(0) is None
    assert translation.update(0.35, 9999, None, lambda _: None)
    assert not translation.update(0.4, 9999, None, lambda _: None)
    augment = translation.of_epoch(0)
    assert augment is not None
    tags, rows = sides.source.marks, corpus.rows("source", range(len(corpus)))  # type: ignore[attr-defined]
    changed = [row for row, ids in enumerate(rows) if not np.array_equal(augment("source", row, ids), ids)]
    assert 0.15 < len(changed) / len(rows) < 0.35  # half of the rows whose target is not in the pivot
    assert all(augment("source", row, rows[row])[0] == rows[row][0] for row in changed)
    assert not any(tags[rows[row][0] - 4].endswith("aa") for row in changed)
    again = made()
    again.carry_on(translation.tensors())
    assert not again.update(0.4, 9999, None, lambda _: None)
    other = again.of_epoch(0)
    assert other is not None
    assert all(np.array_equal(other("source", row, ids), augment("source", row, ids)) for row, ids in enumerate(rows))
    assert not np.array_equal(augment("target", 0, rows[0][:0]), rows[0])


def test_the_time_of_writing_sources_is_not_that_of_a_validation(
    pivoted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a validation takes is kept back for the last one, and for the final scores."""
    spent, evaluate = [], Trainer._evaluate

    def slow(*_: Any) -> bool:
        time.sleep(5)
        return False

    def evaluated(trainer: Trainer, after: Any) -> None:
        evaluate(trainer, after)
        spent.append((trainer.progress.evaluation_seconds, trainer.progress.spent["translation"]))

    monkeypatch.setattr(BackTranslation, "update", slow)
    monkeypatch.setattr(Trainer, "_evaluate", evaluated)
    trained(pivoted, tmp_path / "run", **{"data.back_translate": True, "train.evaluations": 1})
    assert [(validating < 5 <= translating) for validating, translating in spent] == [True]


def test_a_run_that_writes_sources_goes_on_to_the_last_bit(pivoted: list[str], tmp_path: Path) -> None:
    whole = trained(pivoted, tmp_path / "whole", **{"data.back_translate": True})
    resumed = resumed_copy(whole.path, tmp_path / "resumed")
    weights, others = weights_of(whole.path), weights_of(resumed)
    assert all(np.array_equal(weights[name], others[name]) for name in weights)


@pytest.mark.parametrize(("tags", "both", "chosen"), [("xyz", True, True), ("xy", True, False), ("xyz", False, False)])
def test_sources_are_written_where_all_pairs_contain_one_of_three_languages(
    tags: str, both: bool, chosen: bool, tmp_path: Path, weft: Weft
) -> None:
    table, rows = tmp_path / "table.tsv", []
    for number in range(60):
        tag = tags[1 + number % (len(tags) - 1)]
        source, target = f"some words {number}", f"{tag} {number} words"
        rows += [
            (source, target, tag),
            (target, source, tags[0]) if both else (f"more {number}", f"less {number}", tags[0]),
        ]
    table.write_text("source\ttarget\ttag\n" + "".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    done = weft("train", table, "--tag", "tag", "--steps", "1", "--out", tmp_path / "run")
    assert ("chose data.back_translate = True: nearly all pairs contain x" in done.err) == chosen
    assert done.code == 0


def test_writing_sources_needs_tags(tmp_path: Path, weft: Weft) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("a\tb\n" * 60, encoding="utf-8")
    done = weft("train", table, "--set", "data.back_translate=true", "--out", tmp_path / "run")
    refused(done, "data.back_translate=true needs tags", "--tag")
