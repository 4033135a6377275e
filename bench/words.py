"""Small models on words, where overhead rules: pairs a second in training, Weft beside yoyodyne.

    python bench/words.py [--data $WEFT_DATA] [--language hin] [--rounds 3] [--seconds 20] [--quick]

Words to phones (SIGMORPHON 2020), a one-layer bidirectional LSTM with attention, dropout 0.2, no smoothing, batches of
32 pairs (yoyodyne's default; Weft's are as many symbols as 32 pairs have on average). A width of 256 is that of the
embeddings, of the decoder, and of both directions of the encoder together.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import corpus
import peers
from timing import matrix_speed, middle, record, spread, table
from training import Figures, recurrent, weft_train

BATCH = 32
SHARED = ["source.tokens=characters", "target.tokens=words", "train.dropout=0.2", "objective.smoothing=0",
          "train.members=1", "train.evaluations=1", "train.valid_pairs=50", "search.kind=greedy"]  # fmt: skip
FOLDER = corpus.BENCH / "words"


def lengths(file: Path) -> tuple[float, float]:
    """Means over the pairs: symbols of a target, and of the longer side, with the end."""
    pairs = [line.split("\t")[:2] for line in corpus.read(file)]
    both = [(len(source) + 1, len(target.split(" ")) + 1) for source, target in pairs]
    return sum(target for _, target in both) / len(both), sum(map(max, both)) / len(both)


def of_weft(file: Path, width: int, seconds: float) -> Figures | None:
    """`weft train`, whose log counts target symbols."""
    target, longer = lengths(file)
    sizes = [f"embed.width={width}", f"train.batch_tokens={round(BATCH * longer)}"]
    settings = [*SHARED, *recurrent("lstm", width), *sizes]
    found = weft_train([str(file)], settings, seconds, FOLDER / "weft", {})
    return found and {**found, "windows": [rate / target for rate in found["windows"]]}


def of_yoyodyne(file: Path, width: int, seconds: float) -> Figures | None:
    words = ["--data", file, "--out", FOLDER / "yoyodyne", "--seconds", seconds]
    return peers.drive("yoyodyne", "train", *words, "--width", width, "--batch", BATCH)


SYSTEMS = {"weft": of_weft, "yoyodyne": of_yoyodyne}


def show(language: str, width: int, found: dict[str, list[Figures]], speed: float) -> None:
    pairs = {system: middle([middle(turn["windows"]) for turn in turns]) for system, turns in found.items() if turns}
    rows = []
    for system, turns in found.items():
        if not turns:
            rows.append([system, "failed" if peers.is_installed(system) else peers.NOT_INSTALLED, "", "", ""])
            continue
        windows, peak = [rate for turn in turns for rate in turn["windows"]], max(t["peak_megabytes"] for t in turns)
        ahead = f"{pairs['weft'] / pairs[system]:.2f}" if "weft" in pairs else ""
        rows.append([system, f"{pairs[system]:,.0f}", f"{spread(windows):.0%}", ahead, f"{peak:,.0f}"])
        each = [middle(turn["windows"]) for turn in turns]
        record("words", language=language, width=width, system=system, pairs_per_second=each, windows=windows,
               gflops=speed, peak_megabytes=peak)  # fmt: skip
    print(flush=True)
    table([f"{language}, width {width}", "pairs/s", "spread", "Weft is, ×", "peak MB"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=corpus.data_folder())
    parser.add_argument("--language", action="append", help="hin unless said; may be repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20, help="of a turn")
    parser.add_argument("--quick", action="store_true", help="one round of 10 seconds")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 10
    for language in options.language or ["hin"]:
        file = options.data / f"g2p_sigmorphon2020/data/train/{language}_train.tsv"
        for width in (256, 128):
            found: dict[str, list[Figures]] = {system: [] for system in SYSTEMS}
            speed = matrix_speed()
            for round_ in range(options.rounds):
                for system, measured in SYSTEMS.items():
                    figures = measured(file, width, options.seconds)
                    if figures is not None:
                        found[system].append(figures)
                        note = f"round {round_ + 1} width {width}, {system}: {middle(figures['windows']):.0f}"
                        print(note, file=sys.stderr, flush=True)
            show(language, width, found, speed)


if __name__ == "__main__":
    main()
