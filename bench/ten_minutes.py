"""How good is a translator after ten minutes of training? Weft and the peers, one after another, then BLEU.

    python bench/ten_minutes.py [--minutes 10] [--models transformer] [--systems weft] [--lines 1000]
    OMP_NUM_THREADS=1 python bench/ten_minutes.py …     # on one core; two such side by side

multi30k English to German; flickr2016 by beam 5; sacrebleu's BLEU, cased, 13a. The model is the same for all;
how Weft trains it is the autopilot's choice, and «autopilot» is a run in which nothing is set at all. A peer has no
autopilot: it gets small batches (BATCH_TOKENS), because those of 4,096 make too few updates in ten minutes to learn
much. Weft validates within its minutes; the peers spend all of theirs on steps, and their last weights are judged.
Models stay in .bench/models, which bench/decoding.py needs; one that has its result for these minutes is not trained
again. LSTMs are trained for decoding alone, where what they have learned makes no difference: they get two minutes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import corpus
import peers
import sacrebleu
from timing import THREADS, matrix_speed, record, table
from training import PIECES, SETTINGS, TRANSFORMER, multi30k, weft_train

MODELS = corpus.BENCH / "models"
BATCH_TOKENS = 1024  # of the peers
WEFT = {  # settings, by model and system
    ("transformer", "weft"): [*PIECES, *TRANSFORMER],
    ("autopilot", "weft"): [],
    ("lstm", "weft"): [*PIECES, *SETTINGS["lstm"]],
}
MOST = {"lstm": 2.0}  # minutes of a model that is not judged
SYSTEMS = {
    "transformer": ("weft", "joeynmt", "opennmt", "transformers"),
    "autopilot": ("weft",),
    "lstm": ("weft", "opennmt"),
}


def folder_of(model: str, system: str) -> Path:
    return MODELS / f"{model}-{system.replace(', ', '-')}"


def train(model: str, system: str, seconds: float, data: Path) -> dict[str, Any] | None:
    folder = folder_of(model, system)
    if (model, system) in WEFT:
        return weft_train(multi30k(data), WEFT[model, system], seconds, folder, {})
    shutil.rmtree(folder, ignore_errors=True)
    words = ["--model", model, "--data", corpus.prepare(data), "--out", folder, "--seconds", seconds,
             "--batch-tokens", BATCH_TOKENS]  # fmt: skip
    return peers.drive(system, "train", *words)


def translate(driver: str, folder: Path, options: argparse.Namespace) -> list[str]:
    """The first lines of flickr2016 in German; nothing where it fails."""
    file, out = folder.with_suffix(".in"), folder.with_suffix(".out")
    corpus.write(file, corpus.read(source_of(driver, options.data))[: options.lines])
    words = ["--model-folder", folder, "--file", file, "--out", out, "--beam", 5, "--batch", 64]
    if peers.drive(driver, "translate", *words) is None:
        return []
    return corpus.read(out) if driver == "weft" else corpus.to_texts(corpus.read(out))


def source_of(driver: str, data: Path) -> Path:
    """The lines to translate: text for Weft, pieces for the others."""
    return (data / "multi30k" if driver == "weft" else corpus.prepare(data)) / "flickr2016.en"


def bleu(texts: list[str], data: Path) -> float:
    """Of the first lines, if not all were translated."""
    wanted = corpus.read(data / "multi30k/flickr2016.de")[: len(texts)]
    return float(sacrebleu.corpus_bleu(texts, [wanted]).score)


def result(model: str, system: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train and judge; what is known already is read."""
    minutes, data = min(options.minutes, MOST.get(model, options.minutes)), options.data
    kept, asked = folder_of(model, system).with_suffix(".json"), {"minutes": minutes, "threads": THREADS}
    known: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    if known and {**known, **asked} == known:
        return known
    speed, trained = matrix_speed(), train(model, system, minutes * 60, data)
    if trained is None:
        return {}
    driver = system.split(",")[0]
    texts = translate(driver, folder_of(model, system), options)
    if not texts:
        return {}
    found = {"minutes": minutes, "updates": trained["updates"], "bleu": bleu(texts, data), "gflops": speed}
    found |= {"peak_megabytes": trained["peak_megabytes"], "tokens_per_second": trained["windows"]}
    record("ten minutes", model=model, system=system, **found)
    kept.write_text(json.dumps({**found, **asked}) + "\n", encoding="utf-8")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=corpus.data_folder())
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--lines", type=int, default=1000, help="of flickr2016 to translate")
    parser.add_argument("--models", action="append", choices=list(SYSTEMS), help="all unless said")
    parser.add_argument("--systems", action="append", help="all of a model unless said")
    options = parser.parse_args()
    MODELS.mkdir(parents=True, exist_ok=True)
    rows = []
    for model in options.models or SYSTEMS:
        for system in (s for s in SYSTEMS[model] if s in (options.systems or SYSTEMS[model])):
            found = result(model, system, options)
            missing = "failed" if system.startswith("weft") or peers.is_installed(system) else peers.NOT_INSTALLED
            figures = [f"{found['bleu']:.1f}", f"{found['updates']:,}"] if found else [missing, ""]
            print(f"{model}, {system}: {' '.join(figures)}", file=sys.stderr, flush=True)
            rows.append([f"{model}, {system}", *figures])
    table([f"after {options.minutes:g} minutes", "BLEU", "updates"], rows)


if __name__ == "__main__":
    main()
