"""A language model of a novel: what it writes, and what its decoder knows that helps with few pairs of another task."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from weft.api import Run
from weft.core.pair import Pair
from weft.recipes.dates import write_tsv
from weft.recipes.runs import markdown_table, trained
from weft.recipes.study import Files, Options
from weft.recipes.tracking import SETTINGS, novel
from weft.runs.log import LogFile

STEPS, PAIR_STEPS = 2_200, 400
ROWS = (250, 1_000, 4_000)
JUDGED = 500
SHORTEST, LONGEST = 40, 80  # characters of a line whose vowels are to be restored
PROMPTS = ('"Well, Prince, ', "Pierre looked at ", "The battle ")
SAMPLED, TEMPERATURE = 200, 0.7  # characters
PAIRS = {
    **{"decoder.cell": "lstm-b", "decoder.width": 256, "decoder.layers": 1, "embed.width": 128},
    **{"decoder.attention.score": "additive", "decoder.attention.feed": False, "bridge.kind": "zeros"},
    **{"encoder.kind": "recurrent", "encoder.cell": "lstm-b", "encoder.width": 128, "encoder.layers": 1},
    **{"source.tokens": "characters", "target.tokens": "characters", "embed.shared": False, "head.tied": True},
    **{"train.batch_tokens": 2_048, "train.rate": 0.003, "train.dropout": 0.1, "train.evaluations": 4},
    **{"train.select": "cer", "search.kind": "greedy"},
}


def without_vowels(line: str) -> str:
    """Return a line without its vowels."""
    return re.sub("[aeiouAEIOU]", "", line)


def lines(path: str) -> Iterator[str]:
    """Yield the lines of a text that are long enough to say something, and short enough."""
    with Path(path).open(encoding="utf-8-sig") as file:
        for line in map(str.strip, file):
            if SHORTEST <= len(line) <= LONGEST:
                yield line


def pairs(text: Files, folder: Path) -> dict[int, Files]:
    """Write pairs of lines without vowels and with them: some from the novel's training part, others from the rest."""
    assert text.valid is not None
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    training, judged = (
        rng.sample(sorted(set(lines(path))), count) for path, count in ((text.train, max(ROWS)), (text.valid, JUDGED))
    )
    valid = write(judged, folder / "valid.tsv")
    return {rows: Files(write(training[:rows], folder / f"{rows}.tsv"), valid) for rows in ROWS}


def write(whole: Sequence[str], path: Path) -> str:
    write_tsv([Pair(without_vowels(line), line) for line in whole], path)
    return str(path)


def run(folder: Path, options: Options) -> list[str]:
    """Train a language model, let it write, and train another task from it and without it."""
    text = novel(folder / "data")
    model = trained(folder, "model", text, STEPS, SETTINGS, options, task="language-model")
    curve: dict[str, list[float]] = {"from random weights": [], "from the language model": []}
    for rows, files in pairs(text, folder / "data").items():
        for label, init in zip(curve, ({}, {"init": model.path})):
            name = f"{label.split()[1]}-{label.split()[2]}-{rows}"
            run = trained(folder, name, files, PAIR_STEPS, PAIRS, options, source=1, target=2, **init)
            curve[label].append(float(LogFile(run.folder.log).final()["cer"]))
    draw(curve, folder / "novel.png")
    scores = LogFile(model.folder.log).final()
    return [
        f"The language model, an LSTM of width {SETTINGS['decoder.width']} over characters, was trained for "
        f"{scores['steps']:,} updates and has {scores['bits_per_character']:.3f} bits per character on later chapters.",
        "",
        *samples(model),
        f"The same LSTM is the decoder of a model that restores the vowels of a line (`{without_vowels(PROMPTS[1])}` → "
        f"`{PROMPTS[1]}`). The table has its character error rate in per cent, after {options.steps or PAIR_STEPS} "
        f"updates, on {JUDGED} lines of later chapters:",
        "",
        *markdown_table(
            ["decoder", *(f"{rows:,} pairs" for rows in ROWS)], [[label, *each] for label, each in curve.items()], 1
        ),
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
    axes.set_xticks(ROWS, [f"{rows:,}" for rows in ROWS])
    axes.minorticks_off()
    axes.grid(color="#e4e4e4")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path)
