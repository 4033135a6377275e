"""ROUGE against rouge-score, which comes with the extra `summaries`."""

from __future__ import annotations

import random

import pytest

from weft.score.metrics import table_of
from weft.score.rouge import ROUGE, common, words_of
from weft.score.text import TEXT

WORDS = ["the", "a", "model", "learns,", "Learns", "quickly", "and", "on", "few", "rows", "7"]


def texts(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randrange(1, 30))) for _ in range(count)]


def test_scores_are_those_of_rouge_score() -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer([m.name for m in ROUGE], use_stemmer=False)
    for output, *references in zip(texts(40, 1), texts(40, 2), texts(40, 3)):
        theirs = scorer.score_multi(references, output)
        for metric in ROUGE:
            assert metric.of_line(output, references) == pytest.approx(100 * theirs[metric.name].fmeasure), output


def test_the_longest_common_subsequence_is_that_of_the_usual_table() -> None:
    for first, second in zip(map(words_of, texts(30, 4)), map(words_of, texts(30, 5))):
        table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
        for i, ours in enumerate(first):
            for j, theirs in enumerate(second):
                table[i + 1][j + 1] = table[i][j] + 1 if ours == theirs else max(table[i][j + 1], table[i + 1][j])
        assert common(first, second) == table[-1][-1]


def test_text_without_words_scores_zero_and_the_settings_are_named() -> None:
    assert TEXT.score(["", "ωω"], [["a b"], ["ωω"]])["rougeL"] == 0
    assert "stemmer:no" in TEXT.signatures()["rouge1"]


def test_nothing_is_right_where_nothing_is_wanted() -> None:
    table = table_of("text")
    assert table.score(["", "a"], [[""], ["a"]])["rouge1"] == 100
    assert table.score(["b", ""], [[""], ["a"]])["rouge1"] == 0
