"""Where a tag stands: before the source, after it, or as the first symbol that the decoder reads."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import weft as package
from commands import Weft, refused
from weft.api import Run
from weft.core.errors import UserError
from weft.core.kinds import Batch
from weft.core.pair import END, SPECIALS, START, UNKNOWN, Pair
from weft.data.text.tokens import from_json, learn, marks_of
from weft.runs.report import Quiet

PLACES = ["start", "end", "decoder"]
FAMILIES: dict[str, dict[str, Any]] = {
    "recurrent": {},
    "transformer": {
        **{f"{side}.kind": "transformer" for side in ("encoder", "decoder")},
        **{f"{side}.layers": 1 for side in ("encoder", "decoder")},
        "embed.positions": "relative",
    },
}
SMALL = {**{f"{part}.width": 16 for part in ("embed", "encoder", "decoder")}, "train.evaluations": 2}


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words that stay as they are or are turned round, as the third column says."""
    rng = random.Random(1)
    words = sorted({"".join(rng.choices("abcdef", k=rng.randint(2, 7))) for _ in range(90)})
    rows = [(w, w if n % 2 else w[::-1], "same" if n % 2 else "turn") for n, w in enumerate(words)]
    path = tmp_path_factory.mktemp("tags") / "pairs.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=[(place, family) for place in PLACES for family in FAMILIES], ids="-".join)
def run(request: pytest.FixtureRequest, tagged: Path) -> Run:
    place, family = request.param
    settings = {**SMALL, **FAMILIES[family], "data.tag_at": place}
    out = tagged.with_name(f"run-{place}-{family}")
    return package.train(tagged, out=out, steps=8, tag=3, settings=settings, reporter=Quiet())


def place_of(run: Run) -> str:
    return run.spec.data.tag_at


def ids_read(reader: nn.Module, calls: list[Tensor]) -> Any:
    """Note the ids that a reader is given."""
    return reader.table.register_forward_hook(lambda _, given, __: calls.append(given[0].detach()))


# --- symbols


@pytest.mark.parametrize("place", PLACES)
def test_a_source_has_its_tag_where_it_should_stand(place: str) -> None:
    pair = Pair("gehen", "ging", tag="de", features=("V", "PST"))
    made = learn("characters", 0, ["gehen"], marks_of(pair))
    made.tag_at = place
    names = made.show(made.encode_sources([pair])[0])
    wanted = ["<+V>", "<+PST>", *"gehen"]
    assert names == ([*wanted, "<de>"] if place == "end" else ["<de>", *wanted])
    assert made.decode(made.encode_sources([pair])[0]) == "gehen"


@pytest.mark.parametrize("marks", [["<de>"], []])
@pytest.mark.parametrize("pair", [Pair("ab"), Pair("ab", tag="xx"), Pair("")])
def test_the_decoder_reads_something_even_where_there_is_no_known_tag(pair: Pair, marks: list[str]) -> None:
    made = learn("characters", 0, ["ab"], marks)
    made.tag_at = "decoder"
    assert made.encode_sources([pair])[0] == [UNKNOWN, *made.encode(pair.source)]


@pytest.mark.parametrize("kind", ["characters", "parts", "words", "bytes", "bpe", "unigram"])
@pytest.mark.parametrize("place", PLACES)
def test_a_saved_tokeniser_remembers_where_the_tag_stands(kind: str, place: str) -> None:
    made = learn(kind, 300, ["ab cd"], ["<de>"])
    made.tag_at = place
    again = from_json(made.to_json(), "source.json")
    assert again.tag_at == place
    pair = Pair("ab", tag="de")
    assert again.encode_sources([pair]) == made.encode_sources([pair])


# --- runs


