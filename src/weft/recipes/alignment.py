"""How far attention is an alignment: against the known order of reversed letters, of sounds, and of words."""

# T target length · S source length

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from weft.api import Run
from weft.core.pair import Pair
from weft.look.inspect.alignment import Links, agreement
from weft.look.inspect.attention import Implied, coverage, entropy, implied, maps_of, monotonicity
from weft.look.inspect.subject import Subject
from weft.predict.predictor import Predictor
from weft.recipes import ibm
from weft.recipes.dates import write_tsv
from weft.recipes.makers import symbols
from weft.recipes.runs import markdown_table, trained
from weft.recipes.study import Files, Options, generated, public_paths
from weft.runs.log import LogFile

SETTINGS = {
    "encoder.kind": "recurrent",
    "decoder.kind": "recurrent",
    "encoder.cell": "gru",
    "decoder.cell": "gru",
    "encoder.width": 128,
    "decoder.width": 128,
    "embed.width": 64,
    "decoder.attention.score": "additive",
    "train.batch_tokens": 1_024,
    "train.rate": 0.003,
    "train.evaluations": 3,
    "search.kind": "greedy",
}
CHARACTERS = {"source.tokens": "characters", "target.tokens": "characters", "data.unseen": "unknown"}
SOUNDS = {"source.tokens": "characters", "target.tokens": "words", "data.unseen": "unknown"}
WORDS = {"source.tokens": "words", "target.tokens": "words", "data.unseen": "unknown"}
MOST_WORDS = 12  # of a sentence of the translation
TRAINING, JUDGED = 20_000, 200  # sentences that the translation learns from; lines on which alignments are compared
Judge = Callable[[int, Implied], tuple[int, int]]  # of a line: what agrees, and what there is to agree


@dataclass(frozen=True)
class Task:
    """Data, settings, and what an alignment is judged by: the known order, or the links of an IBM-style aligner."""

    name: str
    data: Callable[[Path], Files]
    settings: dict[str, Any]
    steps: int
    metric: str
    split: tuple[Callable[[str], Sequence[str]], Callable[[str], Sequence[str]]] | None = None  # for the aligner
    judged_by: str = "IBM-style links"


def reversal(folder: Path) -> Files:
    return generated(symbols(5, 15, lambda text: text[::-1]), 10_000, 300)(folder)


def sounds(folder: Path) -> Files:
    train, dev = public_paths("g2p_sigmorphon2020/data/train/gre_train.tsv", "g2p_sigmorphon2020/data/dev/gre_dev.tsv")
    return Files(str(train), str(dev))


def translation(folder: Path) -> Files:
    """Write short sentences, lower-cased, with their punctuation apart."""
    paths = public_paths("tatoeba_en_fr/train.tsv", "tatoeba_en_fr/dev.tsv")
    folder.mkdir(parents=True, exist_ok=True)
    for name, path, most in zip(("train", "valid"), paths, (TRAINING, 1_000)):
        write_tsv(sentences(path, most), folder / f"{name}.tsv")
    return Files(str(folder / "train.tsv"), str(folder / "valid.tsv"))


def sentences(path: Path, most: int) -> list[Pair]:
    """Draw so many short sentences of a table."""
    short = [
        p for p in pairs_of(path, words_of) if all(2 <= len(x.split()) <= MOST_WORDS for x in (p.source, p.target))
    ]
    return random.Random(1).sample(short, min(most, len(short)))


def words_of(text: str) -> str:
    """Return words and punctuation apart, in lower case; what stands before an apostrophe keeps it, as in l'eau."""
    return " ".join(re.findall(r"\w+['’]?|[^\w\s]", text.lower()))


def pairs_of(path: Path, change: Callable[[str], str] = str) -> list[Pair]:
    """Return the first two columns of a table."""
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [Pair(change(row[0]), change(row[1])) for row in rows]


TASKS = (
    Task("reversal", reversal, CHARACTERS, 500, "exact", judged_by="known order"),
    Task("sounds", sounds, SOUNDS, 600, "exact", (list, str.split)),
    Task("translation", translation, WORDS, 1_200, "bleu", (str.split, str.split)),
)


