"""The card says in one sentence what each task's model is."""

from __future__ import annotations

from typing import Any

import pytest

from weft.look.card import architecture
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
