"""Lines that are equal are searched for once, wherever outputs are looked for, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from conftest import made_up_pairs
from weft.api import Run
from weft.core.pair import Pair
from weft.learn import validate
from weft.learn.validate import Validator
from weft.predict import predictor as serving
from weft.search.decode import SearchPlan, deduplicate

WORDS = [source for source, _ in made_up_pairs(6, seed=9)]
AGAIN = [WORDS[i] for i in (0, 1, 0, 2, 3, 1, 0, 4, 5, 5)]
CPU = torch.device("cpu")


def test_equal_ones_share_a_search_unless_each_draws_its_own() -> None:
    assert deduplicate("abacb", SearchPlan("beam")) == [[0, 2], [1, 4], [3]]
    assert deduplicate("abacb", SearchPlan("sample")) == [[0], [1], [2], [3], [4]]


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sources each search had."""
    counts: list[int] = []
    for module in (serving, validate):
        real = module.decode

        def counting(model: Any, sources: Any, *more: Any, _real: Any = real, **named: Any) -> Any:
            counts.append(len(sources))
            return _real(model, sources, *more, **named)

        monkeypatch.setattr(module, "decode", counting)
    return counts


def test_a_line_that_comes_again_has_the_same_output(tiny_run: Run, searched: list[int]) -> None:
    alone = {word: tiny_run.predict([word])[0] for word in WORDS}
    searched.clear()
    for word, again in zip(AGAIN, tiny_run.predict(AGAIN)):
        assert (again.source, again.text) == (word, alone[word].text)
        assert again.score == pytest.approx(alone[word].score, abs=1e-5)
    assert searched == [6]


def test_features_and_tags_make_another_line(tiny_run: Run, searched: list[int]) -> None:
    word = WORDS[0]
    tiny_run.predictor.predict([Pair(word), Pair(word, tag="a"), Pair(word, features=("a",)), Pair(word)])
    assert searched == [3]
    listed: Any = ["a"]
    tiny_run.predictor.predict([Pair(word, features=listed)])


def test_each_line_is_drawn_for_itself(tiny_run: Run, searched: list[int]) -> None:
    said = tiny_run.predict([WORDS[0]] * 30, search={"kind": "sample", "seed": 1})
    assert searched == [30]
    assert len({p.text for p in said}) > 1


def test_validation_searches_once_and_counts_all(tiny_run: Run, searched: list[int]) -> None:
    predictor = tiny_run.predictor
    pairs = [Pair(word, word[::-1]) for word in AGAIN]
    made = Validator.of(pairs, predictor.sides, 512)
    ticks: list[int] = []
    found = made.evaluate(predictor.model, predictor.plan(), CPU, ticks.append)
    assert searched == [6]
    assert found.outputs == [p.text for p in tiny_run.predict(AGAIN)]
    assert (sum(ticks), found.n) == (10, 10)


def test_what_may_be_longer_is_searched_for_by_itself(tiny_run: Run, searched: list[int]) -> None:
    """While it learns, outputs end soon after their targets would."""
    predictor = tiny_run.predictor
    pairs = [Pair(WORDS[0], "ab"), Pair(WORDS[0], "abcdefgh"), Pair(WORDS[0], "ab")]
    Validator.of(pairs, predictor.sides, 512).evaluate(predictor.model, predictor.plan(), CPU, cut=True)
    assert searched == [2]
