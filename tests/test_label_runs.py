"""Runs whose targets are labels, from the file to the answer: what they print, score, refuse, and resume."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import weft as weft_package
from commands import Weft, refused
from processes import Started
from weft.api import Run, train
from weft.choose import choose
from weft.choose.measure import estimated, measured
from weft.choose.throughput import BatchShape
from weft.core.errors import UserError
from weft.core.machine import Speed
from weft.core.pair import Pair
from weft.data.pairs import Columns, read_pairs
from weft.data.sides.text import SideSurvey
from weft.data.survey import Survey
from weft.look.confusion import draw_confusion
from weft.predict.predictor import Predictor
from weft.runs.report import Quiet
from weft.score.confusion import MOST_LABELS, confusion
from weft.settings import compose

SMALL = {"encoder.width": 24, "embed.width": 24, "train.dropout": 0, "train.rate": 0.01, "train.evaluations": 2}
COLOURS = {"warm": ["red", "orange", "amber"], "cold": ["blue", "navy", "teal"], "none": ["grey", "black", "white"]}


def rows(count: int = 120, seed: int = 1) -> list[tuple[str, str]]:
    """Sentences with one colour in them, and what kind of colour it is."""
    draw, fillers = random.Random(seed), ["a", "the", "small", "house", "stands", "there", "with", "door"]
    kinds = [draw.choice(list(COLOURS)) for _ in range(count)]
    return [(" ".join([*draw.sample(fillers, 4), draw.choice(COLOURS[kind])]), kind) for kind in kinds]


def write(path: Path, pairs: list[tuple[str, str]]) -> Path:
    lines = [f"{source}\t{target}\t{number % 2}\n" for number, (source, target) in enumerate(pairs)]
    path.write_text("text\tlabel\tpart\n" + "".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("labels") / "colours.tsv", rows())


@pytest.fixture(scope="module")
def run(table: Path) -> Run:
    return train(
        table,
        source="text",
        target="label",
        task="classify",
        out=table.with_name("run"),
        steps=60,
        settings=SMALL,
        reporter=Quiet(),
        seed=1,
    )


def test_a_label_comes_with_its_probability(run: Run, weft: Weft, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("the small house amber\n\na navy door\n", encoding="utf-8")
    assert weft("predict", run.path, file).lines == ["warm", "", "cold"]
    cells = [line.split("\t") for line in weft("predict", run.path, file, "--nbest", "3", "--format", "tsv").lines]
    assert next(line[1] for line in cells if line[0].endswith("amber")) == "warm"
    assert math.isclose(sum(float(line[2]) for line in cells if line[0].endswith("amber")), 1, abs_tol=2e-4)
    records = [json.loads(line) for line in weft("predict", run.path, file, "--format", "jsonl").lines]
    assert records[0]["prediction"] == "warm"
    assert 0.3 < records[0]["outputs"][0]["probability"] <= 1
    assert weft("predict", run.path, file, "--greedy").lines == ["warm", "", "cold"]


def test_python_has_the_probabilities_of_labels(run: Run) -> None:
    prediction = run.predict(["a teal house"], nbest=5)[0]
    assert set(prediction.probabilities) == set(COLOURS)
    assert max(prediction.probabilities, key=lambda label: prediction.probabilities[label]) == prediction.text
    assert math.isclose(sum(prediction.probabilities.values()), 1, rel_tol=1e-5)
    assert "probability" in prediction._repr_html_()


def test_the_loss_is_that_of_the_probabilities_that_are_predicted(run: Run, table: Path) -> None:
    pairs = list(read_pairs([str(table)], run.columns, kinds=run.predictor.sides.kinds))
    given = [
        next(output.score for output in each.outputs if output.text == pair.target)
        for pair, each in zip(pairs, run.predict([pair.source for pair in pairs], nbest=4))
    ]
    assert run.evaluate(table).metrics["loss"] == pytest.approx(-sum(given) / len(given), rel=1e-4)
    assert run.predictor.log_probs(pairs) == pytest.approx(given, rel=1e-4)


def test_label_models_are_compared_by_their_task(table: Path, weft: Weft) -> None:
    flags = ("--task", "classify", "--steps", "1", "--seeds", "1", "--set", "encoder.width=8")
    done = weft("compare", table, "--vary", "pool.kind=mean,last", "--out", "compared", *flags)
    assert done.code == 0, done.err
    assert "accuracy" in done.out
    assert {"mean", "last"} <= set(done.out.split())
    refused(weft("compare", table, "--vary", "pool.kind=mean,last", "--task", "classifi"), "did you mean 'classify'?")


def test_a_run_of_labels_joins_no_run_of_text(run: Run, tiny_run: Run, weft: Weft) -> None:
    for first, second in ((run, tiny_run), (tiny_run, run)):
        done = weft("predict", first.path, "--with", second.path, stdin="a b\n")
        refused(done, "the target of this run is of kind", str(second.path))


def test_labels_have_no_beam_no_samples_and_no_prefix(run: Run, weft: Weft, table: Path) -> None:
    refused(weft("predict", run.path, table, "--beam", "3"), "--beam", "without a search", "nbest")
    refused(weft("predict", run.path, table, "--sample"), "--sample", "without a search")
    refused(weft("predict", run.path, table, "--prefix", "w"), "--prefix", "labels")
    refused(weft("evaluate", run.path, table, "--beam", "3"), "--beam", "without a search")


def test_labels_are_scored_by_accuracy_and_macro_f1(run: Run, weft: Weft, table: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.tsv"
    scores = json.loads(weft("evaluate", run.path, table, "--json", "--by", "part", "--lines", lines).out)
    assert {"accuracy", "macro_f1", "loss", "n", "by"} <= set(scores)
    assert scores["n"] == 120
    assert not {"exact", "bleu", "cer"} & set(scores)
    assert sum(each["n"] for each in scores["by"].values()) == 120
    mean = sum(each["n"] * each["accuracy"] for each in scores["by"].values()) / 120
    assert math.isclose(mean, scores["accuracy"], abs_tol=0.01)
    head, *written = [line.split("\t") for line in lines.read_text(encoding="utf-8").splitlines()]
    assert head == ["source", "target", "output", "accuracy", "log_prob"]
    right = [float(line[3]) == 100 for line in written]
    assert right == [line[1] == line[2] for line in written]
    assert math.isclose(100 * sum(right) / 120, scores["accuracy"], abs_tol=0.01)
    assert math.isclose(-sum(float(line[4]) for line in written) / 120, scores["loss"], abs_tol=1e-3)


def test_the_baseline_of_labels_is_the_most_frequent_label_of_training(run: Run, weft: Weft, table: Path) -> None:
    labels = [label for _, label in rows()]
    most_frequent = max(COLOURS, key=labels.count)
    share = 100 * labels.count(most_frequent) / len(labels)
    scores = json.loads(weft("evaluate", run.path, table, "--json").out)
    assert scores["baseline"]["name"] == f"always the most frequent label of training ({most_frequent})"
    assert scores["baseline"]["accuracy"] == pytest.approx(share, abs=0.01)
    shown = weft("evaluate", run.path, table).out
    assert re.search(rf"accuracy\s+[\d.]+\s+{share:.2f}", shown), shown
    assert f"baseline: {scores['baseline']['name']}" in shown
    card = (run.path / "README.md").read_text(encoding="utf-8")
    assert "| metric | value | baseline | |" in card
    assert f"Baseline: {scores['baseline']['name']}." in card
    assert "<th>baseline</th>" in run.evaluate(table)._repr_html_()


def test_two_runs_of_labels_are_compared_by_a_bootstrap(run: Run, weft: Weft, table: Path) -> None:
    scores = json.loads(weft("evaluate", run.path, table, "--json", "--against", run.path).out)
    assert scores["against"]["accuracy"]["difference"] == 0
    assert weft_package.load(run.path).evaluate(table)["accuracy"] == pytest.approx(scores["accuracy"])


def test_the_card_shows_which_labels_are_confused(run: Run, weft: Weft) -> None:
    card = (run.path / "README.md").read_text(encoding="utf-8")
    assert "A classifier: a bidirectional LSTM" in card
    assert "CTC" not in card
    assert "![which labels are taken for which](confusion.png)" in card
    assert (run.path / "confusion.png").exists()
    assert "| label | validation rows | F1 (%) |" in card
    assert weft("verify", run.path).code == 0


def test_a_confusion_matrix_counts_labels_and_their_predictions() -> None:
    matrix = confusion(["a", "b", "b", "c"], [["a"], ["a"], ["b"], ["b", "c"]], "label")
    assert (matrix.labels, matrix.counts) == (["a", "b", "c"], [[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    assert matrix.most_confused(5) == [("a", "b", 1)]
    assert [round(f1, 1) for f1 in matrix.f1()] == [66.7, 66.7, 100.0]
    assert confusion(["A B", "B"], [["A A"], ["B"]], "labels").counts == [[1, 1], [0, 1]]
    many = confusion([str(n) for n in range(50)], [[str(n)] for n in range(50)], "label")
    assert len(many.labels) == MOST_LABELS
    assert sum(map(sum, many.counts)) == 50


def test_a_confusion_matrix_is_drawn_with_any_labels(tmp_path: Path, rendered: None) -> None:
    names = ["$a$", "", "an extremely long name of a label", "été"]
    matrix = confusion(names, [[name] for name in names[::-1]], "label")
    draw_confusion(matrix, tmp_path / "matrix.png", "a $title")
    assert (tmp_path / "matrix.png").read_bytes()[:4] == b"\x89PNG"


def survey_of(labels: dict[str, int], target: str = "label", words: float = 10, pairs: int = 5000) -> Survey:
    source = SideSurvey(mean=5 * words, long=90, mean_words=words, long_words=25, distinct_words=3000, spaced=1.0)
    kinds = {"source": "text", "target": target}
    return Survey(pairs, source, SideSurvey(), kinds=kinds, columns={"target": {"labels": labels}})


def test_the_autopilot_trains_several_models_where_labels_need_little_time() -> None:
    def pace(spec: object, shape: BatchShape, threads: int) -> float:
        assert shape.lengths == (11, 1)
        assert not shape.ended
        return 2000.0

    even, speed = survey_of({"a": 2500, "b": 2500}), Speed(1e10, 0, 1e10, 2)
    chosen = choose(even, {"task": "classify", "train": {"budget_seconds": 600}}, speed, pace).layer
    assert chosen["train"]["members"] == 8
    assert chosen["train"]["max_epochs"] == 8
    assert chosen["pool"]["kind"] == "mean"
    short = choose(even, {"task": "classify", "train": {"budget_seconds": 20}}, speed, pace).layer
    assert "members" not in short["train"]
    few = choose(survey_of({"a": 50, "b": 50}, pairs=100), {"task": "classify"}).layer
    assert few["train"]["max_epochs"] == 300


def test_the_autopilot_weighs_labels_only_where_one_of_them_has_most_rows() -> None:
    chosen = choose(survey_of({"a": 4900, "b": 100}), {"task": "classify"}).layer
    assert chosen["objective"]["class_power"] == 0.5
    assert chosen["train"]["select"] == "macro_f1"
    assert "objective" not in choose(survey_of({"a": 3000, "b": 2000}), {"task": "classify"}).layer


def test_the_pace_of_models_that_predict_labels_is_measured() -> None:
    for task, shape in (
        ("classify", BatchShape((40, 7), (9, 1), ended=False)),
        ("classify-tokens", BatchShape((40, 7), (9, 8), ended=False, in_step=True)),
    ):
        spec = compose(("flag", {"task": task, "encoder": {"width": 16}, "embed": {"width": 16}})).spec
        assert measured(20.0, lambda *_: 0.0)(spec, shape, 1) > 0
        assert estimated(Speed(1e10, 0, 1e10, 1))(spec, shape, 1) > 0


CONLL = "# text\n-DOCSTART- -X- O\n\nthe DT O\nred JJ B-col\nhouse NN O\n\na DT O\nnavy JJ B-col\n"
CONLLU = "# sent_id = 1\n1-2\tdu\t_\t_\n1\tde\tde\tADP\n2\tle 1\tle\tDET\n\n\n1\tOui\toui\tINTJ\n"


def test_conll_files_are_read_sentence_by_sentence(tmp_path: Path) -> None:
    file, universal = tmp_path / "a.conll", tmp_path / "a.conllu"
    file.write_text(CONLL.partition("\n")[2], encoding="utf-8")
    universal.write_text(CONLLU, encoding="utf-8")
    pairs = [(pair.source, pair.target) for pair in read_pairs([str(file)])]
    assert pairs == [("the red house", "O B-col O"), ("a navy", "O B-col")]
    by_number = [pair.target for pair in read_pairs([str(file)], Columns(1, 2))]
    assert by_number == ["DT JJ NN", "DT JJ"]
    pairs = [(pair.source, pair.target) for pair in read_pairs([str(universal)])]
    assert pairs == [("de le\u00a01", "ADP DET"), ("Oui", "INTJ")]


def test_a_bad_line_of_a_conll_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bad.conll"
    file.write_text("the DT\nred\n", encoding="utf-8")
    with pytest.raises(UserError, match="this line has 1 column") as caught:
        list(read_pairs([str(file)]))
    assert caught.value.where.endswith("bad.conll:2")
    for columns in (Columns("word", "tag"), Columns(tag=3)):
        with pytest.raises(UserError, match="a CoNLL file"):
            list(read_pairs([str(file)], columns))


def test_a_conll_file_trains_a_tagger_whose_card_and_scores_are_those_of_labels(tmp_path: Path, weft: Weft) -> None:
    file = tmp_path / "colours.conll"
    known = {word for words in COLOURS.values() for word in words}
    sentences = [[f"{w} {'B-col' if w in known else 'O'}\n" for w in text.split()] for text, _ in rows(60)]
    file.write_text("\n".join("".join(sentence) for sentence in sentences), encoding="utf-8")
    out = tmp_path / "run"
    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    done = weft("train", file, "--task", "classify-tokens", "--steps", "40", "--out", out, *settings)
    assert done.code == 0, done.err
    assert weft("predict", out, file).lines[0] == "O O O O B-col"
    scores = json.loads(weft("evaluate", out, file, "--json").out)
    assert (scores["accuracy"], scores["span_f1"], scores["n"]) == (100, 100, 60)
    words = [len(sentence) for sentence in sentences]
    assert scores["baseline"]["name"] == "always the most frequent label of training (O)"
    assert scores["baseline"]["accuracy"] == pytest.approx(100 * (sum(words) - 60) / sum(words), abs=0.01)
    assert "A sequence labeller" in (out / "README.md").read_text(encoding="utf-8")
    refused(weft("predict", out, file, "--nbest", "2", "--format", "tsv"), "--nbest")


def refusal(path: Path, pairs: list[tuple[str, str]], **given: Any) -> UserError:
    with pytest.raises(UserError) as caught:
        train(write(path, pairs), task="classify", out=path.with_suffix(""), steps=2, reporter=Quiet(), **given)
    assert not path.with_suffix("").exists()
    return caught.value


def test_targets_that_are_no_labels_are_refused(tmp_path: Path) -> None:
    text = [(f"line {n}", f"sentence number {n} of the text") for n in range(100)]
    assert "running text" in refusal(tmp_path / "text.tsv", text).what
    many = [(f"line {n}", f"label{n % 5000}") for n in range(6000)]
    assert "5,000 different values in 6,000 rows" in refusal(tmp_path / "many.tsv", many).what
    assert "every row has the label 'a'" in refusal(tmp_path / "one.tsv", [(f"line {n}", "a") for n in range(60)]).what
    long = [*rows(60), ("a line", "x" * 300)]
    error = refusal(tmp_path / "long.tsv", long)
    assert error.where.endswith("long.tsv:62")


def test_a_run_of_labels_starts_from_a_run_of_text_and_the_other_way(
    run: Run, tiny_run: Run, tiny_pairs: Path, tmp_path: Path
) -> None:
    labels = write(tmp_path / "labels.tsv", rows(60))
    first = train(labels, task="classify", out=tmp_path / "labels", steps=2, init=tiny_run.path, reporter=Quiet())
    assert first.spec.encoder == tiny_run.spec.encoder
    second = train(tiny_pairs, out=tmp_path / "text", steps=2, init=run.path, reporter=Quiet())
    assert second.spec.encoder == run.spec.encoder


def test_rare_and_unknown_labels_are_noted_and_nothing_is_lost(tmp_path: Path, weft: Weft) -> None:
    training = write(tmp_path / "train.tsv", [*rows(60), ("a green house", "once")])
    valid = write(tmp_path / "valid.tsv", [*rows(20, seed=2), ("the door", "never")])
    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    out = tmp_path / "run"
    done = weft("train", training, "--valid", valid, "--task", "classify", "--steps", "2", "--out", out, *settings)
    assert done.code == 0, done.err
    assert "labels that occur only once, and can hardly be learned: 1 (once)" in done.err
    assert "valid.tsv has labels that training never sees, which count as wrong: 1: never" in done.err
    assert json.loads(weft("evaluate", out, valid, "--json").out)["n"] == 21


def weights_of(run: Path) -> dict[str, Any]:
    return load_file(run / "last" / "weights.safetensors")


def test_a_run_of_labels_that_is_killed_and_resumed_ends_with_the_same_weights(table: Path, tmp_path: Path) -> None:
    settings, roles = {**SMALL, "train.evaluations": 10}, {"source": "text", "target": "label", "task": "classify"}
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    flags += [part for name, value in roles.items() for part in (f"--{name}", value)]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    threads = str(torch.get_num_threads())
    process = Started(
        tmp_path / "streams", "train", table, "--out", killed, "--steps", 60, *flags, OMP_NUM_THREADS=threads
    )
    process.wait_for(lambda: any((killed / "checkpoints").glob("step-*")))
    process.kill()
    assert not (killed / "README.md").exists(), "the run was over before it was killed: make it longer"
    train(out=killed, resume=True, reporter=Quiet())
    train(table, out=whole, steps=60, settings=settings, reporter=Quiet(), **roles)
    ours, theirs = weights_of(killed), weights_of(whole)
    assert ours.keys() == theirs.keys()
    assert all(bool((ours[name] == theirs[name]).all()) for name in ours)


def test_a_prediction_of_labels_does_not_depend_on_the_other_lines(run: Run) -> None:
    lines = [source for source, _ in rows(90, seed=3)]
    together = [prediction.probabilities for prediction in run.predict(lines, nbest=3)]
    alone = [run.predict([line], nbest=3)[0].probabilities for line in lines[:5]]
    assert together[:5] == alone


def test_several_models_predict_labels_by_the_mean_of_their_probabilities(table: Path, tmp_path: Path) -> None:
    given = {**SMALL, "train.members": 2, "train.side_by_side": 1}
    roles = {"source": "text", "target": "label", "task": "classify"}
    run = train(table, out=tmp_path / "run", steps=15, settings=given, reporter=Quiet(), **roles)
    both = [Predictor.load(run.path, alone=True), Predictor.load(run.path / "members" / "2", alone=True)]
    pair = Pair("the small house amber")
    each = [predictor.predict([pair], predictor.plan(nbest=3))[0].probabilities for predictor in both]
    mean = run.predict([pair], nbest=3)[0].probabilities
    for label, probability in mean.items():
        # special symbols, which have little probability, are left out after the mean rather than before
        assert probability == pytest.approx((each[0][label] + each[1][label]) / 2, abs=1e-3)
