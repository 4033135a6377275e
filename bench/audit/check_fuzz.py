"""Random settings, files and lines are given to the commands: a mistake is told in three parts, without a traceback."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

from ground import Ground, made_ground
from runner import FellShort

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

TITLE = "random settings, tables, lines and flags: an answer, or an error in three parts"
SAMPLE, FULL = 150, 2200
SECONDS, MEGABYTES = 120.0, 4096
NUMBERS = ["0", "-1", "1", "3", "1e-320", "1e999", "nan", ".inf", "9" * 23, "9" * 5000, "-0.0", "1_000", "0x10", "1e20"]
TEXTS = [
    "",
    "null",
    "true",
    "[]",
    "{}",
    "[" * 5000,
    "{a: " * 200,
    "'",
    "&a [*a]",
    "!!python/object:os",
    "é\u0301",
    "\u202e",
]
NAMES = ["lstm", "gru", "transformer", "beam", "rotary", "relative", "none", "last", "mlp", "context", "2001-01-01"]
CHARACTERS = "abcdefgh \u00e9\u0301\u200d\U0001f600\ufffd\u0000\x1b\r"


def prepare(work: Path) -> Ground:
    return made_ground(work)


def attempt(ground: Ground, number: int, folder: Path) -> str:
    import hostile

    draw = random.Random(number)
    arguments, stdin = draw.choice([setting, setting, settings_file, predict, predict, table])(draw, ground, folder)
    shown = " ".join(argument[:60] for argument in arguments)
    os.chdir(folder)
    code, _, err = hostile.run_weft(arguments, stdin)
    if code not in (0, 2) or "Traceback" in err or "Weft failed" in err:
        raise FellShort(f"{shown}\nexit {code}: {err[-800:]}")
    if code == 2 and not ("where:" in err and "to do:" in err):
        raise FellShort(f"{shown}\nnot three parts: {err[-800:]}")
    return f"{shown} → {code}"


def _value(draw: random.Random) -> str:
    return draw.choice([*NUMBERS, *TEXTS, *NAMES, str(draw.randint(-(10**6), 10**12)), f"{draw.gauss(0, 1e3):g}"])


def _key(draw: random.Random) -> str:
    from weft.settings import flatten
    from weft.spec import Spec

    known = [key for key, _ in flatten(Spec().model_dump())]
    key: str = draw.choice(
        [*known, "encoder.heads", "decoder.heads", "encoder.inner", "data", "train..seed", ".", "x.y"]
    )
    return key


def setting(draw: random.Random, ground: Ground, folder: Path) -> tuple[list[str], str]:
    pairs = [f"{_key(draw)}={_value(draw)}" for _ in range(draw.randint(1, 4))]
    return ["config", "show", *(part for pair in pairs for part in ("--set", pair))], ""


def settings_file(draw: random.Random, ground: Ground, folder: Path) -> tuple[list[str], str]:
    lines = [f"{_key(draw)}: {_value(draw)}" for _ in range(draw.randint(1, 6))]
    content = "\n".join(lines).encode("utf-8")
    if draw.random() < 0.3:
        content = bytes(draw.randrange(256) for _ in range(draw.randint(0, 300)))
    (folder / "mine.yaml").write_bytes(content)
    return ["config", "check", str(folder / "mine.yaml")], ""


def predict(draw: random.Random, ground: Ground, folder: Path) -> tuple[list[str], str]:
    run = draw.choice([ground.plain, ground.transformer, ground.members])
    flags: list[Any] = draw.choice([
        ["--greedy"],
        ["--beam", draw.choice([0, 1, 7, 1000, 1001, 10**9])],
        ["--sample", "--temperature", draw.choice([1e-320, 1e-3, 1.5, -1])],
        ["--nbest", draw.choice([0, 3, 1001, 10**9]), "--format", draw.choice(["tsv", "jsonl", "text"])],
        ["--sample", "--top-k", draw.choice([-1, 1, 10**12]), "--top-p", draw.choice([0, 0.5, 2])],
        ["--prefix", _value(draw)[:20]],
        ["--seed", _value(draw)[:30]],
        ["--engine", draw.choice(["torch", "auto", "ctranslate2", "x"])],
    ])  # fmt: skip
    lines = ["".join(draw.choices(CHARACTERS, k=draw.choice([0, 1, 5, 30, 200]))) for _ in range(draw.randint(0, 3))]
    return ["predict", str(run), *map(str, flags)], "\n".join(lines)


def table(draw: random.Random, ground: Ground, folder: Path) -> tuple[list[str], str]:
    cells = [
        "a",
        "",
        "b\tc",
        '"',
        "[1, 2]",
        "[" * 500,
        "9" * 5000,
        "\x00",
        "\ufeff",
        "é",
        "{",
        '{"source": "a"}',
        "a,b",
    ]
    rows = [
        draw.choice(["\t", ",", " "]).join(draw.choices(cells, k=draw.randint(0, 4)))
        for _ in range(draw.randint(0, 40))
    ]
    content = "\n".join(rows).encode("utf-8")
    if draw.random() < 0.3:
        content = bytes(draw.randrange(256) for _ in range(draw.randint(0, 500)))
    file = folder / f"mine.{draw.choice(['tsv', 'csv', 'jsonl', 'txt', 'parquet', 'tsv.gz'])}"
    file.write_bytes(content)
    if draw.random() < 0.5:
        return [
            "data",
            str(file),
            *draw.choice([[], ["--source", "0"], ["--target", "x"], ["--tag", "99999999999"]]),
        ], ""
    return ["evaluate", str(ground.plain), str(file)], ""
