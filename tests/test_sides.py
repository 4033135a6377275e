"""Kinds of columns: cells that cannot be used, what is learned of a column, from cells to arrays and back."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import Weft
from weft.core.errors import UserError
from weft.core.pair import SPECIALS, UNKNOWN, Pair
from weft.core.shapes import Symbols, Vectors
from weft.data.blocks import blocks_of
from weft.data.cells import Kinds
from weft.data.formats import Fault, ReadReport
from weft.data.inputs import read_inputs
from weft.data.pairs import read_pairs
from weft.data.prepare import Prepared
from weft.data.scan import Files
from weft.data.sides.label import Label, TokenLabels
from weft.data.sides.number_cells import interpolated, parse
from weft.data.sides.number_survey import NumbersCollector
from weft.data.sides.numbers import Numbers, learned, written
from weft.data.sides.table import KINDS, recognised, side_from_json
from weft.score.metrics import table_of

ANY = Kinds()


def table(folder: Path, rows: list[object], name: str = "rows.jsonl") -> str:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


# cells ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cell", "values"), [
    ("[1, 2.5]", [[1], [2.5]]),
    ("[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
    ("[1, null, 3]", [[1], [np.nan], [3]]),
])  # fmt: skip
def test_a_list_of_numbers_is_read_as_steps_of_features(cell: str, values: list[list[float]]) -> None:
    np.testing.assert_array_equal(parse(cell), values)


@pytest.mark.parametrize(("cell", "what"), [
    ("[1, \"two\"]", "item 2 holds 'two', which is not a number"),
    ("[[1, 2], [3]]", "step 2 has 1 number, but step 1 has 2"),
    ("[[1, 2], 3]", "step 2 has a single number, but step 1 has 2"),
    ("[1, [2]]", "step 1 is a single number, but other steps are lists"),
    ("[[], [], []]", "step 1 has no numbers"),
    ("[1e308, 2]", "the list holds a number beyond 1e+100"),
    ("[]", "the list is empty"),
    ("[1, NaN]", "the list holds NaN or an infinite value"),
    ("[1, -Infinity]", "the list holds NaN or an infinite value"),
    (f"[1, {'9' * 400}, null]", "the list holds NaN or an infinite value"),
    ("4", "a single number is given where a list is expected"),
    ("one two", "'one two' is not a list of numbers"),
    ("[" * 5000, "is not a list of numbers"),
])  # fmt: skip
def test_a_cell_that_holds_something_else_is_refused_with_the_reason(cell: str, what: str) -> None:
    with pytest.raises(Fault) as fault:
        parse(cell)
    assert what in fault.value.what


def test_missing_numbers_are_filled_in_between_their_neighbours() -> None:
    filled = interpolated(parse("[[null, 1], [2, null], [4, 5], [null, 7]]"))
    np.testing.assert_array_equal(filled, [[2, 1], [2, 3], [4, 5], [4, 7]])
    np.testing.assert_array_equal(interpolated(parse("[null, null]")), [[0], [0]])


@pytest.mark.parametrize(("cells", "kind"), [
    (["[1, 2]", "[3]"], "numbers"), (["[1, 2]", "word"], "text"), (["[brackets]"], "text"), ([], "text"),
    (["12"], "text"), (["[1, 2]", "word", "[3]"], "numbers"), (["[1, 2]", "[]", "[1, NaN]"], "numbers"),
    (["[[60, 64], [62]]", "[[60], [200]]"], "notes"),
])  # fmt: skip
def test_a_column_is_of_numbers_if_most_cells_are_lists_of_them(cells: list[str], kind: str) -> None:
    assert recognised(cells) == kind


def test_kinds_are_recognised_and_reported(tmp_path: Path) -> None:
    report = ReadReport()
    path = table(tmp_path, [{"past": [[1, 2]], "future": [[3, 4], [5, 6]]}] * 3)
    pairs = list(read_pairs([path], kinds=ANY, report=report))
    assert report.kinds == {"source": "numbers", "target": "numbers"}
    assert pairs[0] == Pair("[[1, 2]]", "[[3, 4], [5, 6]]")


def test_text_that_is_a_list_of_numbers_in_one_row_is_a_bad_row(tmp_path: Path) -> None:
    path = table(tmp_path, [{"source": "a", "target": "b"}, {"source": [1, 2], "target": "b"}])
    with pytest.raises(UserError) as error:
        list(read_pairs([path]))
    assert error.value.what == "the source is a list of numbers, not text"
    assert error.value.where.endswith("rows.jsonl:2")


@pytest.mark.parametrize(("second", "what"), [
    ({"source": [[1, 2]], "target": [3]}, "the source has 2 numbers per step, but in earlier rows it has 1"),
    ({"source": [1, None], "target": [3]}, "the source has a missing value (null)"),
    ({"source": [1], "target": [3, None]}, "the target has a missing value (null)"),
    ({"source": [1], "target": ["x", 2]}, "is a list, but not of texts"),
])  # fmt: skip
def test_a_bad_row_of_numbers_is_named_by_its_line(tmp_path: Path, second: object, what: str) -> None:
    path = table(tmp_path, [{"source": [1], "target": [2]}, second])
    with pytest.raises(UserError) as error:
        list(read_pairs([path], kinds=Kinds("numbers", "numbers")))
    assert what in error.value.what
    assert error.value.where.endswith("rows.jsonl:2")


def test_a_list_with_a_word_in_it_is_a_bad_row_of_a_column_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text('[1, 2]\t[3]\n[1, "x"]\t[3]\n', encoding="utf-8")
    with pytest.raises(UserError, match="item 2 holds 'x', which is not a number"):
        list(read_pairs([str(path)], kinds=Kinds("numbers", "numbers")))


def test_every_word_has_to_have_a_label(tmp_path: Path) -> None:
    path = tmp_path / "tags.tsv"
    path.write_text("a b\tX Y\na b c\tX Y\n", encoding="utf-8")
    with pytest.raises(UserError, match="the source has 3 words, but the target has 2 labels"):
        list(read_pairs([str(path)], kinds=Kinds("text", "labels")))


def test_a_context_that_is_read_by_step_is_not_shorter_than_its_target(tmp_path: Path) -> None:
    from weft.data.pairs import Columns

    path = table(tmp_path, [{"source": [1], "target": [2, 3], "beside": [0]}])
    columns = Columns("source", "target", context="beside")
    with pytest.raises(UserError, match="the context has 1 step, but the target has 2"):
        list(read_pairs([path], columns, kinds=Kinds("numbers", "numbers", "numbers", in_step=True)))
    assert next(read_pairs([path], columns, kinds=ANY)).context == "[0]"


def test_plain_lines_to_predict_have_the_context_after_the_source(tmp_path: Path) -> None:
    from weft.data.pairs import Columns

    path = tmp_path / "lines.txt"
    path.write_text("[1]\t[2, 3]\n\n", encoding="utf-8")
    kinds = Kinds("numbers", "numbers", "numbers")
    pairs = list(read_inputs(str(path), Columns(context="beside"), kinds=kinds))
    assert [(pair.source, pair.context) for pair in pairs] == [("[1]", "[2, 3]"), ("", "")]


# labels ---------------------------------------------------------------------------------------------------------------


def test_a_label_comes_back_and_one_that_training_never_saw_is_unknown() -> None:
    side = Label(["spam", "ham"], [3, 2])
    assert side.shape == Symbols(len(SPECIALS) + 2, ended=False)
    assert side.rows([Pair("x", " ham "), Pair("x", "eggs")], "target") == [[len(SPECIALS) + 1], [UNKNOWN]]
    assert side.text([len(SPECIALS)], Pair("x")) == "spam"
    assert side.knows("ham")
    assert not side.knows("eggs")


def test_labels_of_words_are_as_many_as_the_words() -> None:
    side = TokenLabels(["N", "V"], [3, 2])
    (row,) = side.rows([Pair("dogs bark", "N V")], "target")
    assert row == [len(SPECIALS), len(SPECIALS) + 1]
    assert side.text(row, Pair("dogs bark")) == "N V"


@pytest.mark.parametrize("side", [
    Label(["a", "b"], [2, 1]), TokenLabels(["B-x", "O"], [2, 1]),
    Numbers(2, (0.0, 1.0), (1.0, 2.0), (0.5, 0.5), longest=9),
])  # fmt: skip
def test_a_side_is_read_from_its_file_as_it_was_written(side: Label | Numbers) -> None:
    assert side_from_json(side.to_json(), "target.json").to_json() == side.to_json()


def test_a_broken_side_names_its_file() -> None:
    with pytest.raises(UserError) as error:
        side_from_json('{"format": 1, "kind": "numbers"}', "run/target.json")
    assert error.value.where == "run/target.json"


# numbers --------------------------------------------------------------------------------------------------------------


def surveyed(pairs: list[Pair], role: str) -> dict[str, object]:
    collector = NumbersCollector()
    for block in blocks_of(pairs):
        collector.add(block, role)
    return collector.result()


def test_a_survey_knows_widths_lengths_means_scales_and_what_is_missing() -> None:
    found = surveyed([Pair("[[0, 10], [2, 10]]", ""), Pair("[[4, 10], [null, 10], [6, 10]]", "")], "source")
    assert (found["width"], found["shortest"], found["longest"], found["missing"]) == (2, 2, 3, 1)
    np.testing.assert_allclose(np.asarray(found["mean"]), [17 / 5, 10])
    np.testing.assert_allclose(np.asarray(found["scale"]), [np.std([0, 2, 4, 5, 6]), 1])


def test_a_target_that_begins_where_its_source_ends_continues_it() -> None:
    on = [Pair("[[0, 0], [1, 1]]", "[[2, 2], [3, 3]]")] * 3
    off = [Pair("[[0, 0], [1, 1]]", "[[90, 90], [91, 91]]")] * 3
    assert surveyed(on, "target")["continues"] == 1
    assert surveyed(off, "target")["continues"] == 0


def test_going_on_is_compared_with_the_mean_of_the_targets() -> None:
    """Lists whose mean, largest and smallest value are the target begin near their source's end, and do not go on."""
    random = np.random.default_rng(4)
    lists = random.normal(size=(300, 6)) * 3 + 5
    summaries = [Pair(json.dumps(x.tolist()), json.dumps([x.mean(), x.max(), x.min()])) for x in lists]
    walks = np.cumsum(random.normal(size=(300, 9)), axis=1)
    paths = [Pair(json.dumps(x[:6].tolist()), json.dumps(x[6:].tolist())) for x in walks]
    assert surveyed(summaries, "target")["continues"] > 0.9
    assert surveyed(summaries, "target")["going_on"] < 0
    assert 0.3 < surveyed(paths, "target")["going_on"] < 1


