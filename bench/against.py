"""Training and decoding speed of this checkout against another one, in turns: `python bench/against.py OTHER`.

OTHER is the root of another checkout of Weft (such as the commit before, by `git worktree add`), with its compiled code
built in place. Each round runs every task once with each checkout, on made-up data; the table shows medians and ratios.
Run it on a quiet machine: a ratio within 2 % of 1 is the noise of five rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent.parent
SMALL = ["train.members=1", "train.evaluations=1", "train.valid_pairs=20", "train.batch_tokens=1024"]
TRANSFORMER = [
    f"{side}.{key}" for side in ("encoder", "decoder") for key in ("kind=transformer", "width=128", "layers=2")
]
MODELS = {
    "LSTM with attention": ["encoder.width=128", "decoder.width=128", "embed.width=128"],
    "Transformer": [*TRANSFORMER, "embed.width=128", "embed.positions=rotary"],
}
DECODE = """
import statistics, sys, time, weft
run, lines = weft.load(sys.argv[1]), open(sys.argv[2], encoding="utf-8").read().split("\\n")[:400]
for search in ({"kind": "greedy"}, {"kind": "beam", "width": 5}):
    run.predict(lines[:40], search=search)
    seconds = []
    for _ in range(9):
        began = time.perf_counter()
        run.predict(lines, search=search)
        seconds.append(time.perf_counter() - began)
    print(len(lines) / statistics.median(seconds))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args()
    trees = {"this": HERE, "other": options.other.resolve()}
    speeds: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        pairs = write_pairs(Path(folder) / "pairs.tsv")
        for number in range(options.rounds):
            for name, tree in trees.items() if number % 2 else reversed(list(trees.items())):
                for task, speed in one_round(tree, Path(folder) / f"{name}-{number}", pairs, options.steps):
                    speeds.setdefault((task, name), []).append(speed)
    for task in dict.fromkeys(task for task, _ in speeds):
        this, other = (statistics.median(speeds[task, name]) for name in trees)
        print(f"{task:40} this {this:10,.1f}  other {other:10,.1f}  ratio {this / other:.3f}")


def write_pairs(path: Path) -> Path:
    """Write words and their reversals, with a source file beside them."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(4, 14))) for _ in range(6000)]
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words), encoding="utf-8")
    path.with_suffix(".txt").write_text("\n".join(words), encoding="utf-8")
    return path


def one_round(tree: Path, out: Path, pairs: Path, steps: int) -> list[tuple[str, float]]:
    """Train and decode with each model once; return tokens a second and lines a second by task."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "WEFT_CACHE": str(out / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    results = []
    for model, settings in MODELS.items():
        run = out / model.split()[0]
        sets = [part for setting in (*SMALL, *settings) for part in ("--set", setting)]
        train = ["-m", "weft", "train", str(pairs), "--steps", str(steps), "--out", str(run), "--threads", "1", *sets]
        subprocess.run([sys.executable, *train], env=environment, check=True, capture_output=True)
        lines = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        speed = statistics.median(line["tokens_per_second"] for line in lines if line["kind"] == "report")
        results.append((f"{model}: training, tokens/s", speed))
        decode = [sys.executable, "-c", DECODE, str(run), str(pairs.with_suffix(".txt"))]
        printed = subprocess.run(decode, env=environment, check=True, capture_output=True, text=True).stdout.split()
        results += [(f"{model}: {kind}, lines/s", float(value)) for kind, value in zip(("greedy", "beam 5"), printed)]
    return results


if __name__ == "__main__":
    main()