def test_a_run_folder_says_where_the_tag_stands(run: Run) -> None:
    for name in ("source.json", "target.json"):
        assert json.loads((run.path / name).read_text(encoding="utf-8"))["tag_at"] == place_of(run)
    sides = run.folder.read_sides()
    source, target = sides.source, sides.target
    assert source.tag_at == place_of(run)
    assert source.marks == ["<same>", "<turn>"]
    assert target.marks == (source.marks if place_of(run) == "decoder" else [])
    assert run.predictor.model.prompted is (place_of(run) == "decoder")


def test_who_reads_the_tag(run: Run) -> None:
    """All at once and step by step: the encoder or the decoder reads it, and never both."""
    predictor, pair = run.predictor, Pair("abc", "cba", tag="turn")
    sources = predictor.source.encode_sources([pair])
    batch, tag = Batch.of(sources, [predictor.target.encode(pair.target)]), len(SPECIALS) + 1
    text = [*predictor.source.encode("abc"), END]
    wanted = {"start": ([tag, *text], START), "end": ([*text[:-1], tag, END], START), "decoder": (text, tag)}
    read, first = wanted[place_of(run)]
    for way in ("all at once", "step by step"):
        encoded: list[Tensor] = []
        decoded: list[Tensor] = []
        hooks = ids_read(predictor.model.source_reader, encoded), ids_read(predictor.model.target_reader, decoded)
        if way == "all at once":
            predictor.model(batch)
        else:
            state = predictor.model.begin(batch.source)
            for y in batch.given.values.unbind(1):
                _, state = predictor.model.advance(y, state)
        for hook in hooks:
            hook.remove()
        assert [ids.tolist() for ids in encoded] == [[read]]
        said = torch.cat(decoded, dim=1)[0].tolist()
        assert said == [first, *batch.given.values[0, 1:].tolist()]


def test_the_tag_changes_what_is_written_and_text_alone_is_encoded_alike(run: Run) -> None:
    predictor = run.predictor
    batches = [Batch.of(predictor.source.encode_sources([Pair("abcd", tag=t)]), [[8, 9]]) for t in ("same", "turn")]
    one, other = (predictor.model(batch).logits for batch in batches)
    assert (one - other).abs().amax() > 1e-5
    if place_of(run) == "decoder":
        memories = [predictor.model.decode(batch)[1].states for batch in batches]
        assert torch.equal(*memories)


def test_no_tag_is_ever_written(run: Run) -> None:
    lines = [Pair(word, tag="turn") for word in ("abc", "f", "abcdef")]
    for search in ({"kind": "greedy"}, {"kind": "beam", "width": 4}, {"kind": "sample", "temperature": 5.0}):
        for prediction in run.predict(lines, search=search):
            assert not set(prediction.outputs[0].tokens[:-1]) & {"<same>", "<turn>", *SPECIALS}


def test_a_line_does_not_depend_on_its_batch(run: Run) -> None:
    rng = random.Random(4)
    pairs = [
        Pair("".join(rng.choices("abcdefX", k=rng.randint(1, 9))), tag=rng.choice(["same", "turn", "never"]))
        for _ in range(200)
    ]
    plan = run.predictor.plan(run.search({"kind": "beam", "width": 3, "max_extra": 2, "max_ratio": 1.0}))
    alone = run.predictor.predict(pairs, plan, batch_lines=1)
    order = rng.sample(range(200), 200)
    for batch_lines in (7, 200):
        mixed = run.predictor.predict([pairs[n] for n in order], plan, batch_lines=batch_lines)
        for place, prediction in zip(order, mixed):
            assert prediction.text == alone[place].text
            assert prediction.score == pytest.approx(alone[place].score, abs=1e-4)


def test_an_evaluation_reads_the_tags_of_the_file(run: Run, tagged: Path) -> None:
    found = run.evaluate(tagged)
    plain = [line.split("\t") for line in tagged.read_text(encoding="utf-8").splitlines()]
    wanted = [p.text for p in run.predict([Pair(source, tag=tag) for source, _, tag in plain])]
    assert found.outputs == wanted