def test_positions_matter_after_a_source_of_one_step() -> None:
    random = np.random.default_rng(3)
    pairs = []
    for level in random.uniform(0, 10, 400):
        steps = np.arange(1, 6)
        pairs.append(Pair(json.dumps([level]), json.dumps((level * 0.9**steps + random.normal(size=5) * 0.1).tolist())))
    assert surveyed(pairs, "target")["position_gain"] > 0.5
    assert surveyed(pairs, "target")["direction_gain"] == 1


def test_a_context_in_step_has_as_many_steps_as_its_target() -> None:
    pairs = [Pair("[0]", "[1, 2]", context="[5, 5]"), Pair("[0]", "[1, 2]", context="[5]")]
    assert surveyed(pairs, "context")["in_step"] == 0.5


@pytest.mark.parametrize(("differences", "continues"), [(False, False), (True, False), (True, True)])
def test_an_encoded_target_comes_back_in_the_units_of_the_data(differences: bool, continues: bool) -> None:
    pair = Pair("[[1, 50], [2, 60]]", "[[3, 80], [5, 70], [4, 90]]")
    side = Numbers(
        2, (2.0, 60.0), (2.0, 20.0), (1.5, 12.0), values=not differences, differences=differences, continues=continues
    )
    (row,) = side.rows([pair], "target")
    assert isinstance(side.shape, Vectors)
    assert row.shape == (3, side.shape.width)
    np.testing.assert_allclose(json.loads(side.text(row, pair)), json.loads(pair.target), rtol=1e-5)


