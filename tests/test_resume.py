"""Killed, resumed, interrupted, shared among processes: a run of steps ends the same to the last bit."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file

from processes import Started
from weft.api import Run
from weft.core.errors import Interrupted, UserError, WeftError
from weft.learn import checkpoint
from weft.runs.folder import RunFolder
from weft.runs.report import Quiet
from weft.runs.verify import accept

CLOCKS = {"seconds", "tokens_per_second", "effort", "spent", "limit"}
SMALL = ["encoder.width=48", "decoder.width=48", "embed.width=48", "train.batch_tokens=256", "train.valid_pairs=60"]


def write_pairs(path: Path, count: int = 400) -> Path:
    draw = random.Random(1)
    words = {"".join(draw.choices("abcdefgh", k=draw.randint(2, 8))) for _ in range(count)}
    path.write_text("".join(f"{w}\t{w[::-1].upper()}\n" for w in sorted(words)), encoding="utf-8")
    return path


def command(pairs: Path, out: Path, steps: int, *more: str) -> list[str]:
    settings = [part for setting in SMALL for part in ("--set", setting)]
    return ["train", str(pairs), "--out", str(out), "--steps", str(steps), *settings, *more]


def start(pairs: Path, out: Path, steps: int, *more: str, **environment: str) -> Started:
    return Started(out.with_name(f"{out.name}-streams"), *command(pairs, out, steps, *more), **environment)


def log_without_clocks(run: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{k: v for k, v in line.items() if k not in CLOCKS} for line in lines]


def assert_same_run(one: Path, other: Path) -> None:
    assert log_without_clocks(one) == log_without_clocks(other)
    for link in ("best", "last"):
        assert (one / link).resolve().name == (other / link).resolve().name
        for name in (checkpoint.WEIGHTS, checkpoint.OPTIMISER):
            first, second = load_file(one / link / name), load_file(other / link / name)
            assert first.keys() == second.keys()
            assert all(bool((first[k] == second[k]).all()) for k in first), f"{link}/{name} differs"


def wait_until_saving(run: Path, process: Started, after: float) -> None:
    """Return when a half-written checkpoint is seen, `after` seconds from now or later."""
    time.sleep(after)
    while process.running and not any((run / "checkpoints").glob(".step-*.part")):
        time.sleep(0.0005)


@pytest.mark.slow
def test_a_run_killed_at_twenty_random_instants_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    pairs, steps, began = write_pairs(tmp_path / "pairs.tsv"), 400, time.monotonic()
    start(pairs, tmp_path / "whole", steps).finish()
    most = 0.2 * (time.monotonic() - began)  # seconds; so that the machine's load changes nothing
    draw, kills = random.Random(7), 0
    run = tmp_path / "killed"
    while kills < 20:
        process = start(pairs, run, steps, "--resume")
        if kills % 3 == 0:  # in the middle of saving; otherwise wherever it is: reading, stepping, validating
            wait_until_saving(run, process, after=draw.uniform(0, most))
        else:
            time.sleep(draw.uniform(0, most))
        if not process.running:
            break
        process.kill()
        kills += 1
    assert kills >= 15, "the run was over before it could be killed often enough: make it longer"
    start(pairs, run, steps, "--resume").finish()
    assert_same_run(tmp_path / "whole", run)


@pytest.mark.slow
def test_sigterm_saves_and_the_resumed_run_is_the_same(tmp_path: Path) -> None:
    pairs, run = write_pairs(tmp_path / "pairs.tsv"), tmp_path / "stopped"
    start(pairs, tmp_path / "whole", 200).finish()
    process = start(pairs, run, 200)
    process.wait_for((run / "log.jsonl").exists)
    process.terminate()
    assert process.end() == 130
    assert "everything is saved" in process.errors
    assert "--resume" in process.errors
    start(pairs, run, 200, "--resume").finish()
    assert_same_run(tmp_path / "whole", run)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def start_two(pairs: Path, out: Path, *more: str) -> list[Started]:
    """Two processes that train together, told so as `torchrun` tells its own."""
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return [start(pairs, out, 60, *more, RANK=rank, LOCAL_RANK=rank, **world) for rank in ("0", "1")]


@pytest.mark.slow
def test_two_processes_follow_the_same_loss_as_one_and_resume_exactly(tmp_path: Path) -> None:
    pairs, plain = write_pairs(tmp_path / "pairs.tsv"), ("--set", "train.dropout=0")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "weft"]
    start(pairs, tmp_path / "one", 60, *plain).finish()
    subprocess.run([*launcher, *command(pairs, tmp_path / "two", 60, *plain)], check=True, timeout=300)
    one, both = (
        [line["loss"] for line in log_without_clocks(tmp_path / name) if line["kind"] == "report"]
        for name in ("one", "two")
    )
    assert both == pytest.approx(one, rel=1e-3)
    processes = start_two(pairs, tmp_path / "again", *plain)
    processes[0].wait_for((tmp_path / "again" / "last").exists)
    for process in processes:
        process.kill()
    for process in start_two(pairs, tmp_path / "again", *plain, "--resume"):
        process.finish()
    assert_same_run(tmp_path / "two", tmp_path / "again")


def train(pairs: Path, out: Path, steps: int = 40, **more: object) -> None:
    import weft

    weft.train(str(pairs), out=out, steps=steps, settings=SMALL, **more)  # type: ignore[arg-type]


class Listener(Quiet):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.tsv", 150)


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_last_checkpoint_is_told_and_the_one_before_it_is_used(
    pairs: Path, tmp_path: Path, damage: str
) -> None:
    train(pairs, tmp_path / "whole")
    train(pairs, tmp_path / "run")
    (tmp_path / "run" / "log.jsonl").write_text(
        "".join(
            line + "\n"
            for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()
            if '"kind": "final"' not in line
        )
    )
    weights = (tmp_path / "run" / "last").resolve() / checkpoint.OPTIMISER
    content = bytearray(weights.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
        weights.write_bytes(content)
    elif damage == "cut":
        weights.write_bytes(content[: len(content) // 2])
    else:
        weights.unlink()
    listener = Listener()
    train(pairs, tmp_path / "run", resume=True, reporter=listener)
    assert any("damaged" in note and "the one before" in note for note in listener.notes)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_a_full_disk_leaves_the_checkpoint_before_whole_and_says_so(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = checkpoint.save_file, []

    def full(tensors: object, path: Path) -> None:
        calls.append(path)
        if len(calls) > 4:
            raise OSError(28, "No space left on device")
        real(tensors, path)  # type: ignore[arg-type]

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(UserError) as caught:
        train(pairs, tmp_path / "run")
    assert "No space left on device" in caught.value.what
    assert "is intact" in caught.value.what
    assert "--resume" in caught.value.todo
    monkeypatch.undo()
    train(pairs, tmp_path / "whole")
    train(pairs, tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


class Remover(Quiet):
    """Removes something as soon as the first report has come."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def report(self, line: dict[str, object]) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


