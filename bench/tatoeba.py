"""How good is Joey NMT on tatoeba, English to French, in the time that Weft has there? BLEU on the test set, beam 5.

    python bench/tatoeba.py [--minutes 30]
    OMP_NUM_THREADS=1 python bench/tatoeba.py           # on one core

It has the Transformer of the other benches, one BPE of 8,000 for both languages, and the batches and the rate that it
gets in bench/ten_minutes.py. The result is a line of bench/quality.jsonl, and stands beside Weft's in docs/quality.md.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import corpus
import peers
import sacrebleu
from quality import RESULTS
from ten_minutes import BATCH_TOKENS
from timing import THREADS

PEER, FOLDER = "joeynmt", corpus.BENCH / "tatoeba"
FILES = {"train": "train", "val": "dev", "test": "test"}


def column(data: Path, file: str, number: int) -> list[str]:
    return [row.split("\t")[number] for row in corpus.read(data / f"tatoeba_en_fr/{file}.tsv")]


def prepare(data: Path) -> Path:
    """Pieces, under the names that the driver knows: «de» is French here."""
    texts = {
        f"{part}.{language}": lambda file=file, number=number: column(data, file, number)
        for part, file in FILES.items()
        for number, language in enumerate(corpus.LANGUAGES)
    }
    return corpus.cut(FOLDER / "data", texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=corpus.data_folder())
    parser.add_argument("--minutes", type=float, default=30)
    options = parser.parse_args()
    peers.install(PEER)
    pieces, model, out = prepare(options.data), FOLDER / PEER, FOLDER / "said.txt"
    words = ["--data", pieces, "--out", model, "--seconds", options.minutes * 60, "--batch-tokens", BATCH_TOKENS]
    trained = peers.drive(PEER, "train", *words)
    words = ["--model-folder", model, "--file", pieces / "test.en", "--out", out, "--beam", 5, "--batch", 64]
    if trained is None or peers.drive(PEER, "translate", *words) is None:
        raise SystemExit(f"{PEER} failed")
    said, wanted = corpus.to_texts(corpus.read(out), pieces), column(options.data, "test", 1)
    line = {
        "task": "tatoeba", "set": "en-fr", "budget": f"{options.minutes:g}m", "peer": PEER,
        "score": round(float(sacrebleu.corpus_bleu(said, [wanted]).score), 2), "steps": trained["updates"],
        "threads": THREADS, "at": time.strftime("%Y-%m-%d %H:%M"),
    }  # fmt: skip
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(f"{PEER}: BLEU {line['score']}, {line['steps']:,} updates")


if __name__ == "__main__":
    main()