def test_a_picture_of_attention_shows_what_the_encoder_read(run: Run) -> None:
    read, written, weights = run.predictor.alignment(Pair("abc", tag="turn"), "cba")
    wanted = {
        "start": ["<turn>", "a", "b", "c", "<end>"],
        "end": ["a", "b", "c", "<turn>", "<end>"],
        "decoder": ["a", "b", "c", "<end>"],
    }
    assert read == wanted[place_of(run)]
    assert written == ["c", "b", "a", "<end>"]
    assert weights.shape == (len(written), len(read))
    assert weights.sum(1) == pytest.approx([1.0] * len(written), abs=1e-5)


def test_a_line_without_a_tag_is_refused(run: Run) -> None:
    with pytest.raises(UserError, match="this run was trained with a tag, but this line has none"):
        run.predict(["abc"])


# --- an evaluation of runs of which some have marks


@pytest.fixture(scope="module")
def marked(tagged: Path) -> dict[str, Run]:
    """Runs on the same file that read its third column as a tag, as features, and not at all."""
    return {
        name: package.train(tagged, out=tagged.with_name(name), steps=2, settings=SMALL, reporter=Quiet(), **columns)
        for name, columns in {"plain": {}, "tag": {"tag": 3}, "features": {"features": 3}}.items()
    }


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Pair]]:
    """The pairs that each run, by its name, was evaluated on."""
    seen, evaluate = dict[str, list[Pair]](), Run.evaluate

    def noting(self: Run, pairs: list[Pair], **how: Any) -> Any:
        seen[self.path.name] = pairs
        return evaluate(self, pairs, **how)

    monkeypatch.setattr(Run, "evaluate", noting)
    return seen


@pytest.mark.parametrize("name", ["tag", "features"])
def test_what_only_the_run_compared_with_was_trained_with_is_read(
    weft: Weft, tagged: Path, marked: dict[str, Run], evaluated: dict[str, list[Pair]], name: str
) -> None:
    done = weft("evaluate", marked["plain"].path, tagged, "--against", marked[name].path, "--json")
    assert done.code == 0, done.err
    assert "did not occur in training" not in done.err, "a run without marks has none that it did not see"
    assert evaluated["plain"] == evaluated[name]
    assert {pair.tag or " ".join(pair.features) for pair in evaluated[name]} == {"same", "turn"}
    assert {bool(pair.tag) for pair in evaluated[name]} == {name == "tag"}
    said = json.loads(done.out)["against"]
    assert said["cer"]["second"] == pytest.approx(marked[name].evaluate(tagged)["cer"])
    assert said["cer"]["first"] == pytest.approx(marked["plain"].evaluate(tagged)["cer"])


@pytest.mark.parametrize("name", ["tag", "features"])
def test_what_only_a_run_that_predicts_too_was_trained_with_is_read(
    weft: Weft, tagged: Path, marked: dict[str, Run], evaluated: dict[str, list[Pair]], name: str
) -> None:
    done = weft("evaluate", marked["plain"].path, tagged, "--with", marked[name].path, "--json")
    assert done.code == 0, done.err
    assert {pair.tag or " ".join(pair.features) for pair in evaluated["plain"]} == {"same", "turn"}


def test_a_column_that_is_named_is_that_of_all_runs(
    weft: Weft, tagged: Path, marked: dict[str, Run], evaluated: dict[str, list[Pair]], tmp_path: Path
) -> None:
    rows = [line.split("\t") for line in tagged.read_text(encoding="utf-8").splitlines()]
    moved = tmp_path / "moved.tsv"
    moved.write_text("".join(f"{a}\t{b}\tx\t{mark}\n" for a, b, mark in rows), encoding="utf-8")
    done = weft("evaluate", marked["plain"].path, moved, "--against", marked["tag"].path, "--tag", 4, "--json")
    assert done.code == 0, done.err
    assert {pair.tag for pair in evaluated["tag"]} == {"same", "turn"}