def test_a_source_is_read_as_values_steps_and_marks_of_what_is_missing() -> None:
    side = Numbers(1, (1.0,), (2.0,), (4.0,), differences=True, indicator=True)
    (row,) = side.rows([Pair("[1, null, 5]", "")], "source")
    np.testing.assert_allclose(row, [[0, 0, 0], [1, 0.5, 1], [2, 0.5, 0]])
    assert side.shape == Vectors(3)


def test_what_is_learned_of_numbers_is_what_the_survey_found() -> None:
    side = learned(surveyed([Pair("[1, 3]", "")], "source"))
    assert (side.mean, side.scale, side.longest) == ((2.0,), (1.0,), 2)


def test_numbers_are_written_with_six_digits() -> None:
    assert written(np.array([[1 / 3], [2e6]])) == "[0.333333, 2000000.0]"
    assert written(np.array([[1.0, 2.0]])) == "[[1.0, 2.0]]"


def tone(folder: Path) -> str:
    path = folder / "tone.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(b"\x01\x02" * 4000)
    return str(path)


def picture(folder: Path) -> str:
    Image.new("L", (20, 10)).save(folder / "grey.png")
    return str(folder / "grey.png")


FILES = {"audio": tone, "image": picture}  # kinds whose cells name files


@pytest.mark.parametrize("kind", KINDS)
def test_a_survey_of_every_kind_can_be_described_and_kept(kind: str, tmp_path: Path) -> None:
    cell = {"numbers": "[1, 2]", "notes": "[[60], []]", "labels": "N V"}.get(kind, "two words")
    cell = FILES[kind](tmp_path) if kind in FILES else cell
    collector = KINDS[kind]().collector()
    for block in blocks_of([Pair("a b", cell)] * 2):
        collector.add(block, "target")
    found = collector.result()
    assert json.loads(json.dumps(found)) == found
    assert all(isinstance(text, str) for text in KINDS[kind]().describe(found).values())


