"""Runs whose targets are numbers, from the file to the answer: what they predict, score, draw, refuse, and resume."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from commands import Weft, refused
from processes import Started
from weft.api import Run, train
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data.sides.numbers import Numbers
from weft.predict.predictor import Predictor
from weft.runs.report import Quiet

SMALL = {"encoder.width": 16, "decoder.width": 16, "embed.width": 16, "train.evaluations": 2}
ROLES = {"source": "past", "target": "future"}


def tracks(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Straight lines in the plane; the context says how fast they go on, `part` is a column to split by."""
    random, rows = np.random.default_rng(seed), []
    for number in range(count):
        start, step, speed = random.normal(size=2), random.normal(size=2), random.uniform(0.5, 2, size=3)
        past = [(start + n * step).round(3).tolist() for n in range(4)]
        future = [(start + (3 + s) * step).round(3).tolist() for s in np.cumsum(speed)]
        row = {"past": past, "future": future, "speed": speed.round(3).tolist(), "part": str(number % 2)}
        rows.append(row)
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tracks") / "tracks.jsonl", tracks(120))


@pytest.fixture(scope="module")
def run(table: Path) -> Run:
    given = {**SMALL, "objective.kind": "gaussian"}
    return train(table, out=table.with_name("run"), steps=20, settings=given, reporter=Quiet(), **ROLES)


def weights_of(run: Path) -> dict[str, Any]:
    return load_file(run / "last" / "weights.safetensors")


# how long an output is ------------------------------------------------------------------------------------------------

SOURCE = "[[0, 0], [1, 1]]"


def test_a_series_has_as_many_steps_as_asked_for(run: Run, weft: Weft) -> None:
    usual = json.loads(run.predict([SOURCE]).texts[0])
    done = weft("predict", run.path, "--length", "7", stdin=SOURCE)
    assert done.code == 0, done.err
    longer = json.loads(done.out)
    assert (len(usual), len(longer)) == (3, 7)
    assert longer[:3] == usual, "what is asked for does not change the steps before"


def test_python_takes_lists_and_arrays_where_a_table_has_json(tmp_path: Path) -> None:
    pairs = [([float(n), n + 1.0], np.array([n + 2.0, n + 3.0])) for n in range(40)]
    run = train(pairs, out=tmp_path / "run", steps=2, settings=SMALL, reporter=Quiet())
    text, given, pair = (run.predict([each])[0].text for each in ("[1.0, 2.0]", [1.0, 2.0], Pair([1.0, 2.0])))  # type: ignore[arg-type]
    assert text == given == pair
    with pytest.raises(UserError, match="neither a text nor a list of numbers"):
        run.predict([Pair(None)])  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", ["0", "-3"])
def test_a_horizon_below_one_is_refused(run: Run, weft: Weft, steps: str) -> None:
    done = weft("predict", run.path, "--length", steps, stdin=SOURCE)
    refused(done, "--length must be at least 1")


def test_a_horizon_without_end_is_cut_when_the_time_of_its_lines_is_over(run: Run) -> None:
    with pytest.warns(UserWarning, match=r"took more than search\.seconds=0\.2 a line"):
        (text,) = run.predict([SOURCE], search={"length": 100_000, "seconds": 0.2}).texts
    assert 3 < len(json.loads(text)) < 100_000


def test_more_steps_than_the_context_has_are_refused(table: Path, tmp_path: Path, weft: Weft) -> None:
    run = train(table, context="speed", out=tmp_path / "run", steps=1, settings=SMALL, reporter=Quiet(), **ROLES)
    lines = f"{SOURCE}\t[1, 1, 1]\n{SOURCE}\t[1, 1]\n"
    done = weft("predict", run.path, "--length", 2, stdin=lines)
    assert [len(json.loads(line)) for line in done.lines] == [2, 2], done.err
    done = weft("predict", run.path, "--length", 3, stdin=lines)
    refused(done, "3 steps are asked for, but the context has 2", "line 2 of the input")


def test_a_text_has_at_most_as_many_tokens_as_asked_for(tiny_run: Run) -> None:
    for kind in ("greedy", "beam", "sample"):
        outputs = tiny_run.predict(["abc", "bca", "cabca"], search={"kind": kind, "length": 2})
        assert all(len(prediction.outputs[0].tokens) <= 3 for prediction in outputs), "two, and the end"


