"""How fast does training go, beside the peers, and how close is it to the machine's matrix products?

    python bench/training.py [--data $WEFT_DATA] [--rounds 3] [--seconds 30] [--quick] [--only lstm --only gru]

multi30k English to German, shared bpe of 8,000, batches of 4,096 symbols with padding on the longer side, two threads,
float32; but Weft as it comes takes bfloat16 for a Transformer where that is much faster. Weft runs as `weft train`, a
peer by its driver. All take turns; a turn is a run of some seconds, cut into windows whose first is left out. «limit»
is what matrix products alone would allow: the operations of a target symbol (six for each weight that it meets) at the
speed of a product measured just before.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import corpus
import peers
from drivers.measure import WINDOWS, rates
from timing import matrix_speed, middle, record, spread, table

PIECES = ["source.tokens=bpe", "target.tokens=bpe", "source.size=8000", "target.size=8000", "embed.shared=true",
          "embed.width=256", "head.tied=true"]  # fmt: skip
SHARED = [*PIECES, "train.batch_tokens=4096", "train.dropout=0.1", "train.evaluations=1", "train.valid_pairs=50",
          "search.kind=greedy"]  # fmt: skip
PART = ("kind=transformer", "width=256", "layers=4", "heads=4", "inner=1024")
TRANSFORMER = ["embed.positions=sinusoid", *(f"{side}.{s}" for side in ("encoder", "decoder") for s in PART)]


def recurrent(cell: str, width: int = 512) -> list[str]:
    """Both directions with half of the width each, a decoder of it, additive attention, the context fed."""
    part = ("kind=recurrent", f"cell={cell}", f"width={width}")
    kinds = [f"{side}.{s}" for side in ("encoder", "decoder") for s in part]
    return [*kinds, "decoder.attention.score=additive", "decoder.attention.feed=true"]


SETTINGS = {
    "transformer": TRANSFORMER,
    "lstm": recurrent("lstm"),
    "gru": recurrent("gru"),
    "mut1": recurrent("mut1"),
}
SYSTEMS: dict[str, dict[str, tuple[list[str], dict[str, str]]]] = {  # of Weft: settings and environment
    "transformer": {
        "weft": ([], {}),  # as it comes: the autopilot takes bfloat16 where that is much faster
        "weft, in float32": (["train.precision=float32"], {}),
    },
    **{model: {"weft": ([], {}), "weft, plain torch": ([], {"WEFT_NATIVE": "0"})} for model in ("lstm", "gru", "mut1")},
}
OTHERS = {
    "transformer": ("joeynmt", "opennmt", "transformers"),
    "lstm": ("joeynmt", "opennmt"),
    "gru": ("joeynmt", "opennmt"),
    "mut1": (),
}
OPERATIONS = {"transformer": 55.6e6, "lstm": 52.6e6, "gru": 47.1e6}  # a target symbol
Figures = dict[str, Any]  # windows, and peak_megabytes


def weft_train(
    pairs: Sequence[str],
    settings: Sequence[str],
    seconds: float,
    run: Path,
    environment: dict[str, str],
    launcher: Sequence[str] = (),
) -> Figures | None:
    """One `weft train` of some seconds, in windows as its log has them; None where it fails."""
    shutil.rmtree(run, ignore_errors=True)
    sets = [word for setting in settings for word in ("--set", setting)]
    budget = ["--budget", f"{seconds:g}s"]
    words = [sys.executable, *launcher, "-m", "weft", "train", *pairs, *budget, "--out", str(run), *sets]
    said, peak = peers.watched(words, {"WEFT_CACHE": str(corpus.BENCH / "cache"), **environment})
    if not (run / "best").exists():
        print(f"{' '.join(words)} failed:\n{said[-1500:]}", file=sys.stderr, flush=True)
        return None
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    reports = [line for line in lines if line["kind"] == "report"]
    ends = [0.0, *(line["seconds"] for line in reports)]
    steps = [(end, line["tokens_per_second"] * (end - begin)) for line, begin, end in zip(reports, ends, ends[1:])]
    return {"windows": rates(steps, seconds / WINDOWS), "updates": reports[-1]["step"], "peak_megabytes": peak}


def multi30k(data: Path) -> list[str]:
    """The training and validation files, as `weft train` takes them."""
    folder = data / "multi30k"
    return [f"{folder}/train.en:{folder}/train.de", "--valid", f"{folder}/val.en:{folder}/val.de"]


def turn(model: str, system: str, options: argparse.Namespace) -> Figures | None:
    folder = corpus.BENCH / "training"
    if system in SYSTEMS[model]:
        more, environment = SYSTEMS[model][system]
        settings = [*SHARED, *SETTINGS[model], *more]
        return weft_train(multi30k(options.data), settings, options.seconds, folder / "weft", environment)
    words = ["--model", model, "--data", corpus.prepare(options.data), "--out", folder / system]
    return peers.drive(system, "train", *words, "--seconds", options.seconds)


def show(model: str, found: dict[str, list[Figures]], speeds: dict[str, list[float]]) -> None:
    """The table of a model, and its lines in the results."""
    speed = {system: middle([middle(turn["windows"]) for turn in turns]) for system, turns in found.items() if turns}
    rows = []
    for system, turns in found.items():
        if not turns:
            rows.append([system, "failed" if peers.is_installed(system) else peers.NOT_INSTALLED, *[""] * 5])
            continue
        windows, products = [rate for turn in turns for rate in turn["windows"]], middle(speeds[system])
        limited = model in OPERATIONS and (model, system) != ("transformer", "weft")  # the products are in float32
        share = f"{speed[system] * OPERATIONS[model] / products / 1e9:.0%}" if limited else ""
        ahead = f"{speed['weft'] / speed[system]:.2f}" if "weft" in speed else ""
        peak = max(turn["peak_megabytes"] for turn in turns)
        rows.append([system, f"{speed[system]:,.0f}", f"{spread(windows):.0%}", f"{products:.0f}", share, ahead,
                     f"{peak:,.0f}"])  # fmt: skip
        each = [middle(turn["windows"]) for turn in turns]
        record("training", model=model, system=system, tokens_per_second=each, windows=windows, gflops=speeds[system],
               peak_megabytes=peak)  # fmt: skip
    columns = [model, "target tokens/s", "spread", "products, GFLOP/s", "share of the limit", "Weft is, ×", "peak MB"]
    print(flush=True)
    table(columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=corpus.data_folder())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30, help="of a turn")
    parser.add_argument("--quick", action="store_true", help="one round of 12 seconds, and no mut1")
    parser.add_argument("--only", action="append", choices=list(SETTINGS))
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 12
    models = options.only or (["transformer", "lstm", "gru"] if options.quick else list(SETTINGS))
    for model in models:
        systems = [*SYSTEMS[model], *OTHERS[model]]
        found: dict[str, list[Figures]] = {system: [] for system in systems}
        speeds: dict[str, list[float]] = {system: [] for system in systems}
        for round_ in range(options.rounds):
            for system in systems:
                products = matrix_speed()
                figures = turn(model, system, options)
                if figures is not None:
                    speeds[system].append(products)
                    found[system].append(figures)
                    note = f"round {round_ + 1} {model}, {system}: {middle(figures['windows']):.0f}"
                    print(note, file=sys.stderr, flush=True)
        show(model, found, speeds)


if __name__ == "__main__":
    main()
