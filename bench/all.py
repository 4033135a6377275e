"""Every question, one after another, each in its own process; then the page.

    python bench/all.py [--quick] [--from training] [--dry]

A question that fails is told at the end, and the others go on. The machine should have nothing else to do. --quick asks
for less of everything, to end in about ten minutes once the peers are installed: Transformer training, LSTM decoding,
one size of the cells. Its results and its page go to .bench/quick, so that hasty figures do not replace measured ones.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from corpus import data_folder

BENCH = Path(__file__).parent
DATA = ("multi30k", "g2p_sigmorphon2020")
MODELS = BENCH.parent / ".bench/models"
QUICK_FOLDER = BENCH.parent / ".bench/quick"
QUESTIONS = (  # in order: decoding needs the models that ten_minutes trains
    "corpus", "peers", "cells", "startup", "training", "words", "ten_minutes", "decoding", "costs",
    "page",
)  # fmt: skip
QUICK: dict[str, list[str]] = {
    "cells": ["--width", "512", "--batch", "64", "--windows", "3"],
    "startup": ["--quick"],
    "training": ["--quick", "--only", "transformer"],
    "words": ["--quick"],
    "ten_minutes": ["--minutes", "0.75", "--models", "lstm", "--lines", "100"],
    "decoding": ["--quick", "--only", "lstm"],
    "costs": ["--quick", "--pictures", str(QUICK_FOLDER / "performance")],
    "page": ["--out", str(QUICK_FOLDER / "performance.md")],
}


def asked(quick: bool, first: str) -> dict[str, list[str]]:
    """The questions from the first on, with their options.

    Models that ten minutes were spent on are kept by a quick run, which would put worse ones in their place.
    """
    names = list(QUESTIONS[QUESTIONS.index(first) :])
    if quick and "ten_minutes" in names and (MODELS / "lstm-weft.json").exists():
        names.remove("ten_minutes")
    return {name: QUICK.get(name, []) if quick else [] for name in names}


def ask(name: str, more: list[str], environment: dict[str, str]) -> tuple[bool, str]:
    """Run one script, its output shown as it comes; did it end well, and what to say of it."""
    words = [sys.executable, str(BENCH / f"{name}.py"), *more]
    print(f"\n## {name}: python bench/{name}.py {' '.join(more)}\n", flush=True)
    began = time.monotonic()
    code = subprocess.run(words, env=environment).returncode
    return code == 0, f"{name}: {f'failed ({code})' if code else 'done'}, {time.monotonic() - began:.0f} s"


def _check_data() -> None:
    """What all questions need, before five environments are installed."""
    missing = [name for name in DATA if not (data_folder() / name).is_dir()]
    if missing:
        sys.exit(f"{' and '.join(missing)} not found in {data_folder()}: name the folder that has them in WEFT_DATA")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--from", dest="first", choices=QUESTIONS, default=QUESTIONS[0], help="leave out what is before"
    )
    parser.add_argument("--dry", action="store_true", help="only say what would be run")
    options = parser.parse_args()
    _check_data()
    questions, environment = asked(options.quick, options.first), dict(os.environ)
    if options.dry:
        print("\n".join(" ".join(["python", f"bench/{name}.py", *more]) for name, more in questions.items()))
        return
    if options.quick:
        QUICK_FOLDER.mkdir(parents=True, exist_ok=True)
        environment.setdefault("WEFT_BENCH_RESULTS", str(QUICK_FOLDER / "results.jsonl"))
    said = [ask(name, more, environment) for name, more in questions.items()]
    print("\n" + "\n".join(line for _, line in said))
    if not all(well for well, _ in said):
        sys.exit(1)


if __name__ == "__main__":
    main()