def test_labels_have_no_length(tmp_path: Path, weft: Weft) -> None:
    path = tmp_path / "labels.tsv"
    path.write_text("".join(f"{'good' if n % 2 else 'bad'} {n % 7}\t{n % 2}\n" for n in range(60)), encoding="utf-8")
    assert weft("train", path, "--task", "classify", "--steps", 1, "--out", tmp_path / "run").code == 0
    refused(weft("predict", tmp_path / "run", "--length", 5, stdin="good 3"), "without a decoder", "leave --length out")


def test_the_card_draws_series_with_their_truth(run: Run) -> None:
    card = (run.path / "README.md").read_text(encoding="utf-8")
    assert "![predicted series and their truth](series.png)" in card
    assert (run.path / "series.png").exists()


def test_a_source_of_text_is_not_drawn(tmp_path: Path) -> None:
    rows = [{"source": f"row {n}", "target": [float(n), n + 1.0]} for n in range(60)]
    made = train(write(tmp_path / "t.jsonl", rows), out=tmp_path / "run", steps=1, settings=SMALL, reporter=Quiet())
    final = json.loads((made.path / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert [example["source"] for example in final["series"]] == [[]] * len(final["series"])
    assert (made.path / "series.png").exists()


# what holds for every kind --------------------------------------------------------------------------------------------


def test_a_run_of_numbers_that_is_killed_and_resumed_ends_with_the_same_weights(table: Path, tmp_path: Path) -> None:
    settings = {**SMALL, "train.evaluations": 10, "feeding.kind": "scheduled", "numbers.rotate": True}
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    flags += [part for name, value in ROLES.items() for part in (f"--{name}", value)]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    threads = str(torch.get_num_threads())
    process = Started(
        tmp_path / "streams", "train", table, "--out", killed, "--steps", 60, *flags, OMP_NUM_THREADS=threads
    )
    process.wait_for(lambda: any((killed / "checkpoints").glob("step-*")))
    process.kill()
    assert not (killed / "README.md").exists(), "the run was over before it was killed: make it longer"
    train(out=killed, resume=True, reporter=Quiet())
    train(table, out=whole, steps=60, settings=settings, reporter=Quiet(), **ROLES)
    ours, theirs = weights_of(killed), weights_of(whole)
    assert ours.keys() == theirs.keys()
    assert all(bool((ours[name] == theirs[name]).all()) for name in ours)


def test_several_models_predict_numbers_by_their_mean(table: Path, tmp_path: Path) -> None:
    given = {**SMALL, "train.members": 2, "train.side_by_side": 1}
    run = train(table, out=tmp_path / "run", steps=3, settings=given, reporter=Quiet(), **ROLES)
    both = [Predictor.load(run.path, alone=True), Predictor.load(run.path / "members" / "2", alone=True)]
    first = [json.loads(predictor.predict([Pair(SOURCE)])[0].text)[0] for predictor in both]
    mean = json.loads(run.predict([SOURCE]).texts[0])[0]
    np.testing.assert_allclose(mean, np.mean(first, axis=0), atol=1e-4)
    assert first[0] != first[1]


def test_numbers_are_scored_by_line_by_column_and_against_another_run(
    run: Run, table: Path, tmp_path: Path, weft: Weft
) -> None:
    lines = tmp_path / "lines.jsonl"
    done = weft("evaluate", run.path, table, "--by", "part", "--lines", lines, "--json")
    scores = json.loads(done.out)
    assert set(scores["by"]) == {"0", "1"}
    assert scores["ade"] == pytest.approx(np.mean([part["ade"] for part in scores["by"].values()]), rel=1e-6)
    rows = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == scores["n"] == 120
    assert np.mean([row["ade"] for row in rows]) == pytest.approx(scores["ade"], rel=1e-5)
    other = train(table, out=tmp_path / "other", steps=2, settings=SMALL, reporter=Quiet(), **ROLES)
    against = weft("evaluate", run.path, table, "--against", other.path)
    assert against.code == 0, against.err
    assert "ade" in against.out


def test_a_track_is_compared_with_going_on_at_its_last_velocity(run: Run, table: Path, weft: Weft) -> None:
    distances = []
    for row in tracks(120):
        past, future = np.array(row["past"]), np.array(row["future"])
        onward = past[-1] + np.arange(1, 4)[:, None] * (past[-1] - past[-2])
        distances.append(np.linalg.norm(future - onward, axis=1).mean())
    scores = json.loads(weft("evaluate", run.path, table, "--json").out)
    assert scores["baseline"]["name"] == "the source goes on at its last velocity"
    assert scores["baseline"]["ade"] == pytest.approx(np.mean(distances), rel=1e-3)


def test_targets_that_only_begin_near_their_sources_are_compared_with_the_mean(tmp_path: Path, weft: Weft) -> None:
    path, random = tmp_path / "summaries.jsonl", np.random.default_rng(5)
    lists = [(random.normal(size=6) * 3 + 5).round(2) for _ in range(120)]
    rows = [{"source": x.tolist(), "target": [x.mean().round(2), x.max(), x.min()]} for x in lists]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = weft("train", path, "--steps", "1", "--out", tmp_path / "run")
    assert "numbers.differences" not in done.err
    assert "always the mean of the training targets" in (tmp_path / "run" / "README.md").read_text(encoding="utf-8")


def test_a_run_on_numbers_of_another_width_is_not_started_from(run: Run, tmp_path: Path, weft: Weft) -> None:
    path = tmp_path / "plain.jsonl"
    rows = [{"past": [1.0, 2.0, n], "future": [n + 1.0, 0.5]} for n in range(60)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = weft("train", path, "--init", run.path, "--steps", "1", "--out", tmp_path / "run")
    assert "has 1 number per step, but in the run given by --init it has 2" in done.err
    assert not (tmp_path / "run").exists()


def test_a_source_of_one_step_is_read_by_its_value(tmp_path: Path, weft: Weft) -> None:
    path = tmp_path / "tank.jsonl"
    rows = [{"source": [n / 10], "target": [n / 10 * 0.9, n / 10 * 0.81]} for n in range(100)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = weft("train", path, "--steps", "1", "--out", tmp_path / "run")
    assert "chose numbers.values = True: a source of one step has no differences" in done.err
    assert (
        "chose numbers.differences"
        not in weft(
            "train", path, "--steps", "1", "--out", tmp_path / "other", "--set", "numbers.differences=false"
        ).err
    )
    card = (tmp_path / "other" / "README.md").read_text(encoding="utf-8")
    assert "| source | output | target |" in card
    assert "✗" not in card
    both = ["--set", "numbers.differences=false", "--set", "numbers.values=false"]
    refused(weft("train", path, "--steps", "1", "--out", tmp_path / "no", *both), "leave nothing of a source to read")


def test_what_numbers_are_compared_with_suits_how_they_go_on() -> None:
    pair = Pair("[1, 3, 2]", "[5, 6]")
    numbers = Numbers(1, (4.0,), (2.0,), (1.0,))
    assert (numbers.baseline_name, numbers.baseline(pair)) == ("always the mean of the training targets", "[4.0, 4.0]")
    near = replace(numbers, differences=True, continues=True)
    assert (near.baseline_name, near.baseline(pair)) == ("the source stays at its last value", "[2.0, 2.0]")
    onward = replace(near, momentum=True)
    assert (onward.baseline_name, onward.baseline(pair)) == ("the source goes on at its last velocity", "[1.0, 0.0]")


@pytest.mark.parametrize(("cell", "what"), [
    ("hello", "'hello' is not a list of numbers"),
    ("[1, 2]", "the source has 1 number per step, but in the training data it has 2"),
    ("[[1, null]]", ""),
    ("[[1, 2], [1]]", "step 2 has 1 number, but step 1 has 2"),
    ("[]", "the list is empty"),
    ("[[NaN, 1]]", "the list holds NaN or an infinite value"),
    ("nowhere.npy", "there is no file 'nowhere.npy' for the source"),
])  # fmt: skip
def test_an_input_that_is_not_like_the_sources_is_refused_in_python_and_on_the_command_line(
    run: Run, weft: Weft, cell: str, what: str
) -> None:
    if not what:  # missing numbers of a source are filled in
        assert run.predict([cell]).texts == weft("predict", run.path, stdin=cell).lines
        return
    with pytest.raises(UserError) as caught:
        run.predict([SOURCE, cell])
    assert what in caught.value.what
    assert caught.value.where == "line 2 of the list"
    refused(weft("predict", run.path, stdin=f"{SOURCE}\n{cell}\n"), what, "<stdin>:2", after_lines=1)


def test_the_log_probability_of_a_sample_is_in_the_units_of_the_data_as_the_loss_is(run: Run) -> None:
    sampled = run.predict([SOURCE], search={"kind": "sample"})[0]
    target = json.dumps(json.loads(str(sampled)))
    loss = run.evaluate([(SOURCE, target)])["loss"]
    assert sampled.outputs[0].log_prob == pytest.approx(-loss * len(json.loads(target)), rel=1e-3)
