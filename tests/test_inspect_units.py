"""Units, neighbours, probes and storage: their numbers by hand, by brute force, and on runs of every family."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from commands import Weft, refused
from conftest import SMALL, made_up_pairs
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.core.trace import trace
from weft.look.inspect import bottleneck, cells, neighbours, probes, storage, tracked, units
from weft.look.inspect.encodings import handed_over
from weft.look.inspect.subject import Subject
from weft.nn.model import Seq2Seq

if TYPE_CHECKING:
    from weft.api import Run

STORY = 'He said "come in" (at last) and\n  sat down. "No," she said.\n\n' * 24
PAIRS = [Pair(*pair) for pair in made_up_pairs(40, seed=5)]
FAMILIES: dict[str, dict[str, Any]] = {
    "attention": {},
    "plain": {"decoder.attention.score": "none"},
    "transformer": {
        f"{part}.{name}": value
        for part in ("encoder", "decoder")
        for name, value in {"kind": "transformer", "layers": 2, "heads": 2}.items()
    },
}


@pytest.fixture(scope="module")
def runs(tiny_pairs: Path, tiny_run: Run) -> dict[str, Run]:
    import weft

    made = {
        name: weft.train(tiny_pairs, out=tiny_pairs.with_name(f"{name}-of-units"), steps=4, settings=SMALL | more)
        for name, more in FAMILIES.items()
        if more
    }
    return {"attention": tiny_run, **made}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("story") / "story.txt"
    path.write_text(STORY, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def language_runs(story: Path) -> dict[str, Run]:
    import weft

    kinds = {"recurrent": {}, "transformer": {"decoder.kind": "transformer", "decoder.heads": 2, "train.window": 32}}
    return {
        name: weft.train(story, task="language-model", out=story.with_name(name), steps=4, settings=SMALL | more)
        for name, more in kinds.items()
    }


# --- what is tracked


def test_what_is_tracked_by_hand() -> None:
    assert tracked.inside_quotes('a "bc" d').tolist() == [0, 0, 1, 1, 1, 0, 0, 0]
    assert tracked.inside_quotes('"a\n\nb').tolist() == [1, 1, 1, 0, 0]  # an empty line ends what was not closed
    assert tracked.inside_quotes("«a» b").tolist() == [1, 1, 0, 0, 0]
    assert tracked.bracket_depth("a(b[c])").tolist() == [0, 1, 1, 2, 2, 1, 0]
    assert tracked.bracket_depth(")(a").tolist() == [0, 1, 1]
    assert tracked.indentation("\tx\n  y z\n *").tolist() == [8, 8, 0, 0, 2, 2, 2, 2, 0, 0, 0]
    assert tracked.in_comment("a//b\n/*c*/d").tolist() == [0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0]
    assert tracked.place_in_line("ab\nc").tolist() == [1, 2, 0, 1]
    assert tracked.place_in_word("ab c").tolist() == [1, 2, 0, 1]


def test_running_text_goes_on_from_piece_to_piece(language_runs: dict[str, Run]) -> None:
    subject = Subject(language_runs["recurrent"].predictor)
    pieces = [Pair(STORY[i : i + 50], STORY[i : i + 50]) for i in range(0, 300, 50)]
    reading = units.read(subject, subject.model, pieces, "decode")
    assert "".join(reading.tokens) == STORY[:300]
    found = {each.name: each.values for each in tracked.tracked_in(reading, running=True)}
    assert found["inside quotes"].tolist() == tracked.inside_quotes(STORY[:300]).tolist()
    assert found["place in the line"].tolist() == tracked.place_in_line(STORY[:300]).tolist()


# --- states of units


def test_nothing_is_tracked_where_nothing_was_read() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    reading = units.Reading("decode", [], [""], nothing, nothing, {"1": np.zeros((0, 4), dtype=np.float32)})
    assert tracked.tracked_in(reading, running=False) == []


def test_units_of_a_running_text_are_those_of_one_pass(language_runs: dict[str, Run]) -> None:
    subject = Subject(language_runs["recurrent"].predictor)
    pieces = [Pair(STORY[:70], STORY[:70]), Pair(STORY[70:120], STORY[70:120])]
    reading = units.read(subject, subject.model, pieces, "decode")
    with torch.no_grad(), trace() as seen:
        subject.model(subject.batch([Pair(STORY[:121], STORY[:121])]))  # reads START and the first 120 symbols
    for state in "hc":
        by_hand = torch.stack(seen[f"decode.0.{state}"], 1)[0, 1:]
        assert reading.states[f"decode.1.{state}"] == pytest.approx(by_hand.numpy(), abs=1e-5)


@pytest.mark.parametrize("name", list(FAMILIES))
@pytest.mark.parametrize("part", ["encode", "decode"])
def test_units_of_many_lines_are_those_of_each_line(name: str, part: str, runs: dict[str, Run]) -> None:
    subject = Subject(runs[name].predictor)
    together = units.read(subject, subject.model, PAIRS[:7], part)
    for number, pair in enumerate(PAIRS[:7]):
        alone = units.read(subject, subject.model, [pair], part)
        assert together.matrix[together.line == number] == pytest.approx(alone.matrix, abs=1e-5)
        text = pair.source if part == "encode" else pair.target
        assert alone.tokens == [*text, "<end>"] if part == "encode" else [*text]
    top = list(together.states)[-1]
    assert together.unit(f"{top}.1") == pytest.approx(together.states[top][:, 0])


def test_backward_states_stand_at_the_symbol_they_have_read(tiny_run: Run) -> None:
    subject = Subject(tiny_run.predictor)
    assert any("backward" in name for name in units.read(subject, subject.model, PAIRS[:1], "encode").states)
    one, other = (units.read(subject, subject.model, [Pair(text, "x")], "encode").states for text in ("abcd", "bbcd"))
    for name, values in one.items():
        same = np.isclose(values, other[name], atol=1e-6).all(1)
        if name.startswith("encode.1."):
            assert same.tolist() == ([False, *[True] * 4] if "backward" in name else [False] * 5)


# --- cells


def made_reading(truth: np.ndarray, draw: np.random.Generator) -> units.Reading:
    """A reading in which unit 3 tells the truth upside down, with noise, and the others are noise."""
    states = draw.normal(size=(len(truth), 8))
    states[:, 2] = -truth + 0.3 * draw.normal(size=len(truth))
    count = len(truth)
    return units.Reading(
        "decode", ["x"] * count, ["x" * count], None, np.zeros(count, dtype=int), {"decode.1.h": states}
    )


def test_the_best_unit_is_found_and_judged_on_text_that_did_not_choose_it() -> None:
    draw = np.random.default_rng(1)
    truth = (draw.random(2000) < 0.3).astype(float)
    reading, split = made_reading(truth, draw), probes.Split.stretches(2000)
    assert not set(split.train) & set(split.test)
    best = cells.best_units(reading, [tracked.Tracked("it", truth, True)], split)["it"]
    assert (best.unit, best.rises) == ("decode.1.h.3", False)
    values, there = -reading.states["decode.1.h"][split.test, 2], truth[split.test] > 0
    by_hand = np.mean([(a > b) + (a == b) / 2 for a in values[there] for b in values[~there]])
    assert best.other == pytest.approx(by_hand)
    assert best.probe > 0.95
    # a unit that is only good where it is chosen is judged by the other half
    noise = made_reading(draw.permutation(truth), draw)
    fooled = cells.best_units(noise, [tracked.Tracked("it", truth, True)], split)["it"]
    assert fooled.chosen > fooled.other
    assert abs(fooled.other - 0.5) < 0.1


def test_correlations_are_signed_like_the_text_that_chose_them() -> None:
    draw = np.random.default_rng(2)
    truth = draw.normal(size=1000)
    reading, split = made_reading(truth, draw), probes.Split.stretches(1000)
    best = cells.best_units(reading, [tracked.Tracked("it", truth)], split)["it"]
    expected = -np.corrcoef(reading.states["decode.1.h"][split.test, 2], truth[split.test])[0, 1]
    assert best.other == pytest.approx(expected)


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
def test_cells_of_language_models(name: str, language_runs: dict[str, Run], story: Path) -> None:
    view = language_runs[name].inspect(table=story, views="cells").numbers["summary"]["cells"]
    rows = {row[0]: row for row in view["decode.ranking"]["rows"]}
    assert {"inside quotes", "indented line", "bracket depth", "place in the line"} <= set(rows)
    assert rows["inside quotes"][2] == "AUC"
    assert len(view["decode.text"]["tokens"]) == 600
    assert ("decode.gates" in view) is (name == "recurrent")


def test_cells_of_every_family_and_units_that_are_asked_for(runs: dict[str, Run], tiny_pairs: Path) -> None:
    for run in runs.values():
        view = run.inspect(table=tiny_pairs, views="cells").numbers["summary"]["cells"]
        assert {"encode.ranking", "encode.text", "decode.ranking", "decode.text"} <= set(view)
    asked = runs["attention"].inspect("abcd", views="cells", units=["decode.1.c.3"]).numbers["summary"]["cells"]
    assert [panel["name"] for panel in asked["decode.text"]["panels"]] == ["decode.1.c.3"]
    assert "training text" in asked["decode.ranking"]["note"]  # a short line is ranked by what the run has learned from


def test_labels_of_the_user_are_looked_for(language_runs: dict[str, Run], story: Path) -> None:
    labels = tracked.inside_quotes(STORY).tolist()
    view = language_runs["recurrent"].inspect(table=story, views="cells", labels=labels).numbers["summary"]["cells"]
    rows = {row[0]: row[1:] for row in view["decode.ranking"]["rows"]}
    assert rows["your labels"] == rows["inside quotes"]


def test_bad_units_and_labels_are_told(weft: Weft, language_runs: dict[str, Run], story: Path, tmp_path: Path) -> None:
    run = language_runs["recurrent"].path
    words, few = tmp_path / "words.txt", tmp_path / "few.txt"
    words.write_text("yes no\n")
    few.write_text("0 1 0\n")
    refused(weft("inspect", run, "--table", story, "--view", "cells", "--unit", "17"), "not the name of a unit")
    refused(weft("inspect", run, "--table", story, "--view", "cells", "--unit", "decode.1.h.99"), "no unit")
    refused(weft("inspect", run, "--table", story, "--view", "cells", "--labels", words), "numbers only")
    refused(weft("inspect", run, "--table", story, "--view", "cells", "--labels", "nowhere"), "cannot be read")
    refused(weft("inspect", run, "--table", story, "--view", "cells", "--labels", few), "3 labels")


# --- neighbours


def test_the_search_for_neighbours_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "BLOCK", 7)
    draw = np.random.default_rng(3)
    queries, rows = draw.normal(size=(4, 5)), draw.normal(size=(40, 5))
    best, cosines = neighbours.nearest(queries, rows, 6)
    for query, found, near in zip(queries, best, cosines, strict=True):
        every = [float(query @ row / np.linalg.norm(query) / np.linalg.norm(row)) for row in rows]
        order = sorted(range(40), key=lambda i: -every[i])[:6]
        assert found.tolist() == order
        assert near == pytest.approx([every[i] for i in order])


@pytest.mark.parametrize("name", list(FAMILIES))
def test_a_training_line_is_its_own_nearest_neighbour(name: str, runs: dict[str, Run]) -> None:
    source, _ = made_up_pairs()[3]
    view = runs[name].inspect(source, views="neighbours").numbers["summary"]["neighbours"]
    first = view["line 1"]["rows"][0]
    assert first[1:3] == [pytest.approx(1, abs=1e-4), source]
    assert first[4] == "same input"


def test_patterns_are_on_where_all_of_their_units_are(language_runs: dict[str, Run]) -> None:
    run = language_runs["recurrent"]
    view = run.inspect('He said "come', views="neighbours", units=["decode.1.h.2", "decode.1.c.5"]).numbers["summary"]
    subject = Subject(run.predictor)
    reading = units.read(subject, subject.model, run.training_lines(), "decode")
    here = units.read(subject, subject.model, [Pair("", 'He said "come')], "decode").matrix[-1]
    pattern = neighbours.pattern_at(reading, here, ["decode.1.h.2", "decode.1.c.5"])
    each = [(reading.unit(n) - reading.unit(n).mean()) / reading.unit(n).std() for n in pattern.units]
    by_hand = np.minimum(*(sign * z for sign, z in zip(pattern.signs, each, strict=True)))
    assert pattern.strength(reading) == pytest.approx(by_hand, abs=1e-4)
    rows = view["neighbours"]["pattern"]["rows"]
    assert all(row[1] >= neighbours.ON for row in rows)
    assert rows[0][1] == pytest.approx(by_hand.max(), rel=1e-3)


def test_neighbours_say_when_the_training_lines_are_gone(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(runs["plain"]), "training_lines", lambda *_: [])
    with pytest.raises(UserError, match="not where they were"):
        runs["plain"].inspect("abcd", views="neighbours")


# --- bottleneck


def test_probes_find_what_is_there_and_not_what_is_not() -> None:
    draw = np.random.default_rng(4)
    labels, split = draw.integers(0, 3, 800), probes.Split.of_groups(np.arange(800))
    states = draw.normal(size=(800, 12))
    states[np.arange(800), labels] += 4
    seen, nothing = (probes.accuracy(x, labels, split) for x in (states, draw.normal(size=(800, 12))))
    assert seen.right > 0.9
    assert seen.selectivity == pytest.approx(seen.right - seen.control)
    assert seen.selectivity > 0.4
    assert abs(nothing.selectivity) < 0.12
    # exclusive or: an MLP reads it, a line cannot
    bits = draw.integers(0, 2, (800, 2))
    both = bits + 0.05 * draw.normal(size=(800, 2))
    one = probes.accuracy(both, bits[:, 0] ^ bits[:, 1], split, "mlp").right
    assert one > 0.95 > probes.accuracy(both, bits[:, 0] ^ bits[:, 1], split, "linear").right


def test_no_line_that_trains_a_probe_judges_it() -> None:
    split = probes.Split.of_groups(np.repeat(np.arange(10), 3))
    assert not set(split.train) & set(split.test)
    assert {i // 3 for i in split.train} & {i // 3 for i in split.test} == set()
    draw = np.random.default_rng(5)
    states, labels = draw.normal(size=(30, 4)), draw.integers(0, 2, 30)
    moved = labels.copy()
    moved[split.test] = 1 - moved[split.test]
    first, second = (probes.outputs(states, each, split, "linear", 2) for each in (labels, moved))
    assert np.array_equal(first, second)  # labels of the lines that judge are never seen


def test_a_running_text_judges_and_trains_in_turn() -> None:
    short, long = probes.Split.stretches(11), probes.Split.stretches(12_000)
    assert (short.test.tolist(), short.train.tolist()) == ([0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10])
    assert (len(long.test), long.test[4_999], long.test[5_000]) == (7_000, 4_999, 10_000)
    assert long.train.tolist() == list(range(5_000, 10_000))


def test_questions_by_hand() -> None:
    rows, pairs = [[10, 11], [11, 10, 10], [12]] * 50, [Pair("x", tag=tag) for tag in "ab"] * 75
    asked = {each.name: each.labels for each in bottleneck.questions(rows, pairs, 10)}
    assert asked["length"][:3].tolist() == [1, 2, 0]
    assert asked["prompt"][:2].tolist() == [0, 1]
    assert asked["bag of symbols"][:3].sum(1).tolist() == [2, 2, 1]
    assert [x for x in asked["order of two symbols"][:3, 0].tolist() if x == x] in ([1, 0], [0, 1])
    kth = bottleneck.kth_symbols(rows)
    assert len(kth) == 2
    assert len(set(kth[0].labels[:3].tolist())) == 3


@pytest.mark.parametrize("name", list(FAMILIES))
def test_the_handed_over_state_is_what_the_decoder_begins_with(name: str, runs: dict[str, Run]) -> None:
    subject = Subject(runs[name].predictor)
    model = subject.model
    assert isinstance(model, Seq2Seq)
    states = handed_over(subject, model, PAIRS[:5])
    for pair, state in zip(PAIRS[:5], states, strict=True):
        with torch.no_grad():
            memory = model.read(subject.batch([pair]).source)
        by_hand = (
            memory.states[0].mean(0) if name == "transformer" else torch.cat([*memory.final, *memory.cells], -1)[0]
        )
        assert state == pytest.approx(by_hand.numpy(), abs=1e-5)


@pytest.mark.parametrize("name", ["plain", "transformer"])
def test_the_view_of_the_bottleneck_prints_selectivity(name: str, runs: dict[str, Run], tiny_pairs: Path) -> None:
    view = runs[name].inspect(table=tiny_pairs, views="bottleneck").numbers["summary"]["bottleneck"]
    assert {"probes", "from_start", "from_end", "width"} == set(view)
    for row in view["probes"]["rows"]:
        assert row[4] == pytest.approx(row[2] - row[3], abs=0.01)
    assert [series["name"] for series in view["from_start"]["series"]][1] == "control task"


# --- storage


@pytest.mark.parametrize("name", list(FAMILIES))
def test_effects_are_those_of_a_model_with_that_part_reset(name: str, runs: dict[str, Run]) -> None:
    subject = Subject(runs[name].predictor)
    measured = storage.Measured(subject, PAIRS[:12])
    every = {(each.part, each.change): each for each in storage.treatments(subject, PAIRS[0])}
    assert ("encoder weights", "reset") in every
    assert ("attended states", "of another line") in every or name == "plain"
    assert ("handed-over state", "zeros") in every or name == "transformer"
    reset = every["decoder weights", "reset"]
    by_hand = subject.untrained()
    weights = dict(subject.model.state_dict())
    weights |= {
        key: value
        for key, value in by_hand.state_dict().items()
        if key.startswith("decoder.") and not {"attention", "cross"} & set(key.split("."))
    }
    by_hand.load_state_dict(weights)
    losses = [subject.with_model(model).teacher_forced(PAIRS[:12])["loss"] for model in (by_hand, subject.model)]
    effect = measured.effect(reset)
    assert effect.loss[0] == pytest.approx(losses[0] - losses[1], abs=1e-4)
    assert effect.loss[1] <= effect.loss[0] <= effect.loss[2]


def test_a_change_that_changes_nothing_has_no_effect(runs: dict[str, Run]) -> None:
    subject = Subject(runs["plain"].predictor)
    nothing = storage.Treatment("nothing", "none", subject.model)
    effect = storage.Measured(subject, PAIRS[:5]).effect(nothing)
    assert effect.loss == (0, 0, 0)
    assert effect.changed == 0


def test_a_state_of_zeros_makes_all_inputs_alike_where_nothing_else_is_handed_over(runs: dict[str, Run]) -> None:
    subject = Subject(runs["plain"].predictor)
    zeros = next(each for each in storage.treatments(subject, PAIRS[0]) if each.change == "zeros")
    outputs = storage.Measured(subject, [replace(pair, target="abcd") for pair in PAIRS[:9]])._losses(zeros.model, {})[
        0
    ]
    assert outputs == pytest.approx([outputs[0]] * 9, abs=1e-4)


def test_even_attention_sums_to_one_over_what_may_be_seen() -> None:
    weights = torch.tensor([[0.9, 0.1, 0.0], [1.0, 0.0, 0.0]])
    assert storage.even(weights).tolist() == [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
def test_storage_and_every_other_view_of_language_models(name: str, language_runs: dict[str, Run], story: Path) -> None:
    seen = language_runs[name].inspect(table=story, views="all").numbers
    assert {"storage", "cells", "neighbours"} <= set(seen["summary"])
    assert all(reason for reason in seen["left_out"].values())
    parts = [row[0] for row in seen["summary"]["storage"]["effects"]["rows"]]
    assert "decoder weights" in parts
    assert ("self-attention of the decoder" in parts) is (name == "transformer")
    line = language_runs[name].inspect('He said "come in"', views="all").numbers["lines"][0]["views"]
    assert {"gradients", "field"} <= set(line)
    assert ("attention" in line) is (name == "transformer")


def test_the_bits_of_symbols_add_up_to_the_evaluated_score(language_runs: dict[str, Run], story: Path) -> None:
    for run in language_runs.values():
        view = run.inspect(table=story, views="errors").numbers["summary"]["errors"]
        *rows, whole = view["by_symbol"]["rows"]
        assert sum(row[2] for row in rows) == pytest.approx(whole[2], rel=1e-3)
        assert whole[2] / len(STORY) == pytest.approx(run.evaluate(story)["bits_per_character"], rel=1e-3)
        worst = [row[2] for row in view["lines"]["rows"]]
        assert worst == sorted(worst, reverse=True)


# --- pictures


@pytest.mark.usefixtures("rendered")
@pytest.mark.parametrize(("form", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_a_view_becomes_a_picture(form: str, begins: bytes, runs: dict[str, Run]) -> None:
    report = runs["transformer"].inspect("ab$cd", views="attention")
    assert report.picture(form).startswith(begins)
    if form == "svg":
        assert report.picture(form) == report.picture(form)


@pytest.mark.usefixtures("rendered")
def test_every_kind_of_plot_is_drawn(runs: dict[str, Run]) -> None:
    from weft.look.inspect.pictures import DRAWN

    report = runs["attention"].inspect(["abcd"], views=["beam", "gradients", "what-if", "cells"])
    kinds = set()
    for view in ("beam", "gradients", "what-if", "cells"):
        assert len(report.picture("png", view)) > 5_000
        plots = report.numbers["summary"].get(view) or report.numbers["lines"][0]["views"][view]
        kinds |= {plot["plot"] for plot in plots.values()}
    assert kinds | {"heat", "facts"} == set(DRAWN)


def test_a_picture_of_several_views_or_of_no_format_is_refused(weft: Weft, runs: dict[str, Run]) -> None:
    run = runs["attention"].path
    refused(weft("inspect", run, "abcd", "--format", "svg"), "one view")
    refused(weft("inspect", run, "abcd", "--format", "svg", "--view", "beam,attention"), "one view")
    refused(weft("inspect", run, "abcd", "--format", "gif", "--view", "beam"), "no format 'gif'")
