"""Training and decoding speed of this checkout against another one, in turns: `python bench/against.py OTHER`.

OTHER is the root of another checkout of Weft (such as the commit before, by `git worktree add`), with its compiled code
built in place. Both train on made-up data, run after run. Both decode with the same runs, which OTHER trained, so that
they write the same outputs: two processes stay open and decode the same lines in turns, a window of about a second at a
time. The table shows medians; a ratio above 1 means that this checkout is faster, and the quartiles of the windows'
ratios say how sure that is. Decoding counts CPU seconds of one thread, which other processes disturb less than the
clock; training counts the clock, and wants a quiet machine.
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
SEARCHES = {"greedy": {"kind": "greedy"}, "beam 5": {"kind": "beam", "width": 5}}
DECODE = """
import json, sys, time, weft
run, lines = weft.load(sys.argv[1]), open(sys.argv[2], encoding="utf-8").read().split("\\n")[:400]
for request in sys.stdin:
    search, passes = json.loads(request)
    began = time.process_time()
    for _ in range(passes):
        outputs = run.predict(lines, search=search)
    print(json.dumps([time.process_time() - began, [str(output) for output in outputs]]), flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=5, help="runs that each checkout trains; 0: only decode")
    parser.add_argument("--windows", type=int, default=40, help="windows in which each checkout decodes")
    parser.add_argument("--steps", type=int, default=150)
    options = parser.parse_args()
    trees = {"this": HERE, "other": options.other.resolve()}
    with tempfile.TemporaryDirectory() as folder:
        pairs = write_pairs(Path(folder) / "pairs.tsv")
        for model in MODELS:
            compare_training(model, trees, Path(folder), pairs, options.rounds, options.steps)
            run = Path(folder) / "decoded" / model.split()[0]
            train(model, trees["other"], run, pairs, options.steps)
            for search in SEARCHES:
                compare_decoding(model, search, trees, run, pairs.with_suffix(".txt"), options.windows)


def write_pairs(path: Path) -> Path:
    """Write words and their reversals, with a source file beside them."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(4, 14))) for _ in range(6000)]
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words), encoding="utf-8")
    path.with_suffix(".txt").write_text("\n".join(words), encoding="utf-8")
    return path


def compare_training(model: str, trees: dict[str, Path], folder: Path, pairs: Path, rounds: int, steps: int) -> None:
    """Train `rounds` runs with each checkout, in turns, and print tokens a second."""
    speeds: dict[str, list[float]] = {name: [] for name in trees}
    for number in range(rounds):
        for name in trees if number % 2 else reversed(trees):
            run = folder / f"{name}-{number}" / model.split()[0]
            speeds[name].append(train(model, trees[name], run, pairs, steps))
    if rounds:
        print_ratio(f"{model}: training, tokens/s", speeds["this"], speeds["other"])


def train(model: str, tree: Path, run: Path, pairs: Path, steps: int) -> float:
    """Train one run; return its median speed in tokens a second."""
    sets = [part for setting in (*SMALL, *MODELS[model]) for part in ("--set", setting)]
    arguments = ["train", str(pairs), "--steps", str(steps), "--out", str(run), "--threads", "1", *sets]
    command = [sys.executable, "-m", "weft", *arguments]
    subprocess.run(command, env=environment(tree, run.parent), check=True, capture_output=True)
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return statistics.median(line["tokens_per_second"] for line in lines if line["kind"] == "report")


def compare_decoding(model: str, search: str, trees: dict[str, Path], run: Path, text: Path, windows: int) -> None:
    """Decode the same lines with both checkouts, in turns, and print lines a CPU second."""
    decoders = {name: Decoder(tree, run, text) for name, tree in trees.items()}
    passes = max(1, round(1.0 / decoders["other"].seconds(search, 1)))
    seconds: dict[str, list[float]] = {name: [] for name in trees}
    for window in range(windows + 2):
        for name in trees if window % 2 else reversed(trees):
            taken = decoders[name].seconds(search, passes)
            if window >= 2:  # the first two warm up
                seconds[name].append(taken)
    same = decoders["this"].outputs == decoders["other"].outputs
    for decoder in decoders.values():
        decoder.close()
    speeds = {name: [400 * passes / each for each in values] for name, values in seconds.items()}
    label = f"{model}: {search}, lines/s" + ("" if same else " (OTHER OUTPUTS)")
    print_ratio(label, speeds["this"], speeds["other"])


class Decoder:
    """A process that decodes with one checkout when asked."""

    def __init__(self, tree: Path, run: Path, text: Path) -> None:
        command = [sys.executable, "-c", DECODE, str(run), str(text)]
        self.process = subprocess.Popen(
            command,
            env=environment(tree, run.parent),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.outputs: list[str] = []

    def seconds(self, search: str, passes: int) -> float:
        """Decode all lines `passes` times; return the CPU seconds that this took."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([SEARCHES[search], passes]) + "\n")
        self.process.stdin.flush()
        taken, self.outputs = json.loads(self.process.stdout.readline())
        return float(taken)

    def close(self) -> None:
        self.process.communicate()


def environment(tree: Path, out: Path) -> dict[str, str]:
    """Return the environment in which `python -m weft` is the Weft of one checkout."""
    paths = {"PYTHONPATH": str(tree / "src"), "WEFT_CACHE": str(out / "cache")}
    return {**os.environ, **paths, "OMP_NUM_THREADS": "1"}


def print_ratio(task: str, this: list[float], other: list[float]) -> None:
    ratios = sorted(mine / theirs for mine, theirs in zip(this, other))
    quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    print(
        f"{task:45} this {statistics.median(this):10,.1f}  other {statistics.median(other):10,.1f}"
        f"  ratio {statistics.median(ratios):.3f}  quartiles {quartiles[0]:.3f} to {quartiles[2]:.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
