"""Models that write from the end: the same symbols the other way round, and how both ways agree on an output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import weft as package
from commands import Weft, refused
from conftest import SMALL, made_up_pairs
from variants import layer
from weft.api import Run
from weft.core.kinds import Batch
from weft.core.pair import END, Pair
from weft.core.shapes import Symbols
from weft.data.text.tokens import from_json, learn
from weft.export.ctranslate2 import unknown_part
from weft.nn.assemble import assemble
from weft.predict import directions
from weft.predict.predictor import Predictor
from weft.runs.folder import RunFolder
from weft.runs.members import member_spec
from weft.runs.report import Quiet
from weft.settings import compose, implied_kind

TEXTS = ["abc  d", "naïve 日本", "", "a"]
WORDS = [source for source, _ in made_up_pairs(12, seed=9)]
BOTH = {**SMALL, "train.members": 3, "train.reversed_members": True}


# --- symbols


@pytest.mark.parametrize("kind", ["characters", "parts", "words", "bytes", "bpe", "unigram"])
def test_a_text_has_the_same_symbols_the_other_way_round_and_comes_back(kind: str) -> None:
    forward = learn(kind, 300, TEXTS * 5)
    backward = forward.written(True)
    assert backward.encode_all(TEXTS) == [ids[::-1] for ids in forward.encode_all(TEXTS)]
    assert [backward.decode(ids) for ids in backward.encode_all(TEXTS)] == TEXTS
    assert [forward.decode(ids) for ids in forward.encode_all(TEXTS)] == TEXTS, "the first is as it was"


def test_a_saved_tokeniser_knows_which_way_it_writes() -> None:
    made = learn("characters", 300, TEXTS).written(True)
    again = from_json(made.to_json(), "here")
    assert (again.backward, again.encode("ab")) == (True, made.encode("ab"))
    older = json.loads(made.to_json())
    del older["backward"]
    assert not from_json(json.dumps(older), "here").backward


# --- one model


@pytest.fixture(scope="module")
def backward_run(tiny_pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Words reversed are their sources when they are written from the end: that is learned in no time."""
    settings = {**SMALL, "decoder.reverse": True, "train.rate": 0.01, "train.batch_tokens": 128}
    out = tmp_path_factory.mktemp("backward") / "run"
    return package.train(tiny_pairs, out=out, steps=300, settings=settings, reporter=Quiet())


def test_a_model_that_writes_from_the_end_says_texts_from_their_start(backward_run: Run) -> None:
    pairs = [Pair(source, target) for source, target in made_up_pairs(40)]
    found = backward_run.evaluate(pairs)
    right = sum(a == b.target for a, b in zip(found.outputs, pairs))
    assert right > 15, found.outputs
    assert found["exact"] == pytest.approx(100 * right / len(pairs))
    assert found["loss"] < 1


def test_its_symbols_are_told_as_they_were_written(backward_run: Run) -> None:
    best = backward_run.predict(WORDS)[0].outputs[0]
    assert "".join(best.tokens[:-1]) == best.text[::-1]
    assert best.tokens[-1] == "<end>"


def test_it_takes_no_prefix(weft: Weft, backward_run: Run) -> None:
    done = weft("predict", backward_run.path, "-", "--prefix", "a", stdin="abc\n")
    refused(done, "this run writes from the end (decoder.reverse=true)", "--prefix", "decoder.reverse=false")


def test_ctranslate2_does_not_take_it() -> None:
    part = {"kind": "transformer", "width": 32, "heads": 2}
    asked: Any = {"encoder": part, "decoder": {**part, "reverse": True}, "embed": {"width": 32}}
    assert unknown_part(compose(("flag", asked)).spec) == ("decoder.reverse=true", "decoder.reverse=false")


def test_writing_reversed_asks_for_no_family() -> None:
    assert implied_kind("decoder", {"decoder": {"reverse": True}}) is None
    assert implied_kind("encoder", {"encoder": {"reverse": True}}) == "recurrent"


@pytest.mark.parametrize(("reverse", "likely"), [(False, 1), (True, 3)])
def test_attention_that_moves_begins_with_the_way_it_writes(reverse: bool, likely: int) -> None:
    spec = compose(("flag", layer(decoder__reverse=reverse, decoder__attention__location_aware=True))).spec
    moves = assemble(spec, Symbols(10), Symbols(10)).decoder.attention.moves
    assert moves is not None
    assert moves[0].argmax() == likely


