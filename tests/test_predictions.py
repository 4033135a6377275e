"""Predictions from Python and from the command line come by one path: in chunks, in order, with their notes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

import weft as package
from commands import Weft
from weft.api import Run
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.predict.predictions import SHOWN_LINES, Output, Prediction, Predictions

WORDS = ["abcd", "", "hgf", "abcd", "dcba"]


def some(source: str, *texts: str) -> Prediction:
    return Prediction(source, tuple(Output(text, -0.5, -1.0, (), ()) for text in texts))


def test_chunks_of_any_size_give_the_same_predictions(tiny_run: Run) -> None:
    whole = tiny_run.predict(WORDS)
    for size in (1, 2, 100):
        chunks = list(tiny_run.predictions([Pair(word) for word in WORDS], chunk=size))
        assert [len(chunk) for chunk in chunks] == [min(size, 5 - first) for first in range(0, 5, size)]
        assert [prediction.text for chunk in chunks for prediction in chunk] == whole.texts


def test_samples_do_not_depend_on_the_chunks(tiny_run: Run) -> None:
    search = {"kind": "sample", "seed": 5}
    whole = tiny_run.predict(["abcd"] * 6, search=search)
    chunks = tiny_run.predictions([Pair("abcd")] * 6, search=search, chunk=2)
    assert [prediction.text for chunk in chunks for prediction in chunk] == whole.texts
    assert len(set(whole.texts)) > 1


def test_wrong_settings_are_refused_before_an_input_is_read(tiny_run: Run) -> None:
    def inputs() -> Iterator[Pair]:
        raise AssertionError("nothing is read")
        yield Pair("abc")

    with pytest.raises(UserError, match="at least one output"):
        tiny_run.predictions(inputs(), nbest=0)


def test_inputs_before_one_that_cannot_be_read_are_predicted(tiny_run: Run) -> None:
    def inputs() -> Iterator[Pair]:
        yield from (Pair("abcd"), Pair("dcba"))
        raise UserError("this line is broken", "line 3")

    chunks = tiny_run.predictions(inputs(), chunk=100)
    assert next(chunks).texts == tiny_run.predict(["abcd", "dcba"]).texts
    with pytest.raises(UserError, match="this line is broken"):
        next(chunks)


def test_no_lines_give_no_predictions(tiny_run: Run) -> None:
    assert tiny_run.predict([]) == []
    assert list(tiny_run.predictions([])) == []


def test_tags_that_training_never_saw_are_told_in_python_too(tmp_path: object) -> None:
    rows = [Pair("ab" * n, "ba" * n, tag="fr") for n in range(1, 9)]
    run = package.train(rows, out=f"{tmp_path}/run", steps=1, settings={"train.members": 1})
    with pytest.warns(UserWarning, match="1 tag or feature did not occur in training: <it>"):
        run.predict([Pair("ab", tag="it"), Pair("ab", tag="fr")])
    with pytest.warns(UserWarning, match="1 tag or feature did not occur in training: <it>"):
        run.evaluate([Pair("ab", "ba", tag="it")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.predict([Pair("ab", tag="fr")])


def test_predictions_are_a_list_that_a_notebook_shows_as_a_table() -> None:
    made = Predictions([some("<a>", "x & y", "z"), some("b", "")])
    assert made == [some("<a>", "x & y", "z"), some("b", "")]
    assert made.texts == ["x & y", ""]
    assert isinstance(made[:1], Predictions)
    assert made[1] == some("b", "")
    table = made._repr_html_()
    assert table.count("<tr>") == 4, "a head, two outputs of the first, one of the second"
    assert "&lt;a&gt;" in table
    assert "x &amp; y" in table
    assert table.count("-0.500") == 3


def test_a_table_of_very_many_predictions_says_how_many_it_leaves_out() -> None:
    table = Predictions([some("a", "b")] * (SHOWN_LINES + 1234))._repr_html_()
    assert table.count("<tr>") == SHOWN_LINES + 2
    assert "… and 1,234 more" in table


def test_a_single_prediction_shows_every_output() -> None:
    assert some("a", "b", "c")._repr_html_().count("<tr>") == 3


def test_python_and_the_command_line_say_the_same(weft: Weft, tiny_run: Run) -> None:
    lines = "".join(f"{word}\n" for word in WORDS)
    for flags, search in ((["--greedy"], {"kind": "greedy"}), (["--beam", "3"], {"kind": "beam", "width": 3})):
        assert weft("predict", tiny_run.path, *flags, stdin=lines).lines == tiny_run.predict(WORDS, search=search).texts
