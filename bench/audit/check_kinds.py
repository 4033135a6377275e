"""Runs that are not from text to text: damaged, hostile, killed, and predicted in batches, as the other checks do."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import check_flips
import check_kills
from runner import FellShort

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

TITLE = "runs of labels, numbers, notes and language models: flips, kills, hostile folders, batches"
SAMPLE, FULL = 24, 200
SECONDS, MEGABYTES = 300.0, 4096
CLOSE = 1e-4
WIDTHS = ("encoder.width=16", "embed.width=16")
DECODER = (*WIDTHS, "decoder.width=16")
EACH = ("train.evaluations=6", "train.batch_tokens=128", "train.members=1")
STEPS = 40


@dataclass(frozen=True)
class Kind:
    """Rows of a table of one kind of data, and how a run on them is trained."""

    row: Callable[[random.Random], str]
    task: tuple[str, ...]
    settings: tuple[str, ...]
    suffix: str = ".tsv"

    @property
    def options(self) -> tuple[str, ...]:
        return (*self.task, *(part for setting in (*self.settings, *EACH) for part in ("--set", setting)))


def _words(draw: random.Random) -> str:
    return " ".join("".join(draw.choices("abc", k=3)) for _ in range(draw.randint(1, 5)))


def _labels(draw: random.Random) -> str:
    words = _words(draw)
    return f"{words}\t{'odd' if words.count('a') % 2 else 'even'}"


def _numbers(draw: random.Random) -> str:
    start, step = draw.randint(-5, 5), draw.uniform(-1, 1)
    series = [round(start + step * at, 3) for at in range(6)]
    return f"{series[:4]}\t{series[4:]}"


def _notes(draw: random.Random) -> str:
    tune = [draw.sample(range(60, 72), draw.randint(0, 2)) for _ in range(draw.randint(2, 6))]
    return f"{tune}\t{[[note - 12 for note in step] for step in tune]}"


KINDS = {
    "labels": Kind(_labels, ("--task", "classify"), WIDTHS),
    "numbers": Kind(_numbers, (), DECODER),
    "notes": Kind(_notes, (), (*DECODER, "source.kind=notes", "target.kind=notes")),
    "language model": Kind(_words, ("--task", "language-model"), ("decoder.width=16", "embed.width=16"), ".txt"),
}


@dataclass(frozen=True)
class Subject:
    """A good run of one kind, its table, input lines, what it ends with, and how long its training takes."""

    kind: Kind
    table: Path
    run: Path
    cache: Path
    lines: tuple[str, ...]
    whole: str
    seconds: float


def prepare(work: Path) -> dict[str, Subject]:
    import torch

    import weft  # noqa: F401

    torch.set_num_threads(1)
    os.environ["WEFT_CACHE"] = str(work / "cache")
    return {name: _prepared(kind, work / name.replace(" ", "-"), work / "cache") for name, kind in KINDS.items()}


def _prepared(kind: Kind, folder: Path, cache: Path) -> Subject:
    folder.mkdir()
    draw, table = random.Random(1), folder / f"rows{kind.suffix}"
    rows = [kind.row(draw) for _ in range(150)]
    table.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    began = time.monotonic()
    run = folder / "run"
    if _ended(_started(kind, table, run)) != 0:
        raise AssertionError(check_kills._errors(run)[-2000:])
    lines = tuple(row.partition("\t")[0] for row in rows[:40])
    return Subject(kind, table, run, cache, lines, check_kills.result_of(run), time.monotonic() - began)


def _started(kind: Kind, table: Path, run: Path) -> int:
    """Start or resume the training of a run in a forked process; return its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    with contextlib.suppress(BaseException):
        arguments = ["train", str(table), "--out", str(run), "--steps", str(STEPS), "--resume", *kind.options]
        code, _, err = _weft(arguments, "")
        run.with_name(f"{run.name}-errors").write_text(err, encoding="utf-8")
    os._exit(code)


def _ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _weft(arguments: list[str], stdin: str) -> tuple[int, str, str]:
    import hostile

    return hostile.run_weft(arguments, stdin)


def attempt(subjects: dict[str, Subject], number: int, folder: Path) -> str:
    draw = random.Random(number)
    name = draw.choice(sorted(subjects))
    attack = (_flipped, _killed, _hostile, _batched)[number % 4]
    try:
        return f"{name}: {attack(subjects[name], draw, number, folder)}"
    except FellShort as error:
        raise FellShort(f"{name}: {error}") from None


