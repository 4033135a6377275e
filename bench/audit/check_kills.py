"""Training is killed at a random instant and resumed: weights, links and log end as if nothing had happened."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ground import SMALL, TRANSFORMER, write_pairs
from runner import FellShort

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

TITLE = "training killed at a random instant, validation included: the same to the last bit"
SAMPLE, FULL = 40, 220
SECONDS, MEGABYTES = 300.0, 4096
CLOCKS = {"seconds", "tokens_per_second", "effort", "spent", "limit"}
STEPS = 60
EACH = {"train.evaluations": 8, "train.batch_tokens": 128}
KINDS = {
    "recurrent": {**SMALL, **EACH},
    "transformer": {**TRANSFORMER, **EACH},
    "members": {**SMALL, **EACH, "train.members": 2, "train.side_by_side": 1},
}


@dataclass(frozen=True)
class Subject:
    """The pairs, and of each kind what a run ends with and how many seconds it takes."""

    pairs: Path
    whole: dict[str, str]
    seconds: dict[str, float]


def prepare(work: Path) -> Subject:
    import torch

    import weft  # noqa: F401

    torch.set_num_threads(1)
    os.environ["WEFT_CACHE"] = str(work / "cache")
    pairs, whole, seconds = write_pairs(work / "pairs.tsv", 400), {}, {}
    _ended(_started(pairs, work / "warm", "recurrent"))
    for kind in KINDS:
        began = time.monotonic()
        status = _ended(_started(pairs, work / kind, kind))
        assert status == 0, (work / f"{kind}-errors").read_text(encoding="utf-8")
        seconds[kind], whole[kind] = time.monotonic() - began, result_of(work / kind)
    return Subject(pairs, whole, seconds)


def _started(pairs: Path, run: Path, kind: str) -> int:
    """Start `weft train --resume` in a forked process; return its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    with contextlib.suppress(BaseException):
        import hostile

        _mark_validation(run.with_name(f"{run.name}-validating"))
        settings = [part for key, value in KINDS[kind].items() for part in ("--set", f"{key}={value}")]
        arguments = ["train", str(pairs), "--out", str(run), "--steps", str(STEPS), "--resume", *settings]
        code, _, err = hostile.run_weft(arguments, "")
        run.with_name(f"{run.name}-errors").write_text(err, encoding="utf-8")
    os._exit(code)


def _mark_validation(mark: Path) -> None:
    """Let a file be there while the run validates."""
    from weft.learn.loop import Trainer

    real = Trainer._validated

    def validated(trainer: Trainer) -> object:
        mark.touch()
        try:
            return real(trainer)
        finally:
            mark.unlink(missing_ok=True)

    Trainer._validated = validated  # type: ignore[method-assign,assignment]


def _ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def result_of(run: Path) -> str:
    """Return what must be equal: links, checksums of tensors, and the log without its clocks, of every member."""
    parts = []
    for home in (run, *sorted((run / "members").glob("*"))):
        for link in ("best", "last"):
            parts.append(f"{home.relative_to(run)}/{os.readlink(home / link)}")
            for name in ("weights.safetensors", "optimiser.safetensors"):
                parts.append(hashlib.sha256((home / link / name).read_bytes()).hexdigest())
        lines = [json.loads(line) for line in (home / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        parts += [json.dumps({k: v for k, v in line.items() if k not in CLOCKS}, sort_keys=True) for line in lines]
    return "\n".join(parts)


def attempt(subject: Subject, number: int, folder: Path) -> str:
    from weft.runs.folder import RunFolder
    from weft.runs.verify import verify

    draw = random.Random(number)
    kind = draw.choice(("recurrent", "recurrent", "transformer", "members"))
    run = folder / "run"
    for latest in (0.9, 0.4, 0.1, 0.0):  # a run that is over before it can be killed is no kill
        shutil.rmtree(run, ignore_errors=True)
        child = _started(subject.pairs, run, kind)
        what = f"{kind}: killed {_wait(draw, number, latest * subject.seconds[kind], run, child)}"
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        if _ended(child) == -signal.SIGKILL:
            break
    else:
        raise FellShort(f"{what}\nthe run was over before it could be killed: make it longer")
    run.with_name(f"{run.name}-validating").unlink(missing_ok=True)
    if RunFolder(run).is_run:
        damaged = [state for state in verify(RunFolder(run)) if state.state == "damaged"]
        if damaged:
            raise FellShort(f"{what}\nweft verify finds damage after it: {damaged[:2]}")
    if (code := _ended(_started(subject.pairs, run, kind))) != 0:
        raise FellShort(f"{what}\nthe resumed run ended with {code}: {_errors(run)[-500:]}")
    if "damaged" in _errors(run):
        raise FellShort(f"{what}\na whole checkpoint is called damaged: {_errors(run)[-500:]}")
    if result_of(run) != subject.whole[kind]:
        raise FellShort(f"{what}\nthe resumed run is another one")
    return what


def _errors(run: Path) -> str:
    return run.with_name(f"{run.name}-errors").read_text(encoding="utf-8")


def _wait(draw: random.Random, number: int, seconds: float, run: Path, child: int) -> str:
    """Wait for a random instant of training, of validation, or of saving, in so many seconds; say which."""
    began = time.monotonic()
    time.sleep(draw.uniform(0, seconds))
    kind = ("anywhere", "while validating", "while saving")[number % 3]
    marks = {"while validating": lambda: run.with_name(f"{run.name}-validating").exists()}
    marks["while saving"] = lambda: any((run / "checkpoints").glob(".step-*.part"))
    while kind in marks and not marks[kind]():
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return f"late ({kind} was not seen)"
        time.sleep(0.0003)
    if kind == "while validating":
        time.sleep(draw.uniform(0, 0.02))
    return f"{kind} after {time.monotonic() - began:.2f} s"
