"""How fast does training go, as `weft train` reports it, and how close to the machine's matrix products?

    python bench/training.py --data $WEFT_DATA --folder /tmp/bench-training [--rounds 3] [--only lstm --only gru]

multi30k English to German, shared bpe of 8,000, batches of 4,096 symbols, all threads. Models take turns; a turn is a
run of some steps, whose first report is left out. «limit» is what matrix products alone would allow: the operations of
a target symbol (six for each weight that it meets) at the speed of a product measured just before.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from timing import matrix_speed, middle, record, spread

SHARED = ["source.tokens=bpe", "target.tokens=bpe", "source.size=8000", "target.size=8000", "embed.shared=true",
          "train.batch_tokens=4096", "train.dropout=0.1", "embed.width=256", "train.evaluations=1",
          "train.valid_pairs=50", "search.kind=greedy"]  # fmt: skip
PART = ("kind=transformer", "width=256", "layers=4", "heads=4", "inner=1024")
TRANSFORMER = ["embed.positions=sinusoid", *(f"{side}.{s}" for side in ("encoder", "decoder") for s in PART)]


def recurrent(cell: str) -> list[str]:
    """Both directions of 256 each, a decoder of 512, additive attention, the context fed."""
    kinds = [f"{side}.{s}" for side in ("encoder", "decoder") for s in ("kind=recurrent", f"cell={cell}", "width=512")]
    return [*kinds, "decoder.attention.score=additive", "decoder.attention.feed=true"]


MODELS: dict[str, tuple[list[str], dict[str, str]]] = {
    "transformer": (TRANSFORMER, {}),
    "transformer, bfloat16": ([*TRANSFORMER, "train.precision=bfloat16"], {}),
    "lstm": (recurrent("lstm"), {}),
    "lstm, plain torch": (recurrent("lstm"), {"WEFT_NATIVE": "0"}),
    "gru": (recurrent("gru"), {}),
    "gru, plain torch": (recurrent("gru"), {"WEFT_NATIVE": "0"}),
    "mut1": (recurrent("mut1"), {}),
}
OPERATIONS = {"transformer": 55.6e6, "lstm": 52.6e6, "gru": 47.1e6}  # a target symbol; the issue's


def turn(name: str, options: argparse.Namespace) -> float:
    """Target symbols a second in one run of some steps."""
    settings, environment = MODELS[name]
    data, run = options.data / "multi30k", options.folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    sets = [word for setting in (*SHARED, *settings) for word in ("--set", setting)]
    files = [f"{data}/train.en:{data}/train.de", "--valid", f"{data}/val.en:{data}/val.de"]
    words = [sys.executable, "-m", "weft", "train", *files, "--steps", str(options.steps), "--out", str(run), *sets]
    own = {**os.environ, **environment, "WEFT_CACHE": str(options.folder / "cache")}
    subprocess.run(words, env=own, check=True, capture_output=True)
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    reports = [line for line in lines if line["kind"] == "report"]
    return middle([line["tokens_per_second"] for line in reports[1:]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("WEFT_DATA", "../shared/data")))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--only", action="append", choices=list(MODELS))
    options = parser.parse_args()
    names = options.only or list(MODELS)
    found: dict[str, list[float]] = {name: [] for name in names}
    speeds: dict[str, list[float]] = {name: [] for name in names}
    for round_ in range(options.rounds):
        for name in names:
            speeds[name].append(matrix_speed())
            found[name].append(turn(name, options))
            print(f"round {round_ + 1} {name}: {found[name][-1]:.0f}", file=sys.stderr, flush=True)
    print("| model | target symbols/s | spread | products, GFLOP/s | share of the limit |\n|---|---:|---:|---:|---:|")
    for name in names:
        speed, products = middle(found[name]), middle(speeds[name])
        operations = OPERATIONS.get(name.split(",")[0])
        share = f"{speed * operations / products / 1e9:.0%}" if operations else ""
        print(f"| {name} | {speed:,.0f} | {spread(found[name]):.0%} | {products:.0f} | {share} |")
        record("training", model=name, tokens_per_second=found[name], gflops=speeds[name])


if __name__ == "__main__":
    main()
