"""Language models over notes and numbers: what they score, continue, refuse and resume."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from commands import Weft, refused
from processes import Started
from weft.api import Run, train
from weft.choose import choose
from weft.choose.language import _dropout, _family, _fit_width, _rate
from weft.choose.measure import estimated
from weft.choose.numbers import NUMBERS
from weft.core.machine import Speed
from weft.data.cells import Kinds
from weft.data.prepare import Prepared
from weft.data.scan import Files
from weft.runs.report import Quiet
from weft.settings import compose

SMALL: dict[str, Any] = {"decoder.width": 16, "embed.width": 16, "train.evaluations": 2, "train.rate": 0.02}
SPEED = Speed(1e11, 1e11, 2, 5e10)
COIN = 0.25  # how often the second note of a step sounds, whatever was before


@pytest.fixture(scope="module")
def tunes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tunes in which 60 and 62 take turns, and 72 sounds by a coin."""
    draw, rows = random.Random(1), []
    for _ in range(90):
        first, steps = draw.choice([0, 1]), range(draw.randint(2, 24))
        tune = [[62 if (step + first) % 2 else 60, *([72] if draw.random() < COIN else [])] for step in steps]
        rows.append({"notes": tune, "part": draw.choice("ab")})
    path = tmp_path_factory.mktemp("tunes") / "tunes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def run(tunes: Path) -> Run:
    settings = {**SMALL, "train.dropout": 0, "train.batch_tokens": 128}
    out = tunes.with_name("run")
    return train(tunes, task="language-model", target="notes", out=out, steps=150, settings=settings, reporter=Quiet())


def test_nll_per_step_is_near_the_entropy_of_what_made_the_tunes(
    run: Run, tunes: Path, weft: Weft, tmp_path: Path
) -> None:
    lines = tmp_path / "lines.tsv"
    scores = json.loads(weft("evaluate", run.path, tunes, "--json", "--by", "part", "--lines", lines).out)
    lengths = [len(json.loads(line)["notes"]) for line in tunes.read_text().splitlines()]
    coin = -COIN * math.log(COIN) - (1 - COIN) * math.log(1 - COIN)
    first = 2 * math.log(2) * len(lengths) / sum(lengths)  # either of the two may come first: two fair bits
    assert coin + first - 0.03 < scores["nll"] < coin + first + 0.35
    assert scores["n"] == 90
    assert set(scores["by"]) == {"a", "b"}
    head, *rows = [line.split("\t") for line in lines.read_text().splitlines()]
    nats = sum(float(row[head.index("log_prob")]) for row in rows)
    assert -nats / sum(lengths) == pytest.approx(scores["nll"], abs=1e-3)


def test_prompts_are_continued_from_their_last_step_or_from_nothing(run: Run, weft: Weft) -> None:
    done = weft("predict", run.path, "--greedy", "--length", "4", stdin="[[60], [62], [60]]\n\n[[60], [62]]\n")
    first, blank, last = [json.loads(line) for line in done.out.splitlines()]
    assert [step[0] for step in first] == [62, 60, 62, 60]
    assert [step[0] for step in last] == [60, 62, 60, 62]
    assert len(blank) == 4
    drawn = weft("predict", run.path, "--sample", "--nbest", "3", "--seed", "2", "--format", "tsv", stdin="[[60]]\n")
    outputs = [json.loads(line.split("\t")[1]) for line in drawn.lines]
    assert [len(output) for output in outputs] == [200, 200, 200]
    assert outputs[0] != outputs[1]


def test_a_low_temperature_makes_samples_of_notes_vary_less(run: Run) -> None:
    shares = []
    for temperature in (0.3, 1.0, 3.0):
        search = {"kind": "sample", "temperature": temperature, "length": 150}
        tune = json.loads(run.predict(["[[60], [62]]"], search=search)[0].text)
        shares.append(sum(72 in step for step in tune) / len(tune))
    assert shares[0] < shares[1] < shares[2]


def test_a_continuation_does_not_depend_on_the_other_prompts(run: Run) -> None:
    prompts = [json.dumps([[60], [62]] * n) for n in range(1, 12)]
    search = {"kind": "sample", "seed": 5, "length": 6}
    together = run.predict(prompts, search=search)
    alone = run.predict(prompts[:1], search=search)[0]
    assert (alone.text, alone.score) == (together[0].text, together[0].score)


def test_prompts_that_cannot_be_continued_are_refused(run: Run, weft: Weft) -> None:
    refused(weft("predict", run.path, stdin="[[60], [110]]\n"), "knows the notes 21 to 108")
    refused(weft("predict", run.path, stdin="[[60], [300]]\n"), "step 2 holds 300")
    refused(weft("predict", run.path, stdin="[]\n"), "the tune is empty")
    refused(weft("predict", run.path, "--sample", "--top-k", "3", stdin="[[60]]\n"), "--top-k", "temperature")