def in_order(number: int, links: Implied) -> tuple[int, int]:
    """Count the steps that attend to the symbol that is written, in a reversed line."""
    order = range(len(links.source))[::-1]
    return round(agreement(links.weights, order, links.source) * len(order)), len(order)


def beside(references: Sequence[Links]) -> Judge:
    """Count the links that two alignments share, twice, and the links of both: their ratio is F1."""

    def judge(number: int, links: Implied) -> tuple[int, int]:
        both, one, other = ibm.agreement(links.both, references[number])
        return 2 * both, one + other

    return judge


def judge_of(task: Task, files: Files, pairs: Sequence[Pair]) -> Judge:
    """Return what the alignments of a task are compared with; an aligner learns from the same training lines."""
    if task.split is None:
        return in_order
    read, write = task.split
    training, judged = (
        [(read(pair.source), write(pair.target)) for pair in each] for each in (pairs_of(Path(files.train)), pairs)
    )
    return beside(list(ibm.aligned(training, judged)))


def measured(predictor: Predictor, pairs: Sequence[Pair], judge: Judge) -> list[float]:
    """Return entropy, monotonicity and coverage of the attention under the right outputs, and its agreement."""
    subject, each, agreed, total = Subject(predictor), [], 0, 0
    for number, pair in enumerate(pairs):
        (line,) = subject.lines([pair], pair.target)
        links = implied(maps_of(line)["cross"])
        each.append([measure(links.weights) for measure in (entropy, monotonicity, coverage)])
        more, of = judge(number, links)
        agreed, total = agreed + more, total + of
    return [*(fmean(column) for column in zip(*each)), agreed / max(1, total)]


def run(folder: Path, options: Options) -> list[str]:
    """Train the three models, compare their attention with an alignment, and return the page's lines."""
    rows, maps = [], []
    for task in TASKS:
        files = task.data(folder / "data" / task.name)
        model = trained(folder, task.name, files, task.steps, {**SETTINGS, **task.settings}, options)
        assert files.valid is not None
        pairs = pairs_of(Path(files.valid))[:JUDGED]
        judge, subject = judge_of(task, files, pairs), Subject(model.predictor)
        figures = measured(model.predictor, pairs, judge)
        untrained = measured(subject.with_model(subject.untrained()), pairs, judge)
        score = float(LogFile(model.folder.log).final()[task.metric])
        rows.append([task.name, f"{task.metric} {score:.1f}", *figures[:3], task.judged_by, figures[3], untrained[3]])
        maps.append(example(model, pairs))
    draw(maps, folder / "alignment.png")
    columns = ["task", "score", "entropy", "monotonicity", "coverage", "compared with", "agreement"]
    return [
        "The models are GRUs with additive attention, trained for "
        + ", ".join(f"{options.steps or t.steps:,} updates ({t.name})" for t in TASKS)
        + ". For reversal, agreement is the share of steps that attend most to the right letter; for the other tasks, "
        f"it is the F1 score between the links of the attention and those of the aligner. Both are measured on "
        f"{JUDGED} validation lines, while the decoder reads the correct output.",
        "",
        *markdown_table([*columns, "untrained"], rows),
        "![attention of one line of each task](alignment.png)",
        "",
    ]


def example(model: Run, pairs: Sequence[Pair]) -> Implied:
    """Return the attention of a line of a length that can be drawn."""
    subject = Subject(model.predictor)
    chosen = next((pair for pair in pairs if 8 <= len(subject.sides.encode([pair]).target[0]) <= 12), pairs[0])
    (line,) = subject.lines([chosen], chosen.target)
    return implied(maps_of(line)["cross"])


def draw(maps: Sequence[Implied], path: Path) -> None:
    """Draw one map of each task, with its links as dots."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), dpi=110, layout="constrained")
    for axes, each, task in zip(figure.subplots(1, len(maps)), maps, TASKS):
        axes.imshow(each.weights, cmap="cividis_r", vmin=0, vmax=1, aspect="auto")
        axes.plot(*zip(*sorted(each.both)), "o", color="#d55e00", markersize=4)
        axes.set_xticks(range(len(each.source)), each.source, fontsize=8, rotation=90)
        axes.set_yticks(range(len(each.target)), each.target, fontsize=8)
        axes.set_title(task.name, fontsize=10)
    figure.savefig(path)
