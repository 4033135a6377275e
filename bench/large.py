"""Five million pairs: does training start, run and resume in little memory, and does a second start begin at once?

    python bench/large.py --data $WEFT_DATA --folder /tmp/large --pairs 5000000

Makes a 700 MB TSV out of tatoeba_en_fr, then trains some steps, resumes, and starts a second run, and prints the
seconds to the first step and the peak resident memory of each, beside that of `import torch` alone.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

from peers import memory


def make_pairs(data: Path, path: Path, count: int) -> None:
    """Sentences of the corpus in twos, so that lines are about 120 bytes and no two are the same."""
    rows = [line.split("\t")[:2] for line in (data / "tatoeba_en_fr/train.tsv").read_text("utf-8").splitlines()]
    rows = [row for row in rows if 20 < len(row[0]) < 60]
    with path.open("w", encoding="utf-8") as file:
        for number, shift in zip(range(count), itertools.cycle(range(1, 10_000))):
            one, two = rows[number % len(rows)], rows[(number * 7 + shift) % len(rows)]
            file.write(f"{one[0]} {two[0]}\t{one[1]} {two[1]}\n")


def watch(command: list[str], log: Path | None) -> tuple[float, float, float]:
    """Run it; seconds to the first line of the log, seconds in all, and the peak resident memory in MB."""
    before = log.stat().st_size if log is not None and log.exists() else 0
    began, first, peak = time.monotonic(), 0.0, 0.0
    process = subprocess.Popen(command, env={**os.environ, "TERM": "dumb"})
    while process.poll() is None:
        peak = max(peak, memory(process.pid, "VmRSS"))
        if not first and log is not None and log.exists() and log.stat().st_size != before:
            first = time.monotonic() - began
        time.sleep(0.05)
    if process.returncode:
        sys.exit(f"failed: {' '.join(command)}")
    return first, time.monotonic() - began, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("WEFT_DATA", "../shared/data")))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    pairs = options.folder / "pairs.tsv"
    if not pairs.exists():
        make_pairs(options.data, pairs, options.pairs)
    os.environ["WEFT_CACHE"] = str(options.folder / "cache")
    print(f"{options.pairs:,} pairs, {pairs.stat().st_size / 1e6:,.0f} MB", flush=True)
    _, _, torch_alone = watch([sys.executable, "-c", "import torch, time; time.sleep(1)"], None)
    print(f"import torch alone: {torch_alone:,.0f} MB", flush=True)
    base = [sys.executable, "-m", "weft", "train", str(pairs), "--steps", str(options.steps)]
    base += ["--set", "train.evaluations=4", "--set", "train.valid_pairs=50"]
    for name, more in (("first", []), ("first", ["--resume"]), ("second", [])):
        run = options.folder / name
        log = run / "log.jsonl"
        if name == "first" and more:  # take the end away, so that there is something to resume
            cut_end(run)
        first, total, peak = watch([*base, "--out", str(run), *more], log)
        what = f"{name} {' '.join(more)}".strip()
        print(f"{what}: first report after {first:.0f} s, {total:.0f} s in all, peak {peak:,.0f} MB, "
              f"{peak - torch_alone:,.0f} MB above torch", flush=True)  # fmt: skip


def cut_end(run: Path) -> None:
    import shutil

    shutil.rmtree((run / "last").resolve())


if __name__ == "__main__":
    main()
