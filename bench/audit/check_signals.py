"""SIGTERM or SIGINT at a random instant of train, compare, recipe and demo ends the command within seconds."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from ground import SMALL, write_pairs
from runner import FellShort

TITLE = "SIGTERM or Ctrl-C at a random instant: it ends within seconds, says what is saved, and goes on"
SAMPLE, FULL = 12, 80
SECONDS, MEGABYTES = 300.0, 6000
MOST_SECONDS = 30.0  # from the signal to the end, also on a busy machine
LATEST = 12.0  # seconds after the start


def prepare(work: Path) -> Path:
    import torch

    import weft
    from weft.runs.report import Quiet

    torch.set_num_threads(1)
    os.environ["WEFT_CACHE"] = str(work / "cache")
    pairs = write_pairs(work / "pairs.tsv")
    weft.train(pairs, out=work / "warm", steps=3, settings=SMALL, reporter=Quiet())
    return pairs


def commands(pairs: Path) -> dict[str, list[str]]:
    small = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    return {
        "train": ["train", str(pairs), "--out", "run", "--steps", "400", *small],
        "compare": ["compare", str(pairs), "--out", "run", "--vary", "decoder.cell=gru,elman", "--steps", "60", *small],
        "recipe": ["recipe", "run", "case", "--steps", "20", "--out", "run"],
        "demo": ["demo", "--out", "run", "--budget", "20s"],
    }


def attempt(pairs: Path, number: int, folder: Path) -> str:
    draw = random.Random(number)
    name, arguments = draw.choice(list(commands(pairs).items()))
    kind, after = draw.choice([signal.SIGTERM, signal.SIGINT]), draw.uniform(0.05, LATEST)
    what = f"{name}: {kind.name} after {after:.2f} s"
    errors = folder / "errors"
    child = _started(arguments, folder, errors)
    time.sleep(after)
    os.kill(child, kind)
    status, seconds = _ended(child)
    text = errors.read_text(encoding="utf-8", errors="replace")
    if status is None:
        raise FellShort(f"{what}\nit had not ended after {MOST_SECONDS:.0f} s: {text[-300:]}")
    if status not in (0, 130) or "Traceback" in text or "Weft failed" in text:
        raise FellShort(f"{what}\nexit {status}: {text[-800:]}")
    if status == 130 and "stopped" not in text:
        raise FellShort(f"{what}\nit does not say what it did: {text[-300:]}")
    return f"{what} → {status} in {seconds:.1f} s"


def _started(arguments: list[str], folder: Path, errors: Path) -> int:
    """Start `weft` in a forked process; return its number."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        os.read(reader, 1)  # until its handlers are there
        return child
    from weft.cli import main as cli

    os.chdir(folder)
    for stream, path in ((1, os.devnull), (2, str(errors))):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    real = cli._run

    def run(given: list[str]) -> int:
        os.write(writer, b".")
        return real(given)

    cli._run = run
    sys.argv = ["weft", *arguments]
    code = 1
    try:
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stderr.flush()
        os._exit(code)


def _ended(child: int) -> tuple[int | None, float]:
    """Return the exit code, and the seconds until the end; none if it took too long."""
    began = time.monotonic()
    while time.monotonic() - began < MOST_SECONDS:
        number, status = os.waitpid(child, os.WNOHANG)
        if number:
            return os.waitstatus_to_exitcode(status), time.monotonic() - began
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None, MOST_SECONDS
