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


def squad() -> Recipe:
    data = public("squad11/train.json", "squad11/dev.json")
    flow = {"context.use": "flow", "context.lexical": True}
    selecting: dict[str, dict[str, Any]] = {
        "attention both ways and lexical features": flow,
        "attention both ways": {**flow, "context.lexical": False},
        "one sequence": {"context.use": "joint", "context.lexical": False},
    }
    settings = {
        **{"source.tokens": "bpe", "source.size": 8000, "encoder.width": 128, "embed.width": 128},
        **{"train.dropout": 0.2, "train.rate": 0.002, "train.batch_tokens": 3072, "train.evaluations": 4},
    }
    span = {"task": "answer", "answer.longest": 28, "train.select": "f1"}
    written = {
        **{"target.tokens": "bpe", "target.size": 8000, "context.kind": "text"},
        **{"data.source": "document", "data.context": "question", "data.target": "answer"},
        **{"decoder.width": 128, "search.kind": "greedy", "train.select": "exact"},
    }
    generating = {"a decoder that can copy": {"head.kind": "copy"}, "a decoder": {"head.kind": "tokens"}}
    return Recipe(
        "squad",
        "Which words of a paragraph answer a question about it? Does it help if paragraph and question attend to each "
        "other, and if the model is told which words they share? And can a decoder write the answer instead of "
        "selecting it?",
        "The data are 7,968 questions of SQuAD 1.1 (Rajpurkar 2016, CC BY-SA 4.0) about paragraphs of Wikipedia, and "
        f"824 others about other articles, in squad11/train.json and dev.json. {PUBLIC} *Lexical features* say, for "
        "each word of the paragraph, whether the question contains the same word, or another form of it, and how many "
        "such words are nearby.",
        SQUAD_LEARNS,
        (
            Study("select", data, selecting, {**settings, **span}, "32ktokens"),
            Study("generate", data, generating, {**settings, **written}, "80ktokens"),
        ),
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
SQUAD_LEARNS = (
    "After two epochs, the model in which paragraph and question attend to each other has an F1 of 44.5 if it is told "
    "which words they share, and of 37.2 otherwise. The model that reads question and paragraph as one sequence has "
    "only 11.4. With so few questions, writing the answer does not work: after two epochs, a decoder gets no answer "
    "right, and one that can copy words of the paragraph gets two of 824. There was one seed."
)
ABSTRACTS_LEARN = (
    "The words of a sentence and its place are enough: after one pass over the data, the selected sentences have a "
    "ROUGE-1 of 34.9, and with the states of an LSTM 35.5, which is not significantly better. The first sentence of "
    "each abstract would have 27.0, and the best possible choice 44.6."
)
