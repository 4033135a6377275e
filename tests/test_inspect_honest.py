"""What an inspection must not claim, and that no command ends with an empty page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from commands import Weft, refused
from conftest import SMALL
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.look.inspect import bottleneck, units
from weft.look.inspect.encodings import handed_over
from weft.look.inspect.pieces import in_pieces
from weft.look.inspect.probes import Split
from weft.look.inspect.subject import Subject

if TYPE_CHECKING:
    from weft.api import Run

PHONES = [("ab", "aː b"), ("ba", "b aː"), ("abc", "aː b t͡s"), ("cab", "t͡s aː b")] * 10
STORY = "He came in at last and sat down. No, she said.\n" * 30


def written(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def phones_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    import weft

    path = written(tmp_path_factory.mktemp("phones") / "pairs.tsv", PHONES)
    settings = {**SMALL, "target.tokens": "words"}
    return weft.train(path, out=path.with_name("run"), steps=4, settings=settings)


@pytest.fixture(scope="module")
def label_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    import weft

    rows = [("good film", "yes"), ("bad film", "no"), ("a good one", "yes"), ("a bad one", "no")] * 10
    path = written(tmp_path_factory.mktemp("labels") / "pairs.tsv", rows)
    settings = {name: value for name, value in SMALL.items() if not name.startswith(("decoder", "search"))}
    return weft.train(path, out=path.with_name("run"), steps=4, task="classify", settings=settings)


@pytest.fixture(scope="module")
def language_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    import weft

    path = tmp_path_factory.mktemp("story") / "story.txt"
    path.write_text(STORY, encoding="utf-8")
    return weft.train(path, task="language-model", out=path.with_name("run"), steps=4, settings=SMALL)


def shown(run: Run, *inputs: str, **options: Any) -> dict[str, Any]:
    return run.inspect(inputs, **options).numbers


# --- numbers and claims


def test_one_line_has_no_intervals_and_no_needed_heads(tiny_run: Run, tiny_pairs: Path) -> None:
    few = shown(tiny_run, "abcd", "efgh", views="heads")["summary"]["heads"]["ablation"]
    assert "from" not in few["columns"]
    assert "warn" not in few
    assert "too few" in few["note"]
    many = tiny_run.inspect(table=tiny_pairs, views="heads").numbers["summary"]["heads"]["ablation"]
    assert "from" in many["columns"]


def test_symbols_that_the_model_cannot_write_are_unseen_although_their_letters_are_known(phones_run: Run) -> None:
    assert Subject(phones_run.predictor).cannot_write("aː bː t͡s") == ["bː"]
    table = [Pair("ab", "aː bː"), Pair("ba", "b aː")]
    kinds = phones_run.inspect(table=table, views="errors").numbers["summary"]["errors"]["by_kind"]["rows"]
    assert {row[0]: row[1] for row in kinds}["unseen character"] == 1
    notes = shown(phones_run, "ab", force="aː 漢", views="attention")["notes"]
    assert any("cannot write 漢" in note for note in notes)
    assert not any("cannot write" in note for note in shown(phones_run, "ab", force="aː b")["notes"])


def test_a_label_has_the_same_log_probability_whether_it_is_predicted_or_given(label_run: Run) -> None:
    predicted = shown(label_run, "a good film")["lines"][0]
    given = shown(label_run, "a good film", force=predicted["output"])["lines"][0]
    assert given["log_prob"] == pytest.approx(predicted["log_prob"], rel=1e-4)
    other = shown(label_run, "a good film", force={"yes": "no", "no": "yes"}[predicted["output"]])["lines"][0]
    assert np.exp(other["log_prob"]) + np.exp(given["log_prob"]) == pytest.approx(1, abs=1e-3)


def test_the_state_of_a_text_is_that_after_its_last_symbol(language_run: Run) -> None:
    subject = Subject(language_run.predictor)
    pair = Pair("He came", "He came")
    states = units.read(subject, subject.model, [pair], "decode").states
    (state,) = handed_over(subject, subject.model, [pair])
    last = np.concatenate([values[-1] for values in states.values()])
    assert sorted(state.tolist()) == pytest.approx(sorted(last.tolist()), abs=1e-5)


def test_probes_below_the_most_frequent_answer_are_marked() -> None:
    draw = np.random.default_rng(1)
    labels = (draw.random(400) < 0.1).astype(np.int64)
    states, split = draw.normal(size=(400, 60)), Split.of_groups(np.arange(400))
    table = bottleneck._table([bottleneck.Question("noise", labels)], states, states, split, "")
    assert 0 in table.warn
    assert "Marked" in table.note


def test_a_short_table_is_measured_on_the_training_text(tiny_run: Run) -> None:
    table = [Pair("abcd", "dcba"), Pair("efgh", "hgfe")]
    seen = tiny_run.inspect(table=table, views=["bottleneck", "cells"]).numbers["summary"]
    assert "training data (what is given has only 2 lines)" in seen["bottleneck"]["probes"]["note"]
    assert "training text" in seen["cells"]["encode.ranking"]["note"]


# --- nothing empty, nothing silent


def test_a_language_model_and_a_classifier_show_something_without_being_asked(
    language_run: Run, label_run: Run
) -> None:
    seen = shown(language_run, "He came in")
    assert seen["run"]["search"] == ""
    views = seen["lines"][0]["views"]
    bits = views["surprise"]["text"]["panels"][0]["values"]
    scores = language_run.predictor.step_scores([Pair("He came in", "He came in")])[0]
    assert bits == pytest.approx([-score / np.log(2) for score in scores], abs=1e-3)
    assert shown(label_run, "a good film")["lines"][0]["views"]
    assert shown(label_run, " ".join(["good"] * 90))  # too long for what is shown otherwise
    assert "surprise" not in shown(language_run, "He came", views="gradients")["lines"][0]["views"]


def test_what_does_not_apply_is_refused(weft: Weft, language_run: Run, label_run: Run, tiny_run: Run) -> None:
    refused(weft("inspect", language_run.path, "He came", "--what-if", "input:3="), "--what-if", "language model")
    refused(weft("inspect", label_run.path, "a film", "--what-if", "input:1="), "--what-if")
    refused(weft("inspect", tiny_run.path, "abcd", "--force", ""), "empty", "--force")
    refused(weft("inspect", label_run.path, "a film", "--force", "maybe"), "no label", "choose from")
    refused(weft("inspect", tiny_run.path, "abcd", "ab" * 1000), "input 2")
    refused(weft("inspect", tiny_run.path, "abcd", "--view", "cells", "--unit", "decode.1.h.99"), "encode.1.forward.h")


def test_texts_are_cut_between_words() -> None:
    pieces = in_pieces(STORY, 100)
    assert "".join(pieces) == STORY
    assert all(len(piece) <= 100 and piece[-1].isspace() for piece in pieces)
    assert in_pieces("x" * 250, 100) == ["x" * 100, "x" * 100, "x" * 50]


# --- what is drawn


def test_a_figure_has_no_tables_beside_its_curves_and_one_kind_of_map() -> None:
    from weft.look.inspect.pictures import figures

    kinds = ["heat", "heat", "table", "curves", "facts"]
    assert [plot["plot"] for plot in figures([{"plot": kind} for kind in kinds])] == ["heat", "curves"]
    assert [plot["plot"] for plot in figures([{"plot": "table"}, {"plot": "facts"}])] == ["table", "facts"]


def test_what_is_the_same_is_tracked_once() -> None:
    from weft.look.inspect.tracked import Tracked, _different

    line, word = (Tracked(name, np.arange(4.0)) for name in ("place in the line", "place in the word"))
    every = [line, word, Tracked("other", np.ones(4))]
    assert [each.name for each in _different(every)] == ["place in the line", "other"]


def test_the_search_says_how_many_of_its_hypotheses_are_listed(tiny_run: Run) -> None:
    plots = shown(tiny_run, "abcdef", views="beam")["lines"][0]["views"]["beam"]
    ended = sum(node["fate"] == "ended" for node in plots["tree"]["nodes"])
    listed = len(plots["finished"]["rows"])
    assert (f"The best {listed} of {ended} that ended" in plots["finished"]["note"]) is (ended > listed)


def test_numbers_have_no_log_probability(monkeypatch: pytest.MonkeyPatch, tiny_run: Run) -> None:
    monkeypatch.setattr(Subject, "has_probabilities", False)
    (line,) = shown(tiny_run, "abcd")["lines"]
    assert "log_prob" not in line
    assert "score" not in line


def test_a_line_that_is_too_long_for_a_view_does_not_take_it_from_the_others(tiny_run: Run) -> None:
    for inputs in (["abcd", "a" * 70], ["a" * 70, "abcd"]):
        numbers = tiny_run.inspect(inputs, views=["field"]).numbers
        assert ["field" in line["views"] for line in numbers["lines"]] == [len(text) < 60 for text in inputs]
        assert any(note.startswith("1 line of 2 without field") for note in numbers["notes"])
    with pytest.raises(UserError, match=r"the input has [0-9]+ symbols, and this is computed for at most 60"):
        tiny_run.inspect(["a" * 70], views=["field"])