# scores ---------------------------------------------------------------------------------------------------------------


def test_scores_of_numbers_are_those_of_their_formulas() -> None:
    outputs, references = ["[[0, 0], [3, 4]]"], [["[[0, 1], [0, 0]]"]]
    scores = table_of("numbers").score(outputs, references)
    assert scores["ade"] == pytest.approx((1 + 5) / 2)
    assert scores["fde"] == pytest.approx(5)
    assert scores["mse"] == pytest.approx((0 + 1 + 9 + 16) / 4)
    assert scores["mae"] == pytest.approx((0 + 1 + 3 + 4) / 4)
    assert scores["r2"] == pytest.approx(1 - 26 / 0.5)


@pytest.mark.parametrize(("output", "reference"), [("[1, 4]", "[1, 2, 3, 4]"), ("[1, 2, 3, 4]", "[1, 4]")])
def test_a_series_that_ends_too_soon_or_too_late_goes_on_at_its_last_value(output: str, reference: str) -> None:
    scores = table_of("numbers").score([output], [[reference]])
    assert scores["ade"] == pytest.approx((0 + 2 + 1 + 0) / 4)
    assert scores["fde"] == 0
    assert scores["r2"] < 1
    assert table_of("numbers").score(["[]"], [[reference]])["mse"] == 0


def test_a_perfect_series_has_r2_of_one() -> None:
    assert table_of("numbers").score(["[1, 2, 3]"], [["[1, 2, 3]"]])["r2"] == 1


def test_macro_f1_counts_every_label_alike() -> None:
    scores = table_of("label").score(["a", "a", "a", "b"], [["a"], ["a"], ["b"], ["c"]])
    assert scores["accuracy"] == 50
    assert scores["macro_f1"] == pytest.approx(100 * (2 * 2 / 5 + 0 + 0) / 3)


def test_spans_are_right_as_a_whole() -> None:
    scores = table_of("labels").score(["B-P I-P O B-L"], [["B-P I-P O B-P"]])
    assert scores["span_f1"] == pytest.approx(50)
    assert scores["accuracy"] == 75


# whole runs -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tracks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Straight lines, whose context says how fast they go on."""
    random, rows = np.random.default_rng(1), []
    for _ in range(120):
        start, step, speed = random.normal(size=2), random.normal(size=2), random.uniform(0.5, 2, size=3)
        past = [(start + n * step).round(3).tolist() for n in range(4)]
        future = [(start + (3 + s) * step).round(3).tolist() for s in np.cumsum(speed)]
        rows.append({"past": past, "future": future, "speed": speed.round(3).tolist()})
    return Path(table(tmp_path_factory.mktemp("tracks"), rows, "tracks.jsonl"))