def test_a_run_can_begin_with_the_weights_of_one_that_writes_the_other_way(
    backward_run: Run, tiny_pairs: Path, tmp_path: Path
) -> None:
    settings = {"decoder.reverse": False}
    made = package.train(
        tiny_pairs, out=tmp_path / "run", steps=2, settings=settings, init=backward_run.path, reporter=Quiet()
    )
    assert not made.predictor.target.backward
    goes_on = package.train(tiny_pairs, out=tmp_path / "same", steps=2, init=backward_run.path, reporter=Quiet())
    assert goes_on.predictor.target.backward


# --- several


@pytest.fixture(scope="module")
def both(tiny_pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("both") / "run"
    return package.train(tiny_pairs, out=out, steps=12, settings=BOTH, reporter=Quiet())


def test_every_second_model_writes_the_other_way(both: Run) -> None:
    predictor = both.predictor
    assert [p.target.backward for p in (predictor, *predictor.others)] == [False, True, False]
    assert [p.spec.backward for p in (predictor, *predictor.others)] == [False, True, False]
    assert not any(p.spec.train.reversed_members for p in predictor.others), "each is a run of its own"
    turned = compose(("flag", {"decoder": {"reverse": True}, "train": {"members": 2, "reversed_members": True}})).spec
    assert [member_spec(turned, number).backward for number in (1, 2)] == [True, False]


def test_the_model_that_writes_from_the_end_is_what_such_a_run_is(both: Run, tiny_pairs: Path, tmp_path: Path) -> None:
    alone = package.train(
        tiny_pairs, out=tmp_path / "alone", steps=12, settings={**SMALL, "decoder.reverse": True}, seed=1001,
        reporter=Quiet(),
    )  # fmt: skip
    member = Predictor.load(both.path / "members" / "2")
    pairs = [Pair(*row) for row in made_up_pairs(12, seed=9)]
    assert member.teacher_forced(pairs) == alone.predictor.teacher_forced(pairs)


def log_prob(members: list[Predictor], word: str, text: str) -> float:
    """By the mean of the models' probabilities, symbol by symbol, each model alone."""
    ids = members[0].target.encode(text)
    batches = [Batch.of(v.source.encode_sources([Pair(word)]), [ids]) for v in members]
    chances = [v.model(b).log_probs[0].detach().exp() for v, b in zip(members, batches)]
    mean = sum(chances[1:], chances[0]) / len(chances)
    return float(sum(mean[t, s].log() for t, s in enumerate([*ids, END])))


def only(members: list[Predictor]) -> Predictor:
    """Those alone."""
    first = members[0]
    made = Predictor(first.spec, first.sides, first.model, first.device)
    made.others = members[1:]
    return made


def ways(run: Run) -> tuple[list[Predictor], list[Predictor]]:
    members = [run.predictor, *run.predictor.others]
    return [v for v in members if not v.target.backward], [v for v in members if v.target.backward]


def test_outputs_are_ranked_by_the_mean_of_both_ways(both: Run) -> None:
    forward, backward = ways(both)
    for word, prediction in zip(WORDS, both.predict(WORDS, nbest=5)):
        assert len(prediction.outputs) == 5
        for output in prediction.outputs:
            ours, theirs = (log_prob(way, word, output.text) for way in (forward, backward))
            assert output.score == pytest.approx((ours + theirs) / 2 / (len(output.text) + 1), abs=1e-4)
            assert output.log_prob == pytest.approx(ours, abs=1e-3)
            assert "".join(output.tokens[:-1]) == output.text
        scores = [output.score for output in prediction.outputs]
        assert scores == sorted(scores, reverse=True)
        assert len({output.text for output in prediction.outputs}) == 5


def test_what_is_judged_is_what_those_from_the_start_find(both: Run) -> None:
    alone = only(ways(both)[0])
    for found, offered in zip(
        both.predict(WORDS, nbest=5), alone.predict([Pair(w) for w in WORDS], alone.plan(nbest=5))
    ):
        assert {o.text for o in found.outputs} == {o.text for o in offered.outputs}


def test_a_line_does_not_depend_on_its_batch(both: Run) -> None:
    pairs = [Pair(word) for word in WORDS]
    together = both.predictor.predict(pairs, batch_lines=12)
    for word, wanted in zip(pairs, together):
        alone = both.predictor.predict([word])[0]
        assert (alone.text, alone.score) == (wanted.text, pytest.approx(wanted.score, abs=1e-4))


@pytest.mark.parametrize("search", [{"kind": "greedy"}, {"kind": "sample", "seed": 3}])
def test_without_a_beam_those_speak_that_write_from_the_start(both: Run, search: dict[str, Any]) -> None:
    alone, pairs = only(ways(both)[0]), [Pair(word) for word in WORDS]
    assert both.predict(WORDS, search=search) == alone.predict(pairs, alone.plan(both.search(search)))


def test_a_prefix_is_kept(weft: Weft, both: Run) -> None:
    done = weft("predict", both.path, "-", "--prefix", "hg", stdin="\n".join(WORDS))
    assert done.code == 0
    assert [line[:2] for line in done.lines] == ["hg"] * len(WORDS)


def test_an_empty_line_stays_empty(weft: Weft, both: Run) -> None:
    done = weft("predict", both.path, "-", stdin="abcd\n\nabce\n")
    assert [bool(line) for line in done.lines] == [True, False, True]


def test_the_loss_is_the_mean_of_both_ways(both: Run) -> None:
    pairs = [Pair(*row) for row in made_up_pairs(12, seed=9)]
    total = sum(log_prob(way, p.source, p.target) for way in ways(both) for p in pairs)
    assert both.evaluate(pairs)["loss"] == pytest.approx(-total / 2 / sum(len(p.target) + 1 for p in pairs), rel=1e-4)


def test_runs_of_either_way_predict_together_whichever_comes_first(
    weft: Weft, backward_run: Run, tiny_run: Run
) -> None:
    lines = "\n".join(WORDS)
    one = weft("predict", backward_run.path, "-", "--with", tiny_run.path, stdin=lines)
    other = weft("predict", tiny_run.path, "-", "--with", backward_run.path, stdin=lines)
    assert one.code == other.code == 0
    assert one.lines == other.lines
    given = weft("predict", backward_run.path, "-", "--with", tiny_run.path, "--prefix", "hg", stdin=lines)
    assert [line[:2] for line in given.lines] == ["hg"] * len(WORDS), "there is one that writes from the start"


def test_many_lines_are_judged_some_at_a_time(both: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, ticks = both.predict(WORDS), list[int]()
    monkeypatch.setattr(directions, "AT_ONCE", 5)
    found = both.predictor.predict([Pair(word) for word in WORDS], tick=ticks.append)
    assert [p.text for p in found] == [p.text for p in wanted]
    assert sum(ticks) == len(WORDS)


def test_the_card_says_in_which_directions_models_write(both: Run, backward_run: Run) -> None:
    cards = [(run.path / "README.md").read_text(encoding="utf-8") for run in (both, backward_run)]
    assert "It is an ensemble of 3 such models, some of which write from last to first, with" in cards[0]
    assert "writes the characters of the target from last to first." in cards[1]


def test_it_goes_on_where_it_was(both: Run, tiny_pairs: Path, tmp_path: Path) -> None:
    """Broken off after the first model, and resumed."""
    done = package.train(tiny_pairs, out=tmp_path / "run", steps=12, settings=BOTH, reporter=Quiet())
    member = RunFolder(tmp_path / "run" / "members" / "2")
    for path in sorted(member.checkpoints.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    again = package.train(out=done.path, resume=True, reporter=Quiet())
    pairs = [Pair(*row) for row in made_up_pairs(12, seed=9)]
    assert again.predictor.teacher_forced(pairs) == both.predictor.teacher_forced(pairs)


def test_one_model_cannot_write_both_ways(weft: Weft, tiny_pairs: Path) -> None:
    done = weft("train", tiny_pairs, "--steps", 2, "--set", "train.reversed_members=true")
    what = "train.reversed_members=true needs several models, but train.members is 1"
    refused(done, what, "train.reversed_members=false")
