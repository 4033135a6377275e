"""What every driver shares: the model's sizes, a clock over training steps, and timed translation.

Drivers run in the peers' own environments, so this needs nothing but the standard library.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

BATCH_TOKENS = 4096  # rows times the longest of them on its longer side, as Weft, Joey NMT and OpenNMT-py count
WIDTH, INNER, LAYERS, HEADS = 256, 1024, 4, 4  # of the Transformer
EMBED, DECODER = 256, 512  # of the recurrent models; each direction of the encoder has half of the decoder's
DROPOUT = SMOOTHING = 0.1
PEAK_RATE, WARMUP_STEPS = 1e-3, 100  # a peer makes some hundred updates in ten minutes
CLIP = 1.0
WINDOWS = 6
ONE_BY_ONE, WARM_LINES = 50, 8
PASSES, LONG_ENOUGH = 5, 8.0  # over a file, the middle of which counts; no more after so many seconds


def rates(steps: Sequence[tuple[float, float]], length: float) -> list[float]:
    """What was counted a second in windows of at least this length; the first, in which all warms up, is left out.

    `steps` has for each the second in which it ended, and its count.
    """
    found, begin, count = list[float](), 0.0, 0.0
    for end, more in steps:
        count += more
        if end - begin >= length:
            found.append(count / (end - begin))
            begin, count = end, 0.0
    return found[1:] or found or [sum(more for _, more in steps) / max(1e-9, *(end for end, _ in steps))]


class Meter:
    """Counts target tokens (or pairs) step by step until the time is over."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._began = 0.0
        self._steps: list[tuple[float, float]] = []

    def begin(self) -> None:
        """At each step; what came before the first is loading, and is not counted."""
        self._began = self._began or time.perf_counter()

    def add(self, count: int) -> None:
        """After a step, with what was in it."""
        self._steps.append((time.perf_counter() - self._began, count))

    @property
    def over(self) -> bool:
        return bool(self._began) and time.perf_counter() - self._began >= self.seconds

    def figures(self) -> dict[str, Any]:
        return {"windows": rates(self._steps, self.seconds / WINDOWS), "updates": len(self._steps)}


def say(figures: dict[str, Any]) -> None:
    """The one line that bench/peers.py reads."""
    print(f"\n{json.dumps(figures)}", flush=True)


def run(
    train: Callable[[argparse.Namespace, Meter], None] | None,
    translator: Callable[[argparse.Namespace], Callable[[list[str]], list[str]]] | None,
    add_arguments: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
) -> None:
    """The command line of a driver. `translator` loads a model and gives what turns lines into lines."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    if train is not None:
        one = commands.add_parser("train")
        one.add_argument("--model", choices=["transformer", "lstm", "gru"], default="transformer")
        one.add_argument("--data", type=Path, required=True)
        one.add_argument("--out", type=Path, required=True)
        one.add_argument("--seconds", type=float, required=True)
        one.add_argument("--batch-tokens", type=int, default=BATCH_TOKENS)
        add_arguments(one)
    if translator is not None:
        one = commands.add_parser("translate")
        one.add_argument("--model-folder", type=Path, required=True)
        one.add_argument("--file", type=Path, required=True)
        one.add_argument("--out", type=Path, required=True)
        one.add_argument("--beam", type=int, required=True)
        one.add_argument("--batch", type=int, required=True)
        one.add_argument("--length", type=int, help="every output has exactly so many symbols")
        add_arguments(one)
    options = parser.parse_args()
    if options.command == "train":
        meter = Meter(options.seconds)
        train(options, meter)
        say(meter.figures())
    else:
        say(timed(translator(options), options.file, options.out, options.batch))


def timed(translate: Callable[[list[str]], list[str]], file: Path, out: Path, batch: int) -> dict[str, Any]:
    """From file to file with a warm model; with batches of one, the middle of single lines' times instead."""
    lines = read_lines(file)
    translate(lines[: min(batch, WARM_LINES)])
    if batch == 1:
        for line in lines[1:WARM_LINES]:
            translate([line])
        return {"milliseconds": statistics.median(milliseconds(translate, line) for line in lines[:ONE_BY_ONE])}
    passes = list[float]()
    while len(passes) < PASSES and sum(passes) < LONG_ENOUGH:
        began = time.perf_counter()
        found = translate(read_lines(file))
        out.write_text("".join(line + "\n" for line in found), encoding="utf-8")
        passes.append(time.perf_counter() - began)
    return {"seconds": statistics.median(passes), "lines": len(found)}


def milliseconds(translate: Callable[[list[str]], list[str]], line: str) -> float:
    began = time.perf_counter()
    translate([line])
    return (time.perf_counter() - began) * 1e3


def read_lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split("\n")[:-1]
