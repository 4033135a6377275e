"""One bit of one file of a run, an export or a cache is changed: the result is the same, or the change is reported."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from ground import Ground, made_ground
from runner import FellShort

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

TITLE = "one bit changed in a run, an export or a cache: the same result, or it is said"
SAMPLE, FULL = 100, 600
SECONDS, MEGABYTES = 120.0, 2048
LINES = "abc\nfedcba\nhgfed\nabcdefgh\nhhh\ncafe\n"
QUIET_FILES = ("README.md", "curves.png", "lock")  # that nothing is computed from


@dataclass(frozen=True)
class Subject:
    """Good runs, and what each use of them gives."""

    ground: Ground
    expected: dict[str, str]


USES = {  # of which run, and the arguments
    "predict": ("plain", ["predict", "RUN"]),
    "evaluate": ("members", ["evaluate", "RUN", "PAIRS", "--json"]),
    "engine": ("transformer", ["predict", "RUN", "--engine", "auto"]),
    "resume": ("plain", ["train", "--out", "RUN", "--resume"]),
    "init": (
        "plain",
        ["train", "PAIRS", "--init", "RUN", "--out", "NEW", "--steps", "3", "--set", "train.evaluations=1"],
    ),
    "cache": ("plain", ["train", "PAIRS", "--out", "NEW", "--steps", "3", "--set", "train.evaluations=1"]),
}


def prepare(work: Path) -> Subject:
    ground = made_ground(work)
    return Subject(ground, {use: _expected(ground, use, work / f"expected-{use}") for use in USES})


def _expected(ground: Ground, use: str, folder: Path) -> str:
    """Return what a use gives without damage; in a child, as attempts run."""
    folder.mkdir()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code, result, err = _used(ground, use, folder)
        os.write(writer, f"{code} {result}{'' if code == 0 else err}".encode()[:60_000])
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    result = os.read(reader, 1 << 16).decode()
    os.close(reader)
    assert result.startswith("0 "), result
    return result[2:]


def _used(ground: Ground, use: str, folder: Path) -> tuple[int, str, str]:
    """Use the copy of the run in `folder`; return the exit code, what counts of the result, and stderr."""
    import hostile

    name, arguments = USES[use]
    if not (folder / "run").exists():
        shutil.copytree(vars(ground)[name], folder / "run", symlinks=True)
    words = {"RUN": folder / "run", "PAIRS": ground.pairs, "NEW": folder / "new"}
    code, out, err = hostile.run_weft([str(words.get(argument, argument)) for argument in arguments], LINES)
    trained = {"resume": folder / "run", "init": folder / "new", "cache": folder / "new"}.get(use)
    if trained is not None and code == 0:
        out = "".join(_weights_of(trained / link) for link in ("best", "last"))
    return code, out, err


def _weights_of(link: Path) -> str:
    return (
        f"{link.name} {os.readlink(link)} {hashlib.sha256((link / 'weights.safetensors').read_bytes()).hexdigest()}\n"
    )


def attempt(subject: Subject, number: int, folder: Path) -> str:
    draw = random.Random(number)
    use = draw.choice(sorted(USES))
    name = USES[use][0]
    run, cache = folder / "run", folder / "cache"
    shutil.copytree(vars(subject.ground)[name], run, symlinks=True)
    shutil.copytree(subject.ground.cache, cache)
    os.environ["WEFT_CACHE"] = str(cache)
    home = cache if use == "cache" else run
    if use == "engine" and draw.random() < 0.8:
        home = run / "ctranslate2"
    files = sorted(path for path in home.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_size)
    path, place = _flip(draw.choice(files), draw)
    what = f"{use}: bit {place} of {path.relative_to(folder)}"
    code, result, err = _used(subject.ground, use, folder)
    if "Traceback" in err or "Weft failed" in err:
        raise FellShort(f"{what}\nan error that is not explained: {err[-600:]}")
    if code == 0 and result == subject.expected[use]:
        return f"{what}: the same"
    if code == 0 and not _said(err):
        raise FellShort(f"{what}\nanother result, and nothing is said")
    return f"{what}: {'refused' if code else 'said'}"


def _flip(path: Path, draw: random.Random) -> tuple[Path, int]:
    content = bytearray(path.read_bytes())
    place = draw.randrange(8 * len(content))
    content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)
    return path, place


def _said(err: str) -> bool:
    return any(word in err for word in ("damaged", "edited", "cannot be read"))