def test_a_language_model_of_notes_that_is_killed_and_resumed_ends_with_the_same_weights(
    tunes: Path, tmp_path: Path
) -> None:
    settings = {**SMALL, "train.evaluations": 8}
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    flags += ["--task", "language-model", "--target", "notes"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    threads = str(torch.get_num_threads())
    process = Started(
        tmp_path / "streams", "train", tunes, "--out", killed, "--steps", 60, *flags, OMP_NUM_THREADS=threads
    )
    process.wait_for(lambda: any((killed / "checkpoints").glob("step-*")))
    process.kill()
    assert not (killed / "README.md").exists(), "the run was over before it was killed: make it longer"
    train(out=killed, resume=True, reporter=Quiet())
    train(
        tunes, task="language-model", target="notes", out=whole, steps=60, settings=settings, reporter=Quiet()
    )  # fmt: skip
    ours, theirs = (load_file(folder / "last" / "weights.safetensors") for folder in (killed, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_the_autopilot_measures_and_fits_models_of_notes(tunes: Path, tmp_path: Path) -> None:
    files = Files((str(tunes),), kinds=Kinds("none", "notes"))
    survey = Prepared(files, root=tmp_path).survey
    chosen = choose(survey, {"task": "language-model", "train": {"budget_seconds": 600}}, SPEED, estimated(SPEED))
    spec = compose(("autopilot", chosen.layer), ("flag", {"task": "language-model"})).spec
    assert (spec.head.kind, spec.objective.kind, spec.train.select) == ("notes", "notes", "nll")
    assert any(key == "decoder.width" for key, _, _ in chosen.reasons)


@pytest.mark.parametrize(
    ("given", "members"),
    [({"budget_seconds": 600}, 8), ({"budget_seconds": 1}, None), ({"steps": 9}, None), ({"members": 1}, None)],
)
def test_several_models_share_the_time_in_which_one_would_overfit(
    tunes: Path, tmp_path: Path, given: dict[str, Any], members: int | None
) -> None:
    survey = Prepared(Files((str(tunes),), kinds=Kinds("none", "notes")), root=tmp_path).survey
    chosen = choose(survey, {"task": "language-model", "train": given}, SPEED, lambda *_: 1e6)
    assert chosen.layer["train"]["max_epochs"] == NUMBERS.language_epochs
    assert chosen.layer["train"].get("members") == members
    assert ("train.members" in [key for key, _, _ in chosen.reasons]) is (members is not None)


def test_a_wave_is_continued_and_scored_in_its_own_units(weft: Weft, tmp_path: Path) -> None:
    draw, rows = np.random.default_rng(1), []
    for _ in range(60):
        steps = np.arange(40) * 0.7 + draw.uniform(0, 6)
        rows.append({"wave": (5 * np.sin(steps) + draw.normal(size=40) * 0.05).round(3).tolist()})
    path = tmp_path / "waves.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    done = weft(
        "train", path, "--task", "language-model", "--target", "wave", "--steps", "60", "--out", "run", *settings
    )
    assert done.code == 0, done.err
    assert "chose objective.kind = mixture" in done.err
    scores = json.loads(weft("evaluate", "run", path, "--json").out)
    spread = 5 / math.sqrt(2)
    assert scores["nll"] < 0.5 * math.log(2 * math.pi * math.e * spread**2), "better than a Gaussian that knows nothing"
    done = weft("predict", "run", "--length", "5", "--sample", stdin=f"{json.dumps(rows[0]['wave'][:20])}\n")
    assert len(json.loads(done.out)) == 5


@pytest.mark.parametrize(("tokens", "widths"), [(2e5, {10: 128, 1e5: 256}), (1e7, {10: 128, 1800: 512, 1e5: 1024})])
def test_a_language_model_is_as_wide_as_time_and_data_allow(tokens: float, widths: dict[float, int]) -> None:
    def fitted(seconds: float) -> int:
        operations = seconds * 1e10
        return _fit_width(_family("recurrent"), tokens, lambda w: (operations / (6 * 3 * w**2) / tokens, 3.0 * w**2))[0]

    assert {seconds: fitted(seconds) for seconds in widths} == widths


def test_widths_whose_settings_clash_are_passed_over() -> None:
    assert _fit_width(_family("recurrent"), 1e9, lambda _: None) == (128, None)


def test_wider_models_learn_more_slowly_and_data_seen_often_need_dropout() -> None:
    assert _rate("recurrent", 1024) == pytest.approx(_rate("recurrent", 256) / 2)
    assert _dropout(1) < _dropout(10) < _dropout(100)
    assert _dropout(None) == _dropout(10)
