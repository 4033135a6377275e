"""How fast are translations found? Weft's engines beside the peers', from file to file and line by line.

    python bench/decoding.py [--data $WEFT_DATA] [--rounds 3] [--lines 1000] [--quick] [--only lstm]

flickr2016 in batches of 64, greedy and by beam 5, and single lines (the median of 50), each with a warm model in a
process of its own, in turns; who is fast goes over the file up to five times, and the middle one counts. The models are
those of bench/ten_minutes.py. Weft reads and writes text; the peers read and write pieces, CTranslate2's own translator
ids, so cutting and joining is counted for Weft alone. Output tokens are counted alike for all, in pieces of the shared
BPE. CTranslate2 has the same weights as Weft, in both layouts of its two threads; its better one is what Weft is
compared with. Joey NMT is slow: it takes part once, with few lines. Recurrent models say 15 symbols for every line,
however little they have learned: OpenNMT-py's learns nothing in ten minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import corpus
import peers
from ten_minutes import bleu, folder_of, source_of
from timing import matrix_speed, middle, record, spread, table

import weft
from weft.core.pair import END

FOLDER = corpus.BENCH / "decoding"
LENGTH = 15  # symbols of every output of a recurrent model
SLOW_LINES = 200  # for a system that is very slow, and only in the first round
TASKS = [(1, 64), (5, 64), (1, 1), (5, 1)]  # beam, lines in a batch
LAYOUTS = {"2 workers": (2, 1), "2 threads": (1, 2)}  # inter and intra threads
Figures = dict[str, Any]


@dataclass(frozen=True)
class System:
    driver: str
    model: Path
    more: tuple[object, ...] = ()
    is_slow: bool = False  # it takes part once, with few lines


def systems_of(model: str) -> dict[str, System]:
    run = folder_of(model, "weft")
    others = {
        name: System(name, folder_of(model, name), is_slow=name == "joeynmt")
        for name in ("opennmt", "transformers", "joeynmt")
    }
    if model == "lstm":
        of_length = ("--length", LENGTH)
        return {name: System(name, folder_of(model, name), of_length) for name in ("weft", "opennmt")}
    engines = {
        f"weft, {kind}": System("weft", run, ("--exported", run / f"ctranslate2-{kind}"))
        for kind in ("float32", "int8")
    }
    own = {
        f"ctranslate2, {kind}, {layout}": System(
            "ctranslate2",
            run / "ctranslate2-float32",
            ("--compute", kind, "--inter", inter, "--intra", intra),
        )
        for kind in ("float32", "int8")
        for layout, (inter, intra) in LAYOUTS.items()
    }
    return {"weft": System("weft", run), **engines, **others, **own}


def chosen(model: str, options: argparse.Namespace) -> dict[str, System]:
    return {name: one for name, one in systems_of(model).items() if name in (options.system or [name])}


def export(run: Path) -> None:
    """The Transformer for CTranslate2, as Weft's engine and CTranslate2's own translator read it."""
    for kind in ("float32", "int8"):
        out = run / f"ctranslate2-{kind}"
        if not out.exists():
            words = ["export", str(run), "--to", "ctranslate2", "--out", str(out), "--format", kind]
            subprocess.run([sys.executable, "-m", "weft", *words], check=True, capture_output=True)


def input_of(driver: str, run: Path, count: int, options: argparse.Namespace) -> Path:
    """The first lines of flickr2016 in the form that a driver reads."""
    lines = corpus.read(source_of("weft" if driver == "ctranslate2" else driver, options.data))[:count]
    if driver == "ctranslate2":
        ids = weft.load(run).predictor.source.encode_all(lines)
        lines = [" ".join(map(str, [*line, END])) for line in ids]
    file = FOLDER / f"{driver}.en"
    corpus.write(file, lines)
    return file


def texts_of(driver: str, run: Path, out: Path) -> list[str]:
    lines = corpus.read(out)
    if driver == "ctranslate2":
        target = weft.load(run).predictor.target
        return [target.decode(map(int, line.split())) for line in lines]
    return lines if driver == "weft" else corpus.to_texts(lines)


def turn(system: System, run: Path, beam: int, batch: int, options: argparse.Namespace) -> Figures | None:
    """Figures of one process; None where there is no model, or it fails."""
    if not system.model.exists():
        return None
    count = min(options.lines, SLOW_LINES) if system.is_slow else options.lines
    file, out = input_of(system.driver, run, count, options), FOLDER / "out.de"
    words = ["--model-folder", system.model, "--file", file, "--out", out, "--beam", beam, "--batch", batch]
    said = peers.drive(system.driver, "translate", *words, *system.more)
    if said is None or batch == 1:
        return said
    texts = texts_of(system.driver, run, out)
    speeds = {"sentences_per_second": len(texts) / said["seconds"]}
    if "--length" in system.more:
        return {**said, **speeds, "tokens_per_second": LENGTH * speeds["sentences_per_second"]}
    return {**said, **speeds, "tokens_per_second": corpus.count(texts) / said["seconds"],
            "bleu": bleu(texts, options.data)}  # fmt: skip


def gathered(turns: list[Figures]) -> Figures:
    """Each figure of all rounds; quality and memory are one figure."""
    found = {key: [turn[key] for turn in turns] for key in turns[0]}
    single = {key: max(found[key]) for key in ("bleu", "peak_megabytes") if key in found}
    each = {key: found[key] for key in ("sentences_per_second", "tokens_per_second", "milliseconds") if key in found}
    return {**each, **single}


def with_best_layout(found: dict[str, Figures], speed: str, best: Any) -> dict[str, Figures]:
    """CTranslate2's own at its better layout, under a name without it."""
    made = dict(found)
    for kind in ("float32", "int8"):
        own = [found[name] for layout in LAYOUTS if (name := f"ctranslate2, {kind}, {layout}") in found]
        if len(own) == len(LAYOUTS):
            made[f"ctranslate2, {kind}"] = best(own, key=lambda figures: middle(figures[speed]))
    return made