@pytest.mark.parametrize("next_written", ["log", "checkpoint"])
def test_a_run_folder_that_is_removed_while_it_is_trained_in_is_told(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, next_written: str
) -> None:
    from weft.learn import loop

    if next_written == "checkpoint":
        monkeypatch.setattr(loop, "SAVE_SECONDS", 0.0)
    with pytest.raises(UserError) as caught:
        train(pairs, tmp_path / "run", reporter=Remover(tmp_path / "run"))
    assert caught.value.what == "the run folder was removed during training"
    assert caught.value.where == str(tmp_path / "run")
    assert caught.value.todo
    assert not (tmp_path / "run").exists()


def test_a_log_that_cannot_be_written_is_told(pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    from weft.runs.log import LogFile

    def full(self: LogFile, line: object) -> None:
        raise OSError(28, "No space left on device", str(self.path))

    monkeypatch.setattr(LogFile, "write", full)
    with pytest.raises(UserError) as caught:
        train(pairs, tmp_path / "run")
    assert "training can no longer use a file: No space left on device" in caught.value.what
    assert caught.value.where.endswith("log.jsonl")
    assert "--resume" in caught.value.todo


def test_resuming_without_checkpoints_says_that_it_starts_from_the_beginning(pairs: Path, tmp_path: Path) -> None:
    train(pairs, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "run", symlinks=True)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    listener = Listener()
    train(pairs, tmp_path / "run", resume=True, reporter=listener)
    assert [note for note in listener.notes if "starts from the beginning" in note and "checkpoints" in note]
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_a_loss_that_is_not_finite_stops_with_the_last_good_weights(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.learn.backward import Backward

    real, calls = Backward.__call__, itertools.count()

    def broken(self: Backward, batch: Any, count: Any) -> Any:
        return real(self, batch, count) * (float("nan") if next(calls) == 25 else 1.0)

    monkeypatch.setattr(Backward, "__call__", broken)
    with pytest.raises(WeftError) as caught:
        train(pairs, tmp_path / "run")
    assert "step 25" in caught.value.what
    assert "last good weights are saved" in caught.value.what
    assert "train.rate" in caught.value.todo
    weights = load_file(tmp_path / "run" / "last" / checkpoint.WEIGHTS)
    assert all(bool(w.isfinite().all()) for w in weights.values())


def test_a_run_folder_is_locked_while_in_use(pairs: Path, tmp_path: Path) -> None:
    from weft.runs.folder import RunFolder

    train(pairs, tmp_path / "run", steps=5)
    with RunFolder(tmp_path / "run").locked(), pytest.raises(UserError, match="another process is training"):
        train(pairs, tmp_path / "run", steps=5, resume=True)


def test_patience_ends_a_run_early(pairs: Path, tmp_path: Path) -> None:
    import weft

    settings = [*SMALL, "train.patience=2", "train.rate=1e-9", "train.average=0", "train.select=exact"]
    weft.train(str(pairs), out=tmp_path / "run", steps=400, settings=settings)
    assert log_without_clocks(tmp_path / "run")[-1]["steps"] < 200


def test_resuming_a_finished_run_changes_nothing(pairs: Path, tmp_path: Path) -> None:
    train(pairs, tmp_path / "run")
    before = (tmp_path / "run" / "log.jsonl").read_bytes()
    train(pairs, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == before


def test_a_wall_clock_budget_has_the_evaluations_inside_it(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a clock that the test turns: each look at it is a twentieth of a second."""
    import weft
    from weft.learn import loop

    ticks = itertools.count()
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: next(ticks) / 20))
    weft.train(str(pairs), out=tmp_path / "run", budget="30s", settings=[*SMALL, "train.members=1"])
    lines = log_without_clocks(tmp_path / "run")
    spent = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])["seconds"]
    assert 0.8 * 30 < spent <= 30
    assert sum(line["kind"] == "evaluation" for line in lines) > 5
    rates = [line["rate"] for line in lines if line["kind"] == "report"]
    assert rates[-1] < 0.02 * max(rates)  # every budget ends annealed


def test_init_starts_from_the_weights_of_another_run(pairs: Path, tmp_path: Path) -> None:
    import weft

    train(pairs, tmp_path / "first", steps=60)
    other = write_pairs(tmp_path / "other.tsv", 90)
    weft.train(str(other), out=tmp_path / "second", steps=1, init=tmp_path / "first", settings=["train.rate=1e-9"])
    old = load_file(tmp_path / "first" / "best" / checkpoint.WEIGHTS)
    new = load_file(tmp_path / "second" / "best" / checkpoint.WEIGHTS)
    assert old.keys() == new.keys()
    assert all(bool(((old[k] - new[k]).abs() < 1e-5).all()) for k in old)


def test_what_a_run_began_from_need_not_be_said_again(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import weft
    from weft.runs import train as training

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    train(pairs, tmp_path / "first", steps=60)
    settings = ["train.rate=1e-9"]
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(training, "fit", killed)  # before its first checkpoint
        with pytest.raises(Interrupted, match="before the first step"):
            weft.train(str(pairs), out="second", steps=1, init="first", settings=settings, reporter=Quiet())
    monkeypatch.chdir("/")
    weft.train(out=tmp_path / "second", resume=True, reporter=Quiet())
    old, new = (load_file(tmp_path / run / "best" / checkpoint.WEIGHTS) for run in ("first", "second"))
    assert all(bool(((old[k] - new[k]).abs() < 1e-5).all()) for k in old)
    with pytest.raises(UserError, match=r"was started from .*first\), so it cannot start from another run") as caught:
        weft.train(out=tmp_path / "second", resume=True, init=tmp_path / "second", reporter=Quiet())
    assert caught.value.where.startswith("--init")


def test_the_files_that_a_settings_file_names_are_used_and_the_run_goes_on(pairs: Path, tmp_path: Path) -> None:
    import weft

    valid = write_pairs(tmp_path / "dev.tsv", 30)
    config = tmp_path / "mine.yaml"
    config.write_text(f"data: {{pairs: [{pairs}], valid: [{valid}]}}\n")
    run = weft.train(out=tmp_path / "run", config=config, steps=3, settings=SMALL, reporter=Quiet())
    facts = json.loads((run.path / "data.json").read_text())
    assert facts["pairs"] == [str(pairs)]
    assert facts["valid"] == [str(valid)]
    assert facts["valid_pairs"] == len(valid.read_text().splitlines())
    weft.train(out=run.path, resume=True, reporter=Quiet())
    weft.train(out=run.path, config=config, steps=3, settings=SMALL, resume=True, reporter=Quiet())
    other = weft.train(str(valid), out=tmp_path / "other", config=config, steps=3, settings=SMALL, reporter=Quiet())
    assert json.loads((other.path / "data.json").read_text())["pairs"] == [str(valid)]


def test_parallel_files_with_colons_in_their_names_are_found_again(tmp_path: Path) -> None:
    import weft

    for side, step in (("en", 1), ("de", -1)):
        words = [line.split("\t")[0][::step] for line in write_pairs(tmp_path / "p.tsv").read_text().splitlines()]
        (tmp_path / f"at 10:00.{side}").write_text("\n".join(words) + "\n")
    both = f"{tmp_path}/at 10:00.en:{tmp_path}/at 10:00.de"
    run = weft.train(both, out=tmp_path / "run", steps=2, settings=SMALL, reporter=Quiet())
    assert run.spec.data.pairs == (both,)
    weft.train(out=run.path, resume=True, reporter=Quiet())


def test_weights_that_do_not_fit_the_settings_are_refused_by_name(pairs: Path, tmp_path: Path) -> None:
    import weft

    train(pairs, tmp_path / "run", steps=3)
    spec = tmp_path / "run" / "spec.yaml"
    spec.write_text(spec.read_text().replace("cell: lstm", "cell: gru"))
    accept(RunFolder(tmp_path / "run"))
    with pytest.raises(UserError) as caught:
        weft.load(tmp_path / "run").predict(["abc"])
    assert "do not fit the settings" in caught.value.what
    assert "spec.yaml" in caught.value.where


def test_a_run_of_an_earlier_version_that_compared_settings_first_has_the_time_that_was_left(
    pairs: Path, tmp_path: Path
) -> None:
    import yaml

    import weft

    run = weft.train(pairs, out=tmp_path / "run", budget="2s", settings=SMALL, reporter=Quiet())
    file = run.path / "spec.yaml"
    spec = yaml.safe_load(file.read_text())
    spec["train"] |= {"budget_seconds": 602.0, "raced": 600.0}
    file.write_text(yaml.safe_dump(spec))
    (run.path / "manifest.json").unlink()  # earlier versions had none
    (run.path / "race" / "1").mkdir(parents=True)
    (run.path / "race" / "result.json").write_text('{"winner": 1, "nats_per_character": {}, "seconds": 600.0}')
    last = checkpoint.steps(run.path / "checkpoints")[-1]
    assert weft.load(run.path).spec.train.budget_seconds == 2.0
    weft.train(out=run.path, resume=True, reporter=Quiet())  # the time is over
    assert checkpoint.steps(run.path / "checkpoints")[-1] == last


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"encoder.width": 64}, ["encoder.width: 32 → 64", "leave encoder.width out"]),
        ({"decoder.cell": "gru"}, ["decoder.cell: lstm → gru"]),
        ({"encoder.layers": 2}, ["encoder.layers: 1 → 2"]),
    ],
)
def test_init_with_another_shape_names_the_setting_and_leaves_no_folder(
    changed: dict[str, object], named: list[str], tiny_run: Run, tiny_pairs: Path, tmp_path: Path
) -> None:
    import weft

    with pytest.raises(UserError, match="do not fit these settings") as error:
        weft.train(tiny_pairs, out=tmp_path / "run", steps=1, init=tiny_run.path, settings=changed, reporter=Quiet())
    for text in named:
        assert text in str(error.value)
    assert not (tmp_path / "run").exists()
