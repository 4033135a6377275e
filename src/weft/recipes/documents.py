"""Recipes of documents: a question about a story, a sentence that sums up an abstract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from weft.recipes.study import PUBLIC, Files, Recipe, Study, public, public_paths

VALID_SHARE = 0.1  # of the questions, the last ones, which are for validation
HEADER = "document\tquestion\tanswer\n"


def stories(lines: Iterator[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the story so far, a question and its answer, from numbered lines; number 1 begins a new story."""
    story: list[str] = []
    for line in lines:
        number, _, text = line.rstrip("\n").partition(" ")
        if number == "1":
            story = []
        if "\t" in text:
            question, answer, *_ = text.split("\t")
            yield " ".join(story), question.strip(), answer
        elif text:
            story.append(text)


def asked(name: str) -> Callable[[Path], Files]:
    """Return a file of bAbI as two tables."""

    def write(folder: Path) -> Files:
        (path,) = public_paths(name)
        folder.mkdir(parents=True, exist_ok=True)
        with path.open(encoding="utf-8") as lines:
            rows = ["\t".join(row) + "\n" for row in stories(lines)]
        cut = round((1 - VALID_SHARE) * len(rows))
        tables = folder / "train.tsv", folder / "valid.tsv"
        for table, part in zip(tables, (rows[:cut], rows[cut:])):
            table.write_text(HEADER + "".join(part), encoding="utf-8")
        return Files(str(tables[0]), str(tables[1]))

    return write


def babi() -> Recipe:
    hops: dict[str, Any] = {"context.use": "hops", "encoder.kind": "none"}
    variants: dict[str, dict[str, Any]] = {
        **{f"{number} hop{'s' * (number > 1)}": {**hops, "context.hops": number} for number in (1, 2, 3)},
        "lstm over both": {"context.use": "joint", "encoder.kind": "recurrent", "pool.kind": "query"},
    }
    settings = {
        **{"task": "classify", "data.source": "document", "data.context": "question", "data.target": "answer"},
        **{"source.tokens": "bpe", "context.kind": "text", "context.shared": True, "train.select": "accuracy"},
        **{"encoder.width": 128, "embed.width": 128, "train.dropout": 0.1, "train.rate": 0.002},
        **{"train.batch_tokens": 4096, "train.evaluations": 3},
    }
    return Recipe(
        "babi",
        "Gertrude is a mouse. Mice are afraid of wolves. What is Gertrude afraid of? Two sentences of a story together "
        "tell the answer. How often must a question look at the story, and is a recurrent network enough?",
        "The data are 10,000 questions of bAbI, task 15 (Weston 2016), in babi/qa15_basic-deduction_train.txt; the "
        "last tenth is for validation. With hops, each sentence is a vector, and the question attends to all of them, "
        f"once or several times; the LSTM reads the story and then the question. {PUBLIC}",
        BABI_LEARNS,
        (Study("babi", asked("babi/qa15_basic-deduction_train.txt"), variants, settings, "18ktokens"),),
    )


def abstracts() -> Recipe:
    variants: dict[str, dict[str, Any]] = {
        "words of a sentence": {"encoder.kind": "none"},
        "states of an lstm": {"encoder.kind": "recurrent"},
    }
    settings = {
        **{"task": "answer", "data.source": "source", "data.target": "target", "data.context": "none"},
        **{"answer.unit": "sentence", "answer.longest": 150, "source.tokens": "bpe", "train.select": "rouge1"},
        **{"encoder.width": 128, "embed.width": 128, "train.dropout": 0.5, "train.rate": 0.002},
        **{"train.batch_tokens": 4096, "train.evaluations": 3},
    }
    return Recipe(
        "abstracts",
        "Which sentence of an abstract sums it up best? Are the words and the position of a sentence enough, or does "
        "it help to read the abstract with a recurrent network first?",
        "The data are abstracts of papers with summaries of one sentence, 1,992 for training and 619 for validation "
        "(SciTLDR, Cachola 2020), in scitldr/train.jsonl and dev.jsonl. The model learns to select the sentence that "
        f"shares the most words with the summary. It does not read the title. {PUBLIC}",
        ABSTRACTS_LEARN,
        (Study("abstracts", public("scitldr/train.jsonl", "scitldr/dev.jsonl"), variants, settings, "4ktokens"),),
    )


BABI_LEARNS = (
    "After two epochs, the model with two hops answers every question correctly; with one hop, 45 % of the answers are "
    "right, because no single sentence contains the answer. With three hops, 66 % are right, and with an LSTM that "
    "reads the story and then the question, 56 %: with this small budget, these two have not learned the rule yet. In "
    "a longer run of `weft train`, three hops get every answer right as well (docs/LOG.md). There was one seed."
)
ABSTRACTS_LEARN = (
    "The words of a sentence and its place are enough: after one pass over the data, the selected sentences have a "
    "ROUGE-1 of 34.9, and with the states of an LSTM 35.5, which is not significantly better. The first sentence of "
    "each abstract would have 27.0, and the best possible choice 44.6."
)
