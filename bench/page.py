"""docs/performance.md and its bar plots from bench/results.jsonl: of each thing measured, the newest line.

    python bench/page.py [--out docs/performance.md]

Every question is a section; one without results says so. The pictures of the costs are drawn by bench/costs.py while it
measures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import timing
from figures import Line, draw_bars, newest, number, peer_only, ratio, shown, spread, table, told, when
from summary import OPERATIONS, limit_share, summary

PAGE = Path(__file__).parent.parent / "docs/performance.md"
NOTHING = "Not measured yet."


# the questions --------------------------------------------------------------------------------------------------------


def cells(lines: list[Line], folder: Path) -> str:
    found = newest(lines, "cells", "width", "batch", "cell")
    if not found:
        return NOTHING
    text = [when(found.values())]
    for width, batch in dict.fromkeys((w, b) for w, b, _ in found):
        rows = []
        for (w, b, cell), line in found.items():
            if (w, b) == (width, batch):
                seconds = line["seconds"]
                each = [told(ratio(seconds.get(job), seconds["products"]), ".2f") for job in ("weft", "plain", "torch")]
                rows.append([cell, told(seconds["products"] * 1e3, ".1f"), *each])
        headings = [f"width {width}, batch {batch}", "products, ms", "Weft, ×", "plain torch, ×", "torch's own, ×"]
        text.append(table(headings, rows))
    return "\n\n".join(text)


def training(lines: list[Line], folder: Path) -> str:
    found = newest(lines, "training", "model", "system")
    if not found:
        return NOTHING
    rows, bars = [], {}
    for (model, system), line in found.items():
        speed = number(line, "tokens_per_second")
        share = None if (model, system) == ("transformer", "weft") else limit_share(model, line)  # in float32
        against = ratio(number(found.get((model, "weft")), "tokens_per_second"), speed)
        memory = number(line, "peak_megabytes")
        rows.append(
            [
                model,
                shown(system),
                told(speed),
                spread(line),
                peer_only(system, against),
                told(share, ".0%"),
                told(memory),
            ]
        )
        if model in OPERATIONS and speed:
            bars.setdefault(model, {})[system] = speed
    draw_bars(bars, "target tokens a second", folder / "training.png")
    heads = ["model", "toolkit", "target tokens/s", "spread", "Weft is, ×", "of the matrix limit", "peak memory, MB"]
    text = [when(found.values()), table(heads, rows, left=2), "![training tokens a second](performance/training.png)"]
    return "\n\n".join(text)


def words(lines: list[Line], folder: Path) -> str:
    found = newest(lines, "words", "language", "width", "system")
    if not found:
        return NOTHING
    rows = []
    for (language, width, system), line in found.items():
        speeds = (number(found.get((language, width, name)), "pairs_per_second") for name in ("weft", system))
        pairs, memory = (told(number(line, field)) for field in ("pairs_per_second", "peak_megabytes"))
        ahead = peer_only(system, ratio(*speeds))
        rows.append([f"{language}, width {width}", shown(system), pairs, spread(line), ahead, memory])
    text = table(["model", "toolkit", "pairs/s", "spread", "Weft is, ×", "peak memory, MB"], rows, left=2)
    return f"{when(found.values())}\n\n{text}"


def ten_minutes(lines: list[Line], folder: Path) -> str:
    found = newest(lines, "ten minutes", "model", "system", "minutes", "threads")
    if not found:
        return NOTHING
    rows = [
        [
            shown(system),
            model,
            told(minutes, "g"),
            told(threads),
            told(line["updates"]),
            told(line["bleu"], ".1f"),
        ]
        for (model, system, minutes, threads), line in sorted(
            found.items(), key=lambda item: -(item[1].get("bleu") or 0)
        )
    ]
    text = table(["toolkit", "model", "minutes", "cores", "updates", "BLEU"], rows, left=2)
    return f"{when(found.values())}\n\n{text}"


def startup(lines: list[Line], folder: Path) -> str:
    found = list(newest(lines, "startup").values())
    if not found:
        return NOTHING
    rows = [[f"`{name}`", told(statistics.median(s), ".2f")] for name, s in found[0]["seconds"].items()]
    return f"{when(found)}\n\n{table(['command', 'seconds'], rows)}"


def costs(lines: list[Line], folder: Path) -> str:
    found = newest(lines, "costs", "of", "model")
    if not found:
        return NOTHING
    text = [when(found.values())]
    for of in dict.fromkeys(of for of, _ in found):
        own = {model: line for (o, model), line in found.items() if o == of}
        curves = list(next(iter(own.values()))["exponents"])
        rows = [
            [model, line["fit"], told(line["r2"], ".3f"), *(told(line["exponents"].get(c), ".2f") for c in curves)]
            for model, line in own.items()
        ]
        heads = [f"cost of {of}", "milliseconds, fitted", "R²", *(f"exponent, {curve}" for curve in curves)]
        text.append(table(heads, rows, left=2))
        text.append(f"![cost of {of}](performance/costs-{of}.png)")
    return "\n\n".join(text)


def decoding(lines: list[Line], folder: Path) -> str:
    """CTranslate2 stands in the table with each layout of its threads, and once in the picture, with its better one."""
    found = newest(lines, "decoding", "model", "system", "beam", "batch")
    if not found:
        return NOTHING
    rows: list[list[str]] = []
    bars: dict[str, dict[str, float]] = {}
    for model, system in dict.fromkeys(key[:2] for key in found):
        own = {key[2:]: line for key, line in found.items() if key[:2] == (model, system)}
        if system not in BETTER_LAYOUTS:
            rows.append([model, shown(system), *decoding_figures(own)])
        for beam, search in ((1, "greedy"), (5, "beam 5")):
            speed = number(own.get((beam, 64)), "sentences_per_second")
            if speed and system.count(",") < 2:
                bars.setdefault(f"{model}, {search}", {})[system] = speed
    draw_bars(bars, "sentences a second", folder / "decoding.png")
    each = [f"{search}, {unit}" for unit in ("sentences/s (tokens/s)", "ms a line") for search in ("greedy", "beam 5")]
    heads = ["model", "toolkit", *each, "BLEU, beam 5", "peak memory, MB"]
    text = [when(found.values()), table(heads, rows, left=2), "![sentences a second](performance/decoding.png)"]
    return "\n\n".join(text)


BETTER_LAYOUTS = ("ctranslate2, float32", "ctranslate2, int8")


def decoding_figures(own: Mapping[tuple[Any, ...], Line]) -> list[str]:
    """The cells of one toolkit, from its lines by beam and batch."""
    cells = []
    for beam in (1, 5):
        sentences, tokens = (number(own.get((beam, 64)), f"{unit}_per_second") for unit in ("sentences", "tokens"))
        cells.append(f"{told(sentences, '.1f')}{f' ({tokens:,.0f})' if tokens else ''}")
    cells += [told(number(own.get((beam, 1)), "milliseconds"), ".1f") for beam in (1, 5)]
    memory = [peak for line in own.values() if (peak := number(line, "peak_megabytes")) is not None]
    return [*cells, told(number(own.get((5, 64)), "bleu"), ".1f"), told(max(memory, default=None))]


# the page -------------------------------------------------------------------------------------------------------------

HEAD = """# Performance