def test_a_run_on_numbers_is_trained_scored_and_predicts_json(weft: Weft, tracks: Path, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    done = weft("train", str(tracks), "--context", "speed", "--steps", "12", "--out", run)
    assert done.code == 0, done.err
    assert "chose context.use = step: every context is as long as its target" in done.err
    assert "chose numbers.differences = True" in done.err
    scores = json.loads(weft("evaluate", run, str(tracks), "--json").out)
    assert {"ade", "fde", "mse", "mae", "r2", "loss", "n"} <= set(scores)
    done = weft("predict", run, stdin="[[0, 0], [1, 1]]\t[1, 1, 1]\n\n[[0, 0], [1, 1]]\t[2, 2]\n")
    lines = done.out.split("\n")
    assert [len(json.loads(lines[n])) for n in (0, 2)] == [3, 2], "as long as the context"
    assert lines[1] == ""


def test_a_prediction_of_numbers_does_not_depend_on_its_batch(tracks: Path, tmp_path: Path) -> None:
    import weft as package

    run = package.train(tracks, source="past", target="future", steps=3, out=tmp_path / "run")
    lines = [json.loads(line) for line in tracks.read_text("utf-8").splitlines()]
    sources = [json.dumps(line["past"][: 2 + n % 3]) for n, line in enumerate(lines[:80])]
    together = run.predict(sources).texts
    assert together == [run.predict([source]).texts[0] for source in sources[:9]] + together[9:]


@pytest.mark.parametrize(("flags", "what"), [
    (["--nbest", "2", "--format", "tsv"], "this run predicts the mean (objective.kind=distance), so it has only one"),
    (["--prefix", "a"], "outputs of this run are numbers, which have no prefix"),
    (["--beam", "4"], "beam search needs tokens, but this run predicts numbers"),
    (["--sample"], "this run predicts the mean (objective.kind=distance), so it has only one output"),
])  # fmt: skip
def test_what_numbers_have_not_is_refused(
    weft: Weft, tracks: Path, tmp_path: Path, flags: list[str], what: str
) -> None:
    run = str(tmp_path / "run")
    assert weft("train", str(tracks), "--source", "past", "--target", "future", "--steps", "1", "--out", run).code == 0
    done = weft("predict", run, *flags, stdin="[[0, 0]]\n")
    assert done.code == 2
    assert what in done.err


def test_the_cache_of_recognised_kinds_is_used_again(tracks: Path, tmp_path: Path) -> None:
    files = Files((str(tracks),), kinds=ANY)
    first, second = (Prepared(files, root=tmp_path).survey for _ in range(2))
    assert first == second
    assert first.kind("context") == "none"


def test_positions_matter_where_they_explain_what_steps_do_not() -> None:
    random = np.random.default_rng(2)
    for pull, matters in ((0.0, False), (0.5, True)):
        pairs = []
        for _ in range(400):
            past = np.cumsum(random.normal(size=(5, 2)), axis=0) + random.normal(size=2) * 3
            future = past[-1] + np.cumsum(random.normal(size=(3, 2)) * 0.1 - pull * past[-1] * 0.3, axis=0)
            pairs.append(Pair(json.dumps(past.tolist()), json.dumps(future.tolist())))
        gain = surveyed(pairs, "target")["position_gain"]
        assert isinstance(gain, float)
        assert (gain > 0.05) == matters


def test_numbers_that_are_missing_in_a_source_are_filled_in_and_marked(weft: Weft, tmp_path: Path) -> None:
    rows = [{"past": [n, None, n + 2], "future": [n + 3]} for n in range(60)]
    run = str(tmp_path / "run")
    done = weft("train", table(tmp_path, rows), "--steps", "2", "--out", run)
    assert done.code == 0, done.err
    assert "chose numbers.missing = mask: 60 numbers are missing" in done.err
    assert weft("predict", run, stdin="[1, null]\n").code == 0
