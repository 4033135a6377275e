"""A language model of a novel: what it writes. And a masked language model of it: what a task with few rows gains."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from weft.api import Run
from weft.recipes.runs import markdown_table, trained
from weft.recipes.study import Files, Options
from weft.recipes.tracking import SETTINGS, novel
from weft.runs.log import LogFile

STEPS, MASKED_STEPS, LABEL_STEPS = 2_200, 1_500, 300
ROWS = (100, 400, 1_600, 6_400)
JUDGED = 1_000
FEWEST_WORDS = 5
PROMPTS = ('"Well, Prince, ', "Pierre looked at ", "The battle ")
SAMPLED, TEMPERATURE = 250, 0.7  # characters
CAPITAL, SMALL = "B-capital", "O"
ENCODER = {
    **{"encoder.kind": "recurrent", "encoder.cell": "lstm-b", "encoder.width": 128, "encoder.layers": 1},
    **{"encoder.directions": "both", "embed.width": 256, "train.dropout": 0.2, "train.rate": 0.003},
}
MASKED = {**ENCODER, "target.tokens": "words", "embed.latent": True, "train.freeze": ["embed"], "train.evaluations": 3}
LABELS = {**ENCODER, "source.tokens": "words", "train.select": "span_f1", "train.evaluations": 4}
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|[^\w\s]")


def labelled(line: str) -> tuple[str, str]:
    """Return the words and signs of a line in lower case, and which of them begin with a capital."""
    words = _WORD.findall(line)
    return " ".join(words).lower(), " ".join(CAPITAL if word[:1].isupper() else SMALL for word in words)


def rows(path: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a text that are not too short."""
    with Path(path).open(encoding="utf-8-sig") as file:
        for words, labels in map(labelled, file):
            if len(words.split()) >= FEWEST_WORDS:
                yield words, labels


def tables(text: Files, folder: Path) -> tuple[Files, dict[int, Files]]:
    """Write all lines without capitals, and tables of some of them with labels."""
    assert text.valid is not None
    folder.mkdir(parents=True, exist_ok=True)
    training, later = list(rows(text.train)), list(rows(text.valid))
    files = {"train.txt": training, "valid.txt": later}
    for name, each in files.items():
        (folder / name).write_text("".join(f"{words}\n" for words, _ in each), encoding="utf-8")
    few = random.Random(1).sample(training, max(ROWS))
    judged = write(random.Random(2).sample(later, JUDGED), folder / "judged.tsv")
    by_count = {count: Files(write(few[:count], folder / f"{count}.tsv"), judged) for count in ROWS}
    return Files(str(folder / "train.txt"), str(folder / "valid.txt")), by_count


def write(each: Sequence[tuple[str, str]], path: Path) -> str:
    """Write a table of words and labels; return its name."""
    path.write_text("words\tlabels\n" + "".join(f"{words}\t{labels}\n" for words, labels in each), encoding="utf-8")
    return str(path)


def run(folder: Path, options: Options) -> list[str]:
    """Train a language model and let it write; then label words, with pretraining and without."""
    text = novel(folder / "data")
    model = trained(folder, "language-model", text, STEPS, SETTINGS, options, task="language-model")
    lines, few = tables(text, folder / "data")
    masked_settings = {**MASKED, "data.lines": True}
    masked = trained(folder, "masked-lm", lines, MASKED_STEPS, masked_settings, options, task="masked-lm")
    curve: dict[str, list[float]] = {"from random weights": [], "from the masked language model": []}
    for count, files in few.items():
        for label, init in zip(curve, ({}, {"init": masked.path})):
            name = f"{'pretrained' if init else 'random'}-{count}"
            roles = {"task": "classify-tokens", "source": "words", "target": "labels", **init}
            run = trained(folder, name, files, LABEL_STEPS, LABELS, options, **roles)
            curve[label].append(float(LogFile(run.folder.log).final()["span_f1"]))
    draw(curve, folder / "novel.png")
    scores = LogFile(model.folder.log).final()
    return [
        f"The language model, an LSTM of width {SETTINGS['decoder.width']} over characters, was trained for "
        f"{scores['steps']:,} updates and has {scores['bits_per_character']:.3f} bits per character on later chapters.",
        "",
        *samples(model),
        "The other task: which words of a line begin with a capital, if the model sees them in lower case "
        f"(`{labelled(PROMPTS[1])[0]}`)? A bidirectional LSTM of width {ENCODER['encoder.width']} learns it in "
        f"{options.steps or LABEL_STEPS} updates from few lines, from random weights or from those of a masked "
        f"language model, which has read the novel in lower case for {options.steps or MASKED_STEPS:,} updates. "
        f"The F1 of capitals on {JUDGED:,} lines of later chapters, in per cent:",
        "",
        *markdown_table(
            ["encoder", *(f"{count:,} lines" for count in ROWS)], [[label, *each] for label, each in curve.items()], 1
        ),
        "![F1 of capitals against the number of labelled lines](novel.png)",
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
    """Draw the F1 against the number of labelled lines."""
    from matplotlib.figure import Figure

    from weft.look.compared import COLOURS

    figure = Figure(figsize=(7, 4), dpi=110, layout="constrained")
    axes = figure.subplots()
    for index, (label, scores) in enumerate(curve.items()):
        axes.plot(ROWS, scores, ("s--", "o-")[index], color=COLOURS[index], label=label)
    axes.set(xlabel="labelled lines", ylabel="F1 of capitals (%)", xscale="log", title="Which words have a capital?")
    axes.set_xticks(ROWS, [f"{count:,}" for count in ROWS])
    axes.minorticks_off()
    axes.grid(color="#e4e4e4")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path)