def measure(model: str, options: argparse.Namespace) -> dict[tuple[int, int], dict[str, Figures]]:
    """By task and system, all in turns."""
    run, systems = folder_of(model, "weft"), chosen(model, options)
    turns: dict[tuple[int, int], dict[str, list[Figures]]] = {task: {name: [] for name in systems} for task in TASKS}
    for round_ in range(options.rounds):
        for task, of_task in turns.items():
            for name, system in systems.items():
                figures = None if round_ and system.is_slow else turn(system, run, *task, options)
                if figures is not None:
                    of_task[name].append(figures)
                    main_figure = figures.get("sentences_per_second") or figures["milliseconds"]
                    note = f"round {round_ + 1} {model}, {name}, beam {task[0]}, batch {task[1]}: {main_figure:.1f}"
                    print(note, file=sys.stderr, flush=True)
    done: dict[tuple[int, int], dict[str, Figures]] = {}
    for task, of_task in turns.items():
        found = {name: gathered(some) for name, some in of_task.items() if some}
        by_batch = task[1] == 64
        speed, best = ("sentences_per_second", max) if by_batch else ("milliseconds", min)
        done[task] = with_best_layout(found, speed, best)
    return done


def missing(system: System) -> str:
    if system.driver != "weft" and not peers.is_installed(system.driver):
        return peers.NOT_INSTALLED
    return "failed" if system.model.exists() else "no model: bench/ten_minutes.py makes it"


def row(name: str, done: dict[tuple[int, int], dict[str, Figures]]) -> list[str]:
    cells, spreads, peaks = [name], [], []
    for task, found in done.items():
        figures = found.get(name)
        if figures is None:
            cells += [""] * (3 if task[1] == 64 else 1)
            continue
        peaks.append(figures["peak_megabytes"])
        if task[1] == 1:
            cells.append(f"{middle(figures['milliseconds']):.1f}")
            spreads.append(spread(figures["milliseconds"]))
        else:
            sentences, tokens = (middle(figures[f"{unit}_per_second"]) for unit in ("sentences", "tokens"))
            cells += [f"{sentences:.1f}", f"{tokens:,.0f}", f"{figures['bleu']:.1f}" if "bleu" in figures else ""]
            spreads.append(spread(figures["sentences_per_second"]))
    return [*cells, f"{max(spreads):.0%}", f"{max(peaks):,.0f}"]


def show(
    model: str, done: dict[tuple[int, int], dict[str, Figures]], speed: float, options: argparse.Namespace
) -> None:
    columns = [model]
    for beam, batch in TASKS:
        search = "greedy" if beam == 1 else f"beam {beam}"
        columns += [f"{search}, lines/s", "tokens/s", "BLEU"] if batch == 64 else [f"{search}, one line, ms"]
    systems, rows = chosen(model, options), []
    known = {name: None for found in done.values() for name in found}
    for name in {**dict.fromkeys(systems), **known}:
        if name in known:
            rows.append(row(name, done))
        else:
            rows.append([name, missing(systems[name]), *[""] * len(columns)])
    print(flush=True)
    table([*columns, "spread", "peak MB"], rows)
    for (beam, batch), found in done.items():
        for name, figures in found.items():
            record("decoding", model=model, system=name, beam=beam, batch=batch, gflops=speed, **figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=corpus.data_folder())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="one round of 100 lines")
    parser.add_argument("--only", action="append", choices=["transformer", "lstm"])
    parser.add_argument("--system", action="append", help="only this one, as the table names it; may be repeated")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.lines = 1, 100
    FOLDER.mkdir(parents=True, exist_ok=True)
    for model in options.only or ["transformer", "lstm"]:
        run = folder_of(model, "weft")
        if not run.exists():
            print(f"{model}: no model in {run}; run bench/ten_minutes.py first", flush=True)
            continue
        if model == "transformer":
            export(run)
        speed = matrix_speed()
        show(model, measure(model, options), speed, options)


if __name__ == "__main__":
    main()