This page compares the speed of Weft with that of other toolkits, and with what the hardware allows. Speeds vary by some
20 % from run to run, so each benchmark switches back and forth between the systems in short turns; only the ten-minute
trainings run each system once. Ratios are more reliable than absolute figures. The line above a table says when it was
measured; if it gives two times that are far apart, the table combines several runs of the benchmark.

    make bench            # installs the other toolkits under .bench/, runs all benchmarks, writes this page (hours)
    make bench QUICK=1    # shorter benchmarks: ten minutes after the installation; writes its page to .bench/quick

Each benchmark can also be run by itself, with the command that its section names. The results go to
`bench/results.jsonl`, and `python bench/page.py` writes this page from the newest ones."""


@dataclass(frozen=True)
class Section:
    title: str
    command: str
    reading: str
    tell: Callable[[list[Line], Path], str]


SECTIONS = [
    Section(
        "Training",
        "training",
        "The task is multi30k, English to German, with a shared BPE vocabulary of 8,000 and batches of 4,096 tokens. "
        "Speed is in target tokens per second, without padding. The matrix limit is the speed that would be possible "
        "if training did nothing but matrix products, at the rate that was measured at the same time.",
        training,
    ),
    Section(
        "Words",
        "words",
        "The task is words to phonemes, with a one-layer bidirectional LSTM and attention. The matrices are so small "
        "that the overhead around the matrix products matters.",
        words,
    ),
    Section(
        "Decoding",
        "decoding",
        "The systems translate flickr2016 from file to file, in batches of 64, and line by line with a model that is "
        "already loaded. The models are those of the next section. Weft reads and writes plain text, the other "
        "toolkits subword pieces; CTranslate2 uses Weft's weights.",
        decoding,
    ),
    Section(
        "Ten minutes",
        "ten_minutes",
        "This is BLEU on flickr2016 (beam 5) after some minutes of training from scratch. The column *model* says what "
        "was trained: all systems train the same Transformer or the same LSTM, and the autopilot chooses its own "
        "model. Only rows with the same minutes and cores can be compared.",
        ten_minutes,
    ),
    Section(
        "Cells",
        "cells",
        "The time of a forward and backward pass over 50 steps, as a multiple of the time of its matrix products "
        "alone: 1.00 would mean that nothing else takes time.",
        cells,
    ),
    Section(
        "Start-up",
        "startup",
        "The time from the start of a command to its end. Every command that runs a model has to `import torch`, so "
        "the table shows that alone, too.",
        startup,
    ),
    Section(
        "Costs",
        "costs",
        "This section shows how the time grows with the lengths of the source (M) and of the target (N), the size of "
        "the vocabulary (V) "
        "and the number of hypotheses (K), for untrained models of width 64 on one thread. The fitted formula has only "
        "the terms that theory predicts: M², MN and N² for the attention of the Transformer, and M, N and MN for "
        "recurrent models with attention. The columns *exponent* say how fast the time grows with the size "
        "(time ∝ size^exponent), measured between the two largest sizes.",
        costs,
    ),
]


def machine(lines: list[Line]) -> str:
    """Where this page is written, which is where the newest figures are from."""
    known = Path("/proc/cpuinfo")
    said = known.read_text().splitlines() if known.exists() else []
    names = [line.partition(":")[2].strip() for line in said if line.startswith("model name")]
    versions = ", ".join(sorted({line["torch"] for line in lines})) or "not known"
    return f"The machine: {[*names, platform.machine()][0]}, {os.cpu_count()} cores; torch {versions}."


def page(lines: list[Line], pictures: Path) -> str:
    text = [HEAD, machine(lines), "## Summary"]
    text.append(
        "Most rows give Weft's figure relative to another one, as a ratio. All figures are from the tables below."
    )
    text.append(summary(lines))
    for section in SECTIONS:
        text += [f"## {section.title}", f"`python bench/{section.command}.py`. {section.reading}"]
        text.append(section.tell(lines, pictures))
    return "\n\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=PAGE)
    out = parser.parse_args().out
    kept = timing.RESULTS.read_text(encoding="utf-8") if timing.RESULTS.exists() else ""
    lines = [json.loads(line) for line in kept.splitlines()]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(lines, out.parent / "performance"), encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