def _flipped(subject: Subject, draw: random.Random, number: int, folder: Path) -> str:
    """Change one bit of the run or of the cache; the result is the same, or the change is reported."""
    import hostile

    shutil.copytree(subject.run, folder / "run", symlinks=True)
    shutil.copytree(subject.cache, folder / "cache")
    os.environ["WEFT_CACHE"] = str(folder / "cache")
    use = draw.choice(("predict", "evaluate", "resume", "again"))
    expected = _in_child(lambda: _use(subject, use, folder, folder / "expected"))
    home = folder / ("cache" if use == "again" else "run")
    files = sorted(path for path in home.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_size)
    path, bit = check_flips._flip(draw.choice(files), draw)
    what = f"{use}: bit {bit} of {path.relative_to(folder)}"
    result = _use(subject, use, folder, folder / "new")
    if any(mark in result for mark in hostile.TRACEBACK):
        raise FellShort(f"{what}\nan error that is not explained: {result[-600:]}")
    code, output, _, told = result.split("\x01")
    if code == "0" and f"{code}\x01{output}" != "\x01".join(expected.split("\x01")[:2]) and not check_flips._said(told):
        raise FellShort(f"{what}\nanother result, and nothing is said: {output[:200]} {told[-300:]}")
    return what


def _use(subject: Subject, use: str, folder: Path, new: Path) -> str:
    """Use the copy of the run; return the exit code, what counts of the result, and stderr, as one text."""
    train = ["train", str(subject.table), "--out", str(new), "--steps", "3", *subject.kind.options]
    arguments = {
        "predict": ["predict", str(folder / "run")],
        "evaluate": ["evaluate", str(folder / "run"), str(subject.table), "--json"],
        "resume": ["train", "--out", str(folder / "run"), "--resume"],
        "again": train,
    }[use]
    code, out, err = _weft(arguments, "".join(f"{line}\n" for line in subject.lines[:6]))
    run = {"resume": folder / "run", "again": new}.get(use)
    if run is not None and code == 0:
        out = "".join(check_flips._weights_of(run / link) for link in ("best", "last"))
    return "\x01".join((str(code), out, "", err))


def _in_child(use: Callable[[], str]) -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.write(writer, use().encode()[:60_000])
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, encoding="utf-8") as file:
        return file.read()


def _killed(subject: Subject, draw: random.Random, number: int, folder: Path) -> str:
    """Kill training at a random instant and resume it: it ends as if nothing had happened."""
    run = folder / "run"
    for latest in (0.9, 0.4, 0.1, 0.0):
        shutil.rmtree(run, ignore_errors=True)
        child, seconds = _started(subject.kind, subject.table, run), draw.uniform(0, latest * subject.seconds)
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        if _ended(child) == -signal.SIGKILL:
            break
    what = f"killed after {seconds:.2f} s"
    if (code := _ended(_started(subject.kind, subject.table, run))) != 0:
        raise FellShort(f"{what}\nthe resumed run ended with {code}: {check_kills._errors(run)[-500:]}")
    if check_kills.result_of(run) != subject.whole:
        raise FellShort(f"{what}\nthe resumed run is another one")
    return what


def _hostile(subject: Subject, draw: random.Random, number: int, folder: Path) -> str:
    """Use a hostile copy of the run."""
    import hostile

    os.chdir(folder)
    lines = "".join(f"{line}\n" for line in subject.lines[:2])
    ground = hostile.Ground(subject.run, subject.table, (), lines, subject.kind.options)
    what, problem = hostile.tried(hostile.Attempt(ground, number, folder))
    if problem:
        raise FellShort(f"{what}\n{problem}")
    return what


def _batched(subject: Subject, draw: random.Random, number: int, folder: Path) -> str:
    """Predict lines in batches of different sizes: the outputs are the same."""
    import weft

    run = weft.load(subject.run)
    lines = draw.sample(subject.lines, draw.randint(2, 30))
    plan = run.predictor.plan(run.search({"length": 12} if not subject.kind.row(draw).count("\t") else {}), 1)
    pairs = [weft.Pair(line, "") for line in lines]
    first, *others = (run.predictor.predict(pairs, plan, batch_lines=size) for size in (1, 3, 64))
    for other in others:
        for alone, together in zip(first, other, strict=True):
            if not all(_close(a, b) for a, b in zip(alone.outputs, together.outputs, strict=True)):
                raise FellShort(f"{len(lines)} lines\n{alone.source}: {alone.outputs} ≠ {together.outputs}")
    return f"{len(lines)} lines in batches of 1, 3 and 64"


def _close(alone: Any, together: Any) -> bool:
    """Return whether two outputs are equal; numbers are compared as numbers."""
    a, b = (list(_numbers_in(output.text)) for output in (alone, together))
    same = alone.text == together.text or (
        bool(a) and len(a) == len(b) and all(abs(x - y) < CLOSE * max(1, abs(x)) for x, y in zip(a, b))
    )
    return same and abs(alone.score - together.score) <= CLOSE


def _numbers_in(text: str) -> Iterator[float]:
    for word in text.replace("[", " ").replace("]", " ").replace(",", " ").split():
        with contextlib.suppress(ValueError):
            yield float(word)
