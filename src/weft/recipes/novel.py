"""A language model of a novel: what it writes. And a masked language model of it: what a task with few rows gains."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.api import Run
from weft.recipes.runs import markdown_table, trained
from weft.recipes.study import Files, Options
from weft.recipes.tracking import SETTINGS, novel
from weft.runs.log import LogFile

STEPS, MASKED_STEPS, LABEL_STEPS = 2_200, 1_500, 300
ROWS = (100, 200, 400, 800)
JUDGED = 500
FEWEST_WORDS = 20
PEOPLE = ("pierre", "natasha", "andrew", "nicholas", "mary", "kutuzov", "napoleon")
HIDDEN = "someone"
PROMPTS = ('"Well, Prince, ', "Pierre looked at ", "The battle ")
SAMPLED, TEMPERATURE = 250, 0.7  # characters
ENCODER = {
    **{"encoder.kind": "recurrent", "encoder.cell": "lstm-b", "encoder.width": 128, "encoder.layers": 1},
    **{"encoder.directions": "both", "embed.width": 256, "train.dropout": 0.3, "train.rate": 0.002},
}
MASKED = {**ENCODER, "target.tokens": "words", "embed.latent": True, "train.freeze": ["embed"], "train.evaluations": 3}
LABELS = {**ENCODER, "source.tokens": "words", "pool.kind": "mean", "train.select": "accuracy", "train.evaluations": 4}
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|[^\w\s]")


def paragraphs(path: str) -> list[list[str]]:
    """Return the paragraphs of a text that are not short, as words and signs in lower case."""
    text = Path(path).read_text(encoding="utf-8-sig").lower()
    each = (_WORD.findall(paragraph) for paragraph in re.split(r"\n\s*\n", text))
    return [words for words in each if len(words) >= FEWEST_WORDS]


def about(words: Sequence[str]) -> str:
    """Return the only one of PEOPLE that a paragraph names; nothing where it names none or several."""
    named = set(words) & set(PEOPLE)
    return named.pop() if len(named) == 1 else ""


def hidden(words: Sequence[str]) -> str:
    """Return a paragraph in which nobody knows who is named."""
    return " ".join(HIDDEN if word in PEOPLE else word for word in words)


def tables(text: Files, folder: Path) -> tuple[Files, dict[int, Files]]:
    """Write paragraphs without labels, and tables of others with the one that they name, whose name is hidden."""
    folder.mkdir(parents=True, exist_ok=True)
    every = paragraphs(text.train)
    random.Random(1).shuffle(every)
    named = [words for words in every if about(words)]
    judged = named[:JUDGED]
    labelled = named[JUDGED : JUDGED + max(ROWS)]
    kept = {id(words) for words in judged}
    unlabelled = [" ".join(words) + "\n" for words in every if id(words) not in kept]
    cut = len(unlabelled) // 20
    for name, lines in {"train.txt": unlabelled[cut:], "valid.txt": unlabelled[:cut]}.items():
        (folder / name).write_text("".join(lines), encoding="utf-8")
    valid = write(judged, folder / "judged.tsv")
    by_count = {count: Files(write(labelled[:count], folder / f"{count}.tsv"), valid) for count in ROWS}
    return Files(str(folder / "train.txt"), str(folder / "valid.txt")), by_count


def write(each: Sequence[Sequence[str]], path: Path) -> str:
    """Write a table of paragraphs and whom they are about; return its name."""
    rows = "".join(f"{hidden(words)}\t{about(words)}\n" for words in each)
    path.write_text(f"text\tperson\n{rows}", encoding="utf-8")
    return str(path)


def run(folder: Path, options: Options) -> list[str]:
    """Train a language model and let it write; then tell whom paragraphs are about, with pretraining and without."""
    text = novel(folder / "data")
    model = trained(folder, "language-model", text, STEPS, SETTINGS, options, task="language-model")
    lines, few = tables(text, folder / "data")
    masked_settings = {**MASKED, "data.lines": True}
    masked = trained(folder, "masked-lm", lines, MASKED_STEPS, masked_settings, options, task="masked-lm")
    curve: dict[str, list[float]] = {"from random weights": [], "from the masked language model": []}
    for count, files in few.items():
        for label, init in zip(curve, ({}, {"init": masked.path})):
            name = f"{'pretrained' if init else 'random'}-{count}"
            roles = {"task": "classify", "source": "text", "target": "person", **init}
            run = trained(folder, name, files, LABEL_STEPS, LABELS, options, **roles)
            curve[label].append(float(LogFile(run.folder.log).final()["accuracy"]))
    draw(curve, folder / "novel.png")
    rows = [[label, *each] for label, each in curve.items()]
    scores = LogFile(model.folder.log).final()
    return [
        f"The language model, an LSTM of width {SETTINGS['decoder.width']} over characters, was trained for "
        f"{scores['steps']:,} updates and has {scores['bits_per_character']:.3f} bits per character on later chapters.",
        "",
        *samples(model),
        f"The other task: a paragraph names one of {len(PEOPLE)} people, whose name is hidden (`{HIDDEN}`). Who is it? "
        f"A bidirectional LSTM of width {ENCODER['encoder.width']} learns it in {options.steps or LABEL_STEPS} updates "
        "from few paragraphs, with random weights or with those of a masked language model, which has read the novel "
        f"for {options.steps or MASKED_STEPS:,} updates. The accuracy on {JUDGED:,} paragraphs that no model has read, "
        "in per cent:",
        "",
        *markdown_table(["encoder", *(f"{count:,} paragraphs" for count in ROWS)], rows, 1),
        "![accuracy against the number of labelled paragraphs](novel.png)",
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
    """Draw the accuracy against the number of labelled paragraphs."""
    from matplotlib.figure import Figure

    from weft.look.compared import COLOURS

    figure = Figure(figsize=(7, 4), dpi=110, layout="constrained")
    axes = figure.subplots()
    for index, (label, scores) in enumerate(curve.items()):
        axes.plot(ROWS, scores, ("s--", "o-")[index], color=COLOURS[index], label=label)
    axes.set(xlabel="labelled paragraphs", ylabel="right (%)", xscale="log", title="Whom is a paragraph about?")
    axes.set_xticks(ROWS, [f"{count:,}" for count in ROWS])
    axes.minorticks_off()
    axes.grid(color="#e4e4e4")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path)
