"""What single units of a character language model keep track of: quotations in a novel, indentation in C code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.look.inspect.pictures import picture
from weft.recipes.runs import markdown_table, trained
from weft.recipes.study import Files, Options, public_paths
from weft.runs.log import LogFile

DEV_CHARACTERS = 200_000  # at the end of the Linux source, on which nothing is trained
SETTINGS = {
    "decoder.cell": "lstm-b",
    "decoder.width": 256,
    "embed.width": 128,
    "train.window": 128,
    "train.batch_tokens": 2048,
    "train.rate": 0.007,
    "train.dropout": 0.0,
    "train.evaluations": 4,
}


@dataclass(frozen=True)
class Experiment:
    """A text, how long a model learns from it, and what its units should track."""

    name: str
    files: Callable[[Path], Files]
    steps: int
    tracks: str  # the row of the view `cells` that the recipe is about


def novel(folder: Path) -> Files:
    """Return the parts of War and Peace."""
    train, dev = public_paths("lm_warpeace/train.txt", "lm_warpeace/dev.txt")
    return Files(str(train), str(dev))


def kernel(folder: Path) -> Files:
    """Write the Linux source in two parts, of which the second trains nothing."""
    (whole,) = public_paths("lm_linux/linux_kernel_dir.txt")
    text = whole.read_text(encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"train.txt": text[:-DEV_CHARACTERS], "dev.txt": text[-DEV_CHARACTERS:]}
    for name, part in parts.items():
        (folder / name).write_text(part, encoding="utf-8")
    return Files(str(folder / "train.txt"), str(folder / "dev.txt"))


QUOTES = Experiment("quotes", novel, 2_200, "inside quotes")
INDENTATION = Experiment("indentation", kernel, 2_800, "indented line")


def run(experiment: Experiment, folder: Path, options: Options) -> list[str]:
    """Train a language model, look at its units on held-out text, and return the page's lines."""
    files = experiment.files(folder / "data")
    run = trained(folder, "model", files, experiment.steps, SETTINGS, options, task="language-model")
    assert files.valid is not None
    numbers = run.inspect(table=files.valid, views="cells").numbers
    (folder / f"{experiment.name}.png").write_bytes(picture(about(numbers, experiment.tracks), "cells", "png"))
    ranking, scores = numbers["summary"]["cells"]["decode.ranking"], LogFile(run.folder.log).final()
    return [
        f"{numbers['run']['about']} {numbers['run']['parameters']:,} parameters, {scores['steps']:,} updates, "
        f"{scores['bits_per_character']:.3f} bits per character on held-out text. {ranking['note']}",
        "",
        *markdown_table(ranking["columns"], ranking["rows"]),
        f"![text coloured by the best unit]({experiment.name}.png)",
        "",
    ]


def about(numbers: Mapping[str, Any], tracks: str) -> dict[str, Any]:
    """Return only the text of the report, coloured by the unit that tracks something, and by the truth."""
    text = numbers["summary"]["cells"]["decode.text"]
    panels = [panel for panel in text["panels"] if panel["name"].startswith(f"{tracks}:")]
    return {"lines": [], "summary": {"cells": {"text": {**text, "panels": panels or text["panels"][:1]}}}}
