"""A small run of every kind that Weft trains, with an input that each can read; the tests of serving use them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.api import Run, train
from weft.runs.report import Quiet

SMALL: dict[str, Any] = {
    **{f"{part}.width": 16 for part in ("encoder", "decoder", "embed")},
    **{"train.evaluations": 1, "train.members": 1, "train.dropout": 0},
}
ENCODED = {key: value for key, value in SMALL.items() if not key.startswith("decoder")}
DECODED = {key: value for key, value in SMALL.items() if not key.startswith("encoder")}


@dataclass(frozen=True)
class Example:
    """How to train a run in a folder, and an input as a client of /predict sends it; `file`: uploaded instead."""

    train: Callable[[Path], Run]
    given: Any = None
    file: Callable[[Path], Path] | None = None
    more: dict[str, str] = field(default_factory=dict)  # the other cells of a file


def trained(folder: Path, rows: list[dict[str, Any]], settings: dict[str, Any], **roles: Any) -> Run:
    """Train for a few steps on rows, which are written as JSON lines."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "table.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return train(table, out=folder / "run", steps=4, settings=settings, reporter=Quiet(), seed=1, **roles)


def forms(folder: Path) -> Run:
    rows = [
        {"lemma": f"{'ab' * (n % 4 + 1)}{n % 3}", "form": f"{'ba' * (n % 4 + 1)}s", "features": "V;PST"}
        for n in range(60)
    ]
    return trained(folder, rows, SMALL, source="lemma", target="form", features="features")


def labels(folder: Path) -> Run:
    rows = [{"text": f"{'ab' * (n % 5 + 1)}{n % 7}", "label": "even" if n % 2 else "odd"} for n in range(60)]
    return trained(folder, rows, ENCODED, task="classify", source="text", target="label")


def word_labels(folder: Path) -> Run:
    rows = [{"words": f"ann sees bob{n % 5}", "labels": "B-PER O B-PER"} for n in range(60)]
    return trained(folder, rows, ENCODED, task="classify-tokens", source="words", target="labels")


def numbers(folder: Path) -> Run:
    rows = [{"past": [n / 10, n / 5, 1.0], "future": [n / 10, 2.0], "speed": [0.1 * (n % 5), 1.0]} for n in range(60)]
    return trained(folder, rows, SMALL, source="past", target="future", context="speed")


def notes(folder: Path) -> Run:
    draw, rows = random.Random(1), []
    for _ in range(60):
        melody = [[draw.choice([60, 62, 64, 65, 67])] for _ in range(draw.randint(3, 9))]
        rows.append(
            {"part": draw.choice("ab"), "melody": melody, "harmony": [[n[0] - 12, n[0]][: n[0] - 59] for n in melody]}
        )
    return trained(folder, rows, SMALL, source="part", target="harmony", context="melody")


def prompts(folder: Path) -> Run:
    rows = [{"text": "abcdefgh"[n % 4 : n % 4 + 4]} for n in range(80)]
    return trained(folder, rows, DECODED, task="language-model", target="text")


def hidden(folder: Path) -> Run:
    rows = [{"text": f"the {'big' if n % 2 else 'small'} dog runs {n % 5} times"} for n in range(60)]
    return trained(folder, rows, ENCODED, task="masked-lm", target="text")


def restored(folder: Path) -> Run:
    rows = [{"text": f"the {'big' if n % 2 else 'small'} dog runs {n % 5} times"} for n in range(60)]
    return trained(folder, rows, SMALL, task="denoise", target="text")


def tunes(folder: Path) -> Run:
    rows = [{"notes": [[60 + n % 5, 48], [62 + step % 3 for step in range(n % 3 + 1)]] * 3} for n in range(60)]
    return trained(folder, rows, DECODED, task="language-model", target="notes")


def answers(folder: Path) -> Run:
    towns = ["Rome", "Oslo", "Bern", "Lima"]
    rows = [
        {"document": f"Ann lives in {towns[n % 4]}. Bob lives in {towns[(n + 1) % 4]}.",
         "question": "Where does Ann live?", "answer": towns[n % 4]}
        for n in range(60)
    ]  # fmt: skip
    settings = {**ENCODED, "source.size": 300}
    return trained(folder, rows, settings, task="answer")


def tone(folder: Path, pitch: float = 900) -> Path:
    """Write a recording of half a second."""
    import soundfile

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{pitch:g}.wav"
    soundfile.write(path, 0.3 * np.sin(2 * np.pi * pitch * np.arange(4000) / 8000), 8000)
    return path


def sounds(folder: Path) -> Run:
    rows = [{"sound": tone(folder, 400 + 10 * n).name, "word": "high" if n > 30 else "low"} for n in range(60)]
    return trained(folder, rows, {**ENCODED, "audio.bands": 12}, source="sound", target="word")


def square(folder: Path, shade: int = 200, side: int = 8) -> Path:
    """Write a picture of a light square."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{shade}-{side}.png"
    pixels = np.zeros((16, 16), dtype=np.uint8)
    pixels[:side, :side] = shade
    Image.fromarray(pixels).save(path)
    return path


def pictures(folder: Path) -> Run:
    rows = [
        {"image": square(folder, 100 + n, 4 + n % 8).name, "size": "big" if n % 8 > 4 else "small"} for n in range(60)
    ]
    return trained(folder, rows, ENCODED, task="classify", source="image", target="size")


EXAMPLES: dict[str, Example] = {
    "forms": Example(forms, {"source": "abab1", "features": ["V", "PST"]}),
    "labels": Example(labels, "abab3"),
    "word-labels": Example(word_labels, "ann sees bob1"),
    "numbers": Example(numbers, {"source": [0.5, 1.0, 1.0], "context": [0.1, 1.0]}),
    "notes": Example(notes, {"source": "a", "context": [[60], [62], [64]]}),
    "prompts": Example(prompts, "abc"),
    "hidden": Example(hidden, "the ___ dog runs 3 times"),
    "restored": Example(restored, "the dog big runs"),
    "tunes": Example(tunes, [[60, 48], [62]]),
    "answers": Example(answers, {"source": "Ann lives in Rome. Bob lives in Oslo.", "context": "Where does Ann live?"}),
    "sounds": Example(sounds, file=tone),
    "pictures": Example(pictures, file=square),
}
