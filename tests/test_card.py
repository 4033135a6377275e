"""The card says in one sentence what each task's model is."""

from __future__ import annotations

from typing import Any

import pytest

from weft.look.card import _seen, architecture
from weft.look.commands import looked_at, table_name
from weft.settings import compose
from weft.tasks import TASKS

SENTENCES: dict[str, tuple[dict[str, Any], str]] = {
    "transduce": (
        {"target": {"tokens": "bpe"}},
        "with additive attention writes the",
    ),
    "a ctc": ({"head": {"kind": "ctc"}}, "emits characters or blanks (CTC)"),
    "classify": ({"task": "classify", "encoder": {"kind": "none"}}, "A classifier: an embedding layer reads the char"),
    "classify-tokens": ({"task": "classify-tokens"}, "and predicts a label for each"),
    "language-model": ({"task": "language-model"}, "predicts each from those before it"),
    "masked-lm": ({"task": "masked-lm"}, "predicts those that are hidden"),
    "denoise": ({"task": "denoise"}, "reads corrupted characters, an LSTM"),
    "answer": ({"task": "answer"}, "of a document and of its question, and predicts where the answer begins and ends"),
    "a sentence": ({"task": "answer", "answer": {"unit": "sentence"}}, "every sentence gets a score"),
    "retrieve": ({"task": "retrieve"}, "encodes the characters of queries and of documents as vectors"),
}


def test_every_task_has_a_sentence() -> None:
    assert set(TASKS) == {*SENTENCES} - {"a ctc", "a sentence"}


@pytest.mark.parametrize("name", SENTENCES)
def test_the_sentence_of_a_task_says_what_the_model_does(name: str) -> None:
    settings, part = SENTENCES[name]
    sentence = architecture(compose(("flag", settings)).spec)
    assert part in sentence
    assert ("CTC" in sentence) == (name == "a ctc")
    assert ("begins and ends" in sentence) == (name == "answer")


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"task": "classify"}, "and the label that the model predicted:"),
        ({"task": "classify", "pool": {"kind": "query"}}, "predicted, with the positions that it attended to:"),
        ({"head": {"kind": "ctc"}, "image": {"layout": "columns"}}, "below the position where it was emitted:"),
        ({}, "what the model wrote, with the positions that it attended to:"),
        ({"decoder": {"attention": {"score": "none"}}}, "and what the model wrote:"),
    ],
)
def test_the_card_promises_attention_only_where_it_is_drawn(settings: dict[str, Any], shown: str) -> None:
    spec = compose(("flag", {"source": {"kind": "image"}, **settings})).spec
    lines = _seen(spec, {"examples": [["a.png", "x", "x"]]})
    assert shown in lines[2]
    assert ("attention" in lines[4]) == ("attended" in lines[2])


@pytest.mark.parametrize(
    ("settings", "evaluated", "inspected"),
    [
        ({}, "PAIRS", '"a line"'),
        ({"source": {"kind": "image"}}, "PAIRS", "FILE.png"),
        ({"source": {"kind": "audio"}}, "PAIRS", "FILE.wav"),
        ({"source": {"kind": "notes"}, "target": {"kind": "notes"}}, "PAIRS", "--table PAIRS"),
        ({"task": "language-model"}, "TEXT", '"a line"'),
        ({"task": "language-model", "target": {"kind": "notes"}}, "FILE", "--table FILE"),
    ],
)
def test_the_commands_of_the_card_fit_what_the_run_reads(
    settings: dict[str, Any], evaluated: str, inspected: str
) -> None:
    spec = compose(("flag", settings)).spec
    assert (table_name(spec), looked_at(spec)) == (evaluated, inspected)