@pytest.mark.parametrize("name", ["tag", "features"])
def test_a_run_is_not_judged_on_pairs_without_the_marks_that_it_was_trained_with(
    weft: Weft, marked: dict[str, Run], tmp_path: Path, name: str
) -> None:
    run = marked[name]
    with pytest.raises(UserError) as caught:
        run.evaluate([("abc", "cba"), ("ab", "ab")])
    marks = {"tag": "a tag", "features": "features"}[name]
    assert caught.value.what == f"the run {run.path} was trained with {marks}, but none of the pairs has {marks}"
    assert caught.value.where == name
    assert caught.value.todo == f"name the {name} column, or give weft.Pair(…, {name}=…)"
    assert run.evaluate([Pair("abc", "cba", tag="turn", features=("turn",)), Pair("ab", "ab")]).n == 2, "some have"
    (tmp_path / "bare.tsv").write_text("abc\tcba\t\nab\tab\t\n", encoding="utf-8")
    refused(weft("evaluate", run.path, "bare.tsv"), f"trained with {marks}", str(run.path), f"--{name}")


def test_only_a_run_with_marks_can_meet_one_that_it_never_saw(marked: dict[str, Run]) -> None:
    pair = Pair("abc", tag="other", features=("more",))
    for name, unseen in (("plain", set()), ("tag", {"<other>", "<+more>"})):
        notes = marked[name].predictor.input_notes()
        notes.see([pair])
        assert notes.unseen_marks == unseen


# --- the command line, and starting from another run


@pytest.mark.parametrize("place", PLACES)
def test_a_tag_is_placed_from_the_command_line(weft: Weft, tagged: Path, place: str) -> None:
    small = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    trained = weft("train", tagged, "--out", "run", "--tag", 3, "--set", f"data.tag_at={place}", "--steps", 2, *small)
    assert trained.code == 0, trained.err
    done = weft("predict", "run", "-", stdin="abc\tturn\nabc\tsame\n")
    assert done.code == 0
    assert len(done.lines) == 2
    assert weft("evaluate", "run", tagged, "--json").code == 0


def test_a_place_without_a_tag_is_refused(weft: Weft, tagged: Path) -> None:
    done = weft("train", tagged, "--out", "run", "--steps", 2, "--set", "data.tag_at=end")
    refused(done, "data.tag_at=end needs a tag, but data.tag names no column", "--tag", after_notes=0)


def started_from(run: Run, tagged: Path, out: Path, **settings: str) -> Run:
    given = {f"data.{key}": value for key, value in settings.items()}
    return package.train(tagged, out=out, steps=1, tag=3, init=run.path, settings=given, reporter=Quiet())


def test_a_run_that_starts_from_another_has_its_tag_where_that_had_it(run: Run, tagged: Path, tmp_path: Path) -> None:
    new = started_from(run, tagged, tmp_path / "new")
    assert place_of(new) == place_of(run) == new.predictor.source.tag_at
    assert new.predictor.model.prompted is run.predictor.model.prompted
    other = next(place for place in PLACES if place != place_of(run))
    with pytest.raises(UserError) as caught:
        started_from(run, tagged, tmp_path / "other", tag_at=other)
    assert f"data.tag_at={other}, but the run that --init names" in caught.value.what
    assert "leave data.tag_at out" in caught.value.todo
    assert not (tmp_path / "other").exists()


def test_tags_that_are_all_empty_leave_the_text_whole(tmp_path: Path) -> None:
    rows = [f"{word}\t{word}\t\n" for word in ("abc", "bca", "cab", "ba", "ca")]
    (tmp_path / "pairs.tsv").write_text("".join(rows), encoding="utf-8")
    settings = {**SMALL, "data.tag_at": "decoder"}
    run = package.train(
        tmp_path / "pairs.tsv", out=tmp_path / "run", steps=1, tag=3, settings=settings, reporter=Quiet()
    )
    read, _, _ = run.predictor.alignment(Pair("abc"), "abc")
    assert read == ["a", "b", "c", "<end>"]
