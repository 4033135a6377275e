"""A language model of a novel: what it writes. And a denoiser of it: what a task with few pairs gains."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.api import Run
from weft.core.pair import Pair
from weft.recipes.dates import write_tsv
from weft.recipes.runs import markdown_table, trained
from weft.recipes.study import Files, Options
from weft.recipes.tracking import SETTINGS, novel
from weft.runs.log import LogFile

STEPS, DENOISE_STEPS, PAIR_STEPS = 2_200, 1_000, 250
ROWS = (250, 1_000, 4_000)
JUDGED = 400
SHORTEST, LONGEST = 40, 80  # characters of a line
PROMPTS = ('"Well, Prince, ', "Pierre looked at ", "The battle ")
SAMPLED, TEMPERATURE = 250, 0.7  # characters
MODEL = {
    **{"encoder.kind": "recurrent", "encoder.cell": "lstm-b", "encoder.width": 128, "encoder.layers": 1},
    **{"decoder.kind": "recurrent", "decoder.cell": "lstm-b", "decoder.width": 256, "decoder.layers": 1},
    **{"decoder.attention.score": "additive", "embed.width": 64, "train.dropout": 0.1},
    **{"source.tokens": "characters", "target.tokens": "characters", "train.batch_tokens": 2_048},
    **{"train.rate": 0.003, "train.evaluations": 3, "train.select": "cer", "search.kind": "greedy"},
}


def without_vowels(line: str) -> str:
    """Return a line without its vowels."""
    return re.sub("[aeiouAEIOU]", "", line)


def lines(path: str) -> list[str]:
    """Return the lines of a text that are neither short nor long."""
    each = map(str.strip, Path(path).read_text(encoding="utf-8-sig").splitlines())
    return [line for line in each if SHORTEST <= len(line) <= LONGEST]


def tables(text: Files, folder: Path) -> tuple[Files, dict[int, Files]]:
    """Write the lines of the novel, and tables of some of them without vowels and as they are."""
    assert text.valid is not None
    folder.mkdir(parents=True, exist_ok=True)
    training, later = lines(text.train), lines(text.valid)
    for name, each in {"train.txt": training, "valid.txt": later}.items():
        (folder / name).write_text("".join(f"{line}\n" for line in each), encoding="utf-8")
    few = random.Random(1).sample(training, max(ROWS))
    judged = write(random.Random(2).sample(later, JUDGED), folder / "judged.tsv")
    by_count = {count: Files(write(few[:count], folder / f"{count}.tsv"), judged) for count in ROWS}
    return Files(str(folder / "train.txt"), str(folder / "valid.txt")), by_count


def write(each: Sequence[str], path: Path) -> str:
    """Write a table of lines without vowels and as they are; return its name."""
    write_tsv([Pair(without_vowels(line), line) for line in each], path)
    return str(path)


def run(folder: Path, options: Options) -> list[str]:
    """Train a language model and let it write; then restore vowels, with pretraining and without."""
    text = novel(folder / "data")
    model = trained(folder, "language-model", text, STEPS, SETTINGS, options, task="language-model")
    whole, few = tables(text, folder / "data")
    settings = {**MODEL, "data.lines": True, "train.valid_pairs": 200}
    denoiser = trained(folder, "denoise", whole, DENOISE_STEPS, settings, options, task="denoise")
    curve: dict[str, list[float]] = {"random weights": [], "weights of the denoiser": []}
    for count, files in few.items():
        for label, init in zip(curve, ({}, {"init": denoiser.path})):
            name = f"{'pretrained' if init else 'random'}-{count}"
            run = trained(folder, name, files, PAIR_STEPS, MODEL, options, source=1, target=2, **init)
            curve[label].append(float(LogFile(run.folder.log).final()["cer"]))
    draw(curve, folder / "novel.png")
    rows = [[label, *each] for label, each in curve.items()]
    scores = LogFile(model.folder.log).final()
    return [
        f"The language model, an LSTM of width {SETTINGS['decoder.width']} over characters, was trained for "
        f"{scores['steps']:,} updates and has {scores['bits_per_character']:.3f} bits per character on later chapters.",
        "",
        *samples(model),
        f"The other task is to restore the vowels of a line (`{without_vowels(PROMPTS[1]).strip()}` → "
        f"`{PROMPTS[1].strip()}`). An encoder and a decoder with attention learn it from few pairs in "
        f"{options.steps or PAIR_STEPS} updates. They start either with random weights, or with the weights of a "
        "denoiser: a model that has learned to restore lines of the novel in which words were dropped, moved or masked "
        f"(`--task denoise`, {options.steps or DENOISE_STEPS:,} updates). The character error rate on {JUDGED} lines "
        "of later chapters, in per cent:",
        "",
        *markdown_table(["start", *(f"{count:,} pairs" for count in ROWS)], rows, 1),
        "![character error rate against the number of pairs](novel.png)",
        "",
    ]


def samples(model: Run) -> list[str]:
    """Return what the language model writes after some prompts."""
    search = {"kind": "sample", "temperature": TEMPERATURE, "length": SAMPLED}
    written = model.predict(PROMPTS, search=search)
    out = [f"What it writes after three prompts, sampled with a temperature of {TEMPERATURE}:", ""]
    for prompt, output in zip(PROMPTS, written):
        out += [f"> **{prompt.strip()}** {' '.join(str(output).split())}", ""]
    return out


def draw(curve: Mapping[str, Sequence[float]], path: Path) -> None:
    """Draw the error against the number of pairs."""
    from matplotlib.figure import Figure

    from weft.look.compared import COLOURS

    figure = Figure(figsize=(7, 4), dpi=110, layout="constrained")
    axes = figure.subplots()
    for index, (label, errors) in enumerate(curve.items()):
        axes.plot(ROWS, errors, ("s--", "o-")[index], color=COLOURS[index], label=label)
    axes.set(xlabel="pairs", ylabel="character error rate (%)", xscale="log", title="Restoring vowels", ylim=(0, None))
    axes.set_xticks(ROWS, [f"{count:,}" for count in ROWS])
    axes.minorticks_off()
    axes.grid(color="#e4e4e4")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path)
