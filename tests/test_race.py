"""A race between settings: who takes part, who wins, what the run is afterwards, and that it can be broken off."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import weft as package
from weft.choose import choose, rivals
from weft.core.errors import Interrupted, WeftError, WentAstray
from weft.core.pair import Pair
from weft.data.survey import Survey, survey
from weft.data.text.relation import Relation, copied_words
from weft.learn.loop import Trainer
from weft.learn.world import World
from weft.runs import race
from weft.runs import train as training
from weft.runs.folder import RunFolder
from weft.runs.job import Ready
from weft.runs.report import Quiet
from weft.settings import compose

WORDS = ["value", "name", "field", "model", "form", "query", "index", "cache", "token", "header", "parser"]
SMALL = {f"{side}.{key}": value for side in ("encoder", "decoder")
         for key, value in (("width", 16), ("layers", 1), ("heads", 2), ("inner", 16))}  # fmt: skip
SETTINGS = {**SMALL, "embed.width": 16, "source.size": 300, "target.size": 300}


def line(i: int) -> tuple[str, str]:
    one, two, three = (WORDS[(i * k + i // 7) % len(WORDS)] for k in (3, 5, 11))
    return (
        f"substitute {one}{i} for {two}, and return {three} as a result",
        f"{two} = {one}{i} ; return {three}",
    )


def found(copied: float = 0.9) -> Survey:
    made = survey([Pair(*line(i)) for i in range(400)], 0)[0]
    return replace(made, relation=Relation(copied=0.5, copied_words=copied))


def named(survey: Survey, seconds: float = 600.0, **given: dict[str, Any]) -> list[str]:
    asked = {"train": {"budget_seconds": seconds}, **given}
    return [rival.name for rival in rivals.rivals(survey, asked, choose(survey, asked))]


def test_words_that_stand_in_the_source_count_as_copied() -> None:
    assert copied_words([Pair("call self.get_name, please", "self . get_name ( )")]) == 1.0
    assert copied_words([Pair("a dog runs", "ein Hund runs")]) == pytest.approx(1 / 3)
    assert copied_words([Pair("ab", "cd")]) == 0.0


def test_copying_takes_part_where_targets_take_words_from_their_source() -> None:
    assert named(found()) == ["copying"]
    assert named(found(0.02)) == []


def test_there_is_no_race_in_a_short_time_or_by_steps_or_where_the_user_has_decided() -> None:
    assert named(found(), seconds=60.0) == []
    assert rivals.rivals(found(), {"train": {"steps": 9}}, choose(found(), {"train": {"steps": 9}})) == []
    assert named(found(), head={"kind": "tokens"}) == []
    assert named(found(), source={"tokens": "characters"}) == []


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(rivals, "SHORTEST", 1.0)
    path = tmp_path / "code.tsv"
    path.write_text("".join("\t".join(line(i)) + "\n" for i in range(400)), encoding="utf-8")
    return path


def trained(pairs: Path, out: Path, resume: bool = False) -> package.Run:
    return package.train(pairs, out=out, budget="8s", settings=SETTINGS, resume=resume, reporter=Quiet())


def test_the_run_becomes_what_won_and_has_the_rest_of_the_time(pairs: Path, tmp_path: Path) -> None:
    run = trained(pairs, tmp_path / "run")
    result = json.loads((run.path / "race" / "result.json").read_text(encoding="utf-8"))
    assert set(result["nats_per_character"]) == {"what the rules choose", "copying"}
    losses = list(result["nats_per_character"].values())
    assert losses[result["winner"] - 1] == min(losses)
    assert run.spec.head.kind == ("tokens", "copy")[result["winner"] - 1]
    assert run.spec.train.budget_seconds == 8.0
    assert run.spec.train.seconds == pytest.approx(8.0 - result["seconds"])
    last = json.loads((run.path / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert last["kind"] == "final"
    assert last["seconds"] <= 8.0
    choices = RunFolder(run.path).read_choices()
    assert choices["origins"]["train.raced"] == "autopilot"
    assert choices["reasons"][-1][2].endswith(")")
    assert len(run.predict(["substitute name3 for form, and return cache as a result"])) == 1


def test_a_race_that_is_broken_off_goes_on_where_it_was(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise Interrupted("stopped", "", "")

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(race, "_install", stop)
        with pytest.raises(Interrupted):
            trained(pairs, out)
    logs = [(out / "race" / str(n) / "log.jsonl").read_bytes() for n in (1, 2)]
    run = trained(pairs, out, resume=True)
    assert [(out / "race" / str(n) / "log.jsonl").read_bytes() for n in (1, 2)] == logs
    assert run.spec.train.raced > 0
    assert trained(pairs, out, resume=True).spec == run.spec


def test_the_first_of_several_models_goes_on_from_what_won(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: dict[str, Path | None] = {}
    train_one = training._train_one

    def noted(ready: Ready, folder: RunFolder, reporter: Any, world: World, init: Path | None = None) -> Trainer:
        begun[str(folder.path.relative_to(tmp_path))] = init
        return train_one(ready, folder, reporter, world, init)

    monkeypatch.setattr(training, "_train_one", noted)
    monkeypatch.setattr(training, "side_by_side", lambda *_: 1)
    settings = {**SETTINGS, "train.members": 2}
    package.train(pairs, out=tmp_path / "run", budget="8s", settings=settings, reporter=Quiet())
    assert begun == {
        "run/race/1": None,
        "run/race/2": None,
        "run": race.winner(RunFolder(tmp_path / "run")),
        "run/members/2": None,
    }


def test_a_candidate_that_goes_astray_is_out_and_the_run_goes_on(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_one, astray, notes = training._train_one, ["2"], list[str]()

    def failing(ready: Ready, folder: RunFolder, reporter: Any, world: World, init: Path | None = None) -> Trainer:
        if folder.path.parent.name == "race" and folder.path.name in astray:
            raise WentAstray("the loss is nan", str(folder.path), "lower the rate")
        return train_one(ready, folder, reporter, world, init)

    class Noting(Quiet):
        def note(self, text: str) -> None:
            notes.append(text)

    monkeypatch.setattr(training, "_train_one", failing)
    run = package.train(pairs, out=tmp_path / "run", budget="8s", settings=SETTINGS, reporter=Noting())
    assert "copying is out: the loss is nan" in notes
    assert run.spec.head.kind == "tokens"
    assert set(json.loads((run.path / "race" / "result.json").read_text())["nats_per_character"]) == {
        "what the rules choose"
    }
    astray.append("1")
    with pytest.raises(WentAstray, match="the loss is nan"):
        trained(pairs, tmp_path / "other")


def test_a_candidate_that_fails_otherwise_ends_the_race(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(ready: Ready, folder: RunFolder, reporter: Any, world: World, init: Path | None = None) -> Trainer:
        assert folder.path.name == "1", "no other one is tried"
        raise WeftError("the disk is full", str(folder.path), "make room")

    monkeypatch.setattr(training, "_train_one", failing)
    with pytest.raises(WeftError, match="the disk is full"):
        trained(pairs, tmp_path / "run")


@pytest.mark.parametrize(("asked", "tried"), [(1000, 200), (500, 100), (20, 20), (1, 20)])
def test_a_candidate_is_judged_on_some_of_the_pairs_that_a_run_is(asked: int, tried: int) -> None:
    spec = compose(("flag", {"train": {"valid_pairs": asked, "members": 3, "budget_seconds": 600.0}})).spec
    trial = race._trial(spec, 45.0).train
    assert (trial.valid_pairs, trial.members, trial.budget_seconds, trial.evaluations) == (tried, 1, 45.0, 1)


def test_candidates_are_compared_by_character_however_they_are_cut() -> None:
    def loss(each: float, target: list[int]) -> float:
        validator = SimpleNamespace(targets=[target], pairs=[Pair("x", "abcd")])
        made = SimpleNamespace(validator=validator, progress=SimpleNamespace(best_loss=each))
        return race._nats_per_character(cast(Trainer, made))

    assert loss(1.0, [5, 6, 7, 8]) == 1.0
    assert loss(2.0, [9]) == pytest.approx(4 / 5)
