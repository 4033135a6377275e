"""Several models of one run: each is what it would be alone, and they predict, stop and go on together."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import weft as package
from commands import Weft, refused
from conftest import SMALL, made_up_pairs
from test_resume import start, write_pairs
from weft.api import Run
from weft.core import manifest
from weft.core.errors import Diverged, WeftError
from weft.learn import checkpoint
from weft.learn.loop import Trainer
from weft.learn.world import World
from weft.predict.predictor import Predictor
from weft.runs import members
from weft.runs.folder import RunFolder
from weft.runs.log import LogFile
from weft.runs.members import SEED_STEP, Share, ShareReporter, exclude_lagging, member_spec, shares, with_side_by_side
from weft.runs.processes import WorkerProcesses
from weft.runs.ready import Ready
from weft.runs.report import Quiet
from weft.runs.weights import best_weights
from weft.settings import compose
from weft.spec import Spec

MEMBERS = {**SMALL, "train.members": 3, "train.reversed_members": False}
ONE_BY_ONE = {**MEMBERS, "train.side_by_side": 1}


def same_weights(one: Path, other: Path) -> bool:
    first, second = best_weights(RunFolder(one)), best_weights(RunFolder(other))
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


@pytest.fixture(scope="module", params=[1, 2], ids=["one core", "two cores"])
def trained(request: pytest.FixtureRequest, tiny_pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three models of twelve steps."""
    threads = torch.get_num_threads()
    torch.set_num_threads(request.param)
    out = tmp_path_factory.mktemp("members") / "run"
    try:
        return package.train(tiny_pairs, out=out, steps=12, settings=MEMBERS, reporter=Quiet())
    finally:
        torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def alone(tiny_run: Run, tiny_pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Runs of one model, with the seeds of the three."""
    runs = {1: tiny_run.path}
    for number in (2, 3):
        out, seed = tmp_path_factory.mktemp("alone") / "run", 1 + SEED_STEP * (number - 1)
        package.train(tiny_pairs, out=out, steps=12, settings=SMALL, seed=seed, reporter=Quiet())
        runs[number] = out
    return runs


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_model_is_what_a_run_with_its_seed_is(number: int, trained: Run, alone: dict[int, Path]) -> None:
    assert same_weights(trained.path if number == 1 else trained.path / "members" / str(number), alone[number])


def test_they_predict_together(trained: Run) -> None:
    lines = [source for source, _ in made_up_pairs(20)]
    others = [trained.path / "members" / str(number) for number in (2, 3)]
    alone = Run(trained.path)
    alone._predictor = Predictor.load(trained.path, alone=True)
    for other in others:
        alone.predictor.join(Predictor.load(other), str(other))
    together = package.load(trained.path)
    assert len(together.predictor.others) == 2
    assert [p.score for p in together.predict(lines)] == [p.score for p in alone.predict(lines)]


def test_what_is_said_at_the_end_is_of_all_together(trained: Run) -> None:
    final = LogFile(trained.folder.log).last()
    each = Predictor.load(trained.path, alone=True).model.parameter_count
    assert (final["models"], final["parameters"]) == (3, 3 * each)
    assert (final["steps"], final["steps_of_others"]) == (12, [12, 12])
    assert final["loss"] == pytest.approx(Run(trained.path).predictor.teacher_forced(_valid(trained))["loss"], rel=1e-4)
    assert f"{3 * each:,} parameters" in (trained.path / "README.md").read_text(encoding="utf-8")


def behind(run: Path, number: int, loss: float) -> None:
    """Make it look as if that model had ended with such a loss."""
    folder = RunFolder(run).member(number).checkpoints
    path = folder / checkpoint.name_of(checkpoint.steps(folder)[-1]) / checkpoint.PROGRESS
    content = json.loads(path.read_text(encoding="utf-8"))
    content["progress"]["best_loss"] = loss
    content["sum"] = manifest.sum_of({key: value for key, value in content.items() if key != "sum"})
    path.write_text(json.dumps(content), encoding="utf-8")
    (run / "members" / str(number) / manifest.NAME).unlink(missing_ok=True)


def test_a_model_that_stayed_far_behind_does_not_predict_with_the_others(trained: Run, tmp_path: Path) -> None:
    run, notes = tmp_path / "run", list[str]()
    shutil.copytree(trained.path, run, symlinks=True)
    exclude_lagging(RunFolder(run), 3, notes.append)
    assert (notes, len(Predictor.load(run).others)) == ([], 2)
    behind(run, 3, 99.0)
    exclude_lagging(RunFolder(run), 3, notes.append)
    assert len(Predictor.load(run).others) == 1
    assert [note.partition(" loss is ")[0] for note in notes] == ["model 3 is left out of the ensemble: its validation"]
    assert "99.000" in (run / "members" / "3" / "left-out.txt").read_text(encoding="utf-8")
    behind(run, 3, 0.1)  # it went on, and came further than the others
    exclude_lagging(RunFolder(run), 3, notes.append)
    assert [other.name for other in (run / "members").glob("*/left-out.txt")] == ["left-out.txt"]  # now the second


class Noting(Quiet):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def diverging(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Which models diverge, by their folder's name, and when: all are trained in this process."""
    when, fit = dict[str, str](), members.fit

    def failing(ready: Ready, folder: RunFolder, *more: Any) -> Trainer:
        moment = when.get(folder.path.name)
        trainer = fit(ready, folder, *more) if moment != "at once" else None
        if trainer is None or moment:
            raise Diverged("the loss is nan", str(folder.path), "lower the rate")
        return trainer

    monkeypatch.setattr(members, "fit", failing)
    return when


@pytest.mark.parametrize(("moment", "left"), [("at once", ["3"]), ("late", ["2", "3"])])
def test_a_member_that_diverges_leaves_the_others_to_be_trained_and_to_predict(
    moment: str, left: list[str], diverging: dict[str, str], tiny_pairs: Path, tmp_path: Path
) -> None:
    diverging["2"], told = moment, Noting()
    run = package.train(tiny_pairs, out=tmp_path / "run", steps=4, settings=ONE_BY_ONE, reporter=told)
    assert "model 2 diverged, so its best checkpoint is used: the loss is nan" in told.notes
    assert [member.path.name for member in run.folder.trained_members()] == left
    assert len(run.predictor.others) == len(left)
    assert len(run.predict(["abc", "hgf"])) == 2
    final = LogFile(run.folder.log).last()
    assert (final["kind"], final["models"]) == ("final", 1 + len(left))


def test_a_first_model_that_diverges_ends_the_run(diverging: dict[str, str], tiny_pairs: Path, tmp_path: Path) -> None:
    diverging["run"] = "late"
    with pytest.raises(Diverged, match="the loss is nan"):
        package.train(tiny_pairs, out=tmp_path / "run", steps=2, settings=ONE_BY_ONE, reporter=Quiet())
    assert not RunFolder(tmp_path / "run").trained_members()


def test_a_model_of_several_that_fails_otherwise_ends_the_run(
    tiny_pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = members.fit

    def failing(ready: Ready, folder: RunFolder, *more: Any) -> Trainer:
        if folder.path.name == "2":
            raise WeftError("the disk is full", str(folder.path), "make room")
        return fit(ready, folder, *more)

    monkeypatch.setattr(members, "fit", failing)
    with pytest.raises(WeftError, match="the disk is full"):
        package.train(tiny_pairs, out=tmp_path / "run", steps=2, settings=ONE_BY_ONE, reporter=Quiet())


def _valid(run: Run) -> list[package.Pair]:
    from weft.data.prepare import Prepared
    from weft.runs.job import files_of

    return Prepared(files_of(run.spec, run.spec.data.pairs, ())).valid


@pytest.mark.slow
def test_killed_and_resumed_all_end_the_same(tmp_path: Path) -> None:
    pairs, run, more = write_pairs(tmp_path / "pairs.tsv"), tmp_path / "killed", ("--set", "train.members=2")
    two = {"OMP_NUM_THREADS": "2"}
    start(pairs, tmp_path / "whole", 200, *more, **two).finish()
    process = start(pairs, run, 200, *more, **two)
    process.wait_for(lambda: any((run / "members" / "2" / "checkpoints").glob("step-*")))
    process.kill()  # the other process sees that nobody waits for it
    start(pairs, run, 200, "--resume", **two).finish()
    assert same_weights(tmp_path / "whole", run)
    assert same_weights(tmp_path / "whole" / "members" / "2", run / "members" / "2")


@pytest.mark.slow
def test_sigterm_stops_all_with_everything_saved(tmp_path: Path) -> None:
    pairs, run = write_pairs(tmp_path / "pairs.tsv"), tmp_path / "run"
    process = start(pairs, run, 100_000, "--set", "train.members=2", OMP_NUM_THREADS="2")
    process.wait_for((run / "members" / "2" / "log.jsonl").exists)
    process.terminate()
    assert process.end(timeout=120) == 130
    assert "continue with --resume" in process.errors
    for folder in (run, run / "members" / "2"):
        assert any((folder / "checkpoints").glob("step-*"))
        with RunFolder(folder).locked():
            pass  # nobody trains there any more


def test_a_process_that_fails_beside_is_told_of(tiny_run: Run, tmp_path: Path) -> None:
    with (
        WorkerProcesses(RunFolder(tmp_path / "absent"), [Share((2,), 1)], ()) as workers,
        pytest.raises(WeftError, match="another member of the ensemble failed: there is no such run folder"),
    ):
        workers.wait()


def test_shares_and_seconds() -> None:
    spec = compose(("flag", {"train": {"members": 4, "budget_seconds": 600.0}})).spec
    assert [share.numbers for share in shares(4, 2)] == [(1, 3), (2, 4)]
    assert [share.numbers for share in shares(3, 1)] == [(1, 2, 3)]
    assert member_spec(side_by_side(spec, 2), 3).train.budget_seconds == 300
    assert member_spec(side_by_side(spec, 1), 3).train.budget_seconds == 150
    assert member_spec(side_by_side(spec, 2), 3).train.members == 1


def side_by_side(spec: Spec, count: int) -> Spec:
    return spec.model_copy(update={"train": spec.train.model_copy(update={"side_by_side": count})})


def test_a_run_fixes_how_many_models_train_at_once() -> None:
    spec = compose(("flag", {"train": {"members": 3}})).spec
    alone, several = World(0, 1, torch.device("cpu")), World(0, 2, torch.device("cpu"))
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert with_side_by_side(spec, alone).train.side_by_side == 2
        assert with_side_by_side(side_by_side(spec, 1), alone).train.side_by_side == 1
        assert with_side_by_side(side_by_side(spec, 9), alone).train.side_by_side == 3
        assert with_side_by_side(spec, several).train.side_by_side == 1
    finally:
        torch.set_num_threads(threads)


def test_the_share_and_the_time_left_are_of_the_whole_run() -> None:
    class Kept(Quiet):
        def report(self, line: dict[str, object]) -> None:
            lines.append(line)

    lines: list[dict[str, object]] = []
    ShareReporter(Kept(), 0, 2, 100.0).report({"share": 0.5, "left": 50.0})
    ShareReporter(Kept(), 1, 2, 100.0).report({"share": 0.5, "left": 50.0})
    assert [(line["share"], line["left"]) for line in lines] == [(0.25, 150.0), (0.75, 50.0)]


def test_ctc_has_no_members(weft: Weft, tiny_pairs: Path) -> None:
    done = weft("train", tiny_pairs, "--steps", 2, "--set", "head.kind=ctc", "--set", "train.members=2")
    refused(done, "train.members=2", "head.kind=ctc")


def test_all_begin_from_the_weights_of_another_run(tiny_run: Run, tiny_pairs: Path, tmp_path: Path) -> None:
    settings = {"train.members": 2, "train.rate": 1e-9, "train.average": 0.0}
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        run = package.train(
            tiny_pairs, out=tmp_path / "run", steps=1, init=tiny_run.path, settings=settings, reporter=Quiet()
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    old = best_weights(tiny_run.folder)
    for folder in (run.path, run.path / "members" / "2"):
        new = best_weights(RunFolder(folder))
        assert all(torch.allclose(old[name], new[name], atol=1e-5) for name in old), folder
