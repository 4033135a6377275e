"""Looking inside: the numbers of every view, the report, its bad inputs, and what tracing can change."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from commands import Weft, refused
from conftest import SMALL
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.core.trace import note, scope, trace
from weft.look.inspect import alignment, report
from weft.look.inspect.attention import attention_numbers, coverage, entropy, maps_of, monotonicity
from weft.look.inspect.limits import MOST_SECONDS
from weft.look.inspect.subject import Subject
from weft.look.inspect.table import VIEWS
from weft.predict.predictor import Predictor
from weft.runs.log import LogFile

if TYPE_CHECKING:
    from weft.api import Run

TRANSFORMER = {
    "encoder.kind": "transformer",
    "decoder.kind": "transformer",
    "encoder.layers": 2,
    "decoder.layers": 2,
    "encoder.heads": 2,
    "decoder.heads": 2,
}


@pytest.fixture(scope="module")
def transformer_run(tiny_pairs: Path) -> Run:
    import weft

    out = tiny_pairs.with_name("transformer-run")
    return weft.train(tiny_pairs, out=out, steps=12, settings={**SMALL, **TRANSFORMER})


@pytest.fixture(scope="module")
def plain_run(tiny_pairs: Path) -> Run:
    """An LSTM without attention."""
    import weft

    out = tiny_pairs.with_name("plain-run")
    return weft.train(tiny_pairs, out=out, steps=12, settings={**SMALL, "decoder.attention.score": "none"})


def numbers(run: Run, *inputs: str, **options: Any) -> dict[str, Any]:
    return run.inspect(inputs or ["abcd"], **options).numbers


# --- tracing


def test_an_edit_changes_what_the_model_goes_on_with_and_is_recorded() -> None:
    with trace(edits={"x": lambda value: value * 2}) as seen:
        assert note("x", torch.ones(2)).tolist() == [2, 2]
    assert seen["x"][0].tolist() == [2, 2]
    assert note("x", torch.ones(2)).tolist() == [1, 1]


def test_relative_names_are_noted_within_their_scopes() -> None:
    with trace(keep=lambda name: name.endswith("f")) as seen, scope("encode"), scope("0.forward"):
        note(".f", torch.ones(1))
        note(".i", torch.ones(1))
    assert list(seen) == ["encode.0.forward.f"]


@pytest.mark.parametrize("cell", ["lstm", "lstm-f", "lstm-i", "lstm-o", "gru", "gru-after", "mut1", "mut2", "mut3"])
def test_every_gate_is_noted_and_can_be_closed(cell: str) -> None:
    from weft.nn.assemble import CELLS
    from weft.nn.unroll import over_time

    torch.manual_seed(1)
    part, x = CELLS[cell](3, 4), torch.randn(2, 5, 3)
    with torch.no_grad(), trace() as seen:
        out = over_time(part, x, part.start(2))[0]
    assert {name: len(each) for name, each in seen.items()} == dict.fromkeys(seen, 5)
    assert torch.allclose(out, over_time(part, x, part.start(2))[0], atol=1e-6)
    gates = [name for name in seen if name not in (".h", ".c")]
    assert gates
    for gate in gates:
        with torch.no_grad(), trace(edits={gate: torch.zeros_like}):
            assert not torch.allclose(over_time(part, x, part.start(2))[0], out, atol=1e-3)


# --- attention


@pytest.mark.parametrize("run", ["tiny_run", "transformer_run"])
def test_the_rows_of_every_map_sum_to_one(run: str, request: pytest.FixtureRequest) -> None:
    lines = numbers(request.getfixturevalue(run), "abcd", "hgfedc")["lines"]
    for line in lines:
        maps = [plot for plot in line["views"]["attention"].values() if plot["plot"] == "heat"]
        assert len(maps) == (3 if run == "transformer_run" else 1)
        for plot in maps:
            for panel in plot["panels"]:
                weights = np.array(panel["values"])
                assert weights.shape == (len(plot["rows"]), len(plot["columns"]))
                assert weights.sum(axis=1) == pytest.approx(1, abs=0.003)


def test_the_maps_are_those_of_the_alignment_of_the_predictor(transformer_run: Run) -> None:
    (line,) = Subject(transformer_run.predictor).lines([Pair("abcd")])
    source, target, weights = transformer_run.predictor.alignment(line.pair, line.output.text)
    cross = maps_of(line)["cross"]
    assert (cross.columns, cross.rows) == (source, target)
    assert cross.mean == pytest.approx(weights, abs=1e-5)


def test_measures_of_maps_by_hand() -> None:
    one, even = np.eye(3), np.full((3, 3), 1 / 3)
    assert (entropy(one), entropy(even)) == (0, pytest.approx(np.log(3)))
    assert (monotonicity(one), monotonicity(one[::-1])) == (1, 0)
    assert coverage(one) == 1
    assert coverage(np.array([[1.0, 0, 0], [1, 0, 0]])) == pytest.approx(1 / 3)


def test_alignments_by_hand() -> None:
    weights = np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.1, 0.6, 0.3]])
    forward, backward = alignment.forward_links(weights), alignment.backward_links(weights)
    assert alignment.pharaoh(forward) == "0-0 1-1 1-2"
    assert alignment.pharaoh(backward) == "0-0 1-1 2-2"
    assert alignment.pharaoh(alignment.symmetrised(forward, backward)) == "0-0 1-1 1-2 2-2"
    both = alignment.symmetrised(frozenset({(0, 0)}), frozenset({(0, 0), (5, 5)}))
    assert alignment.pharaoh(both) == "0-0 5-5"  # words without a link get theirs
    assert alignment.in_words(forward, ["a", "b", "c"], ["x", "y", "z"]) == "x←a  y←b  z←b"
    assert alignment.in_words(frozenset({(1, 0)}), [" ", " man"], [" Mann", ""]) == "Mann←man  ␣←∅"


@pytest.mark.parametrize(("target", "name"), [("abc", "copied"), ("CBA", "reversed"), ("abcd", ""), ("acb", "")])
def test_a_known_order_is_recognised(target: str, name: str) -> None:
    order = alignment.known_order("abc", target)
    assert (order[0] if order else "") == name


def test_agreement_counts_steps_that_look_where_the_order_says() -> None:
    weights = np.eye(3)[::-1]
    assert alignment.agreement(weights, [2, 1, 0], "abc") == 1
    assert alignment.agreement(weights, [0, 1, 2], "abc") == pytest.approx(1 / 3)


def test_a_server_gets_the_same_numbers(tiny_run: Run) -> None:
    (line,) = attention_numbers(tiny_run.predictor, [Pair("abcd")])
    whole = numbers(tiny_run, "abcd")["lines"][0]
    assert line["attention"] == whole["views"]["attention"]
    assert line["output"] == tiny_run.predict(["abcd"])[0].text
    (given,) = attention_numbers(tiny_run.predictor, [Pair("abcd")], ["dcba"])
    assert given["target_tokens"] == [*"dcba", "<end>"]
    json.dumps(given)


# --- errors


def test_the_parts_of_the_errors_add_up_to_the_evaluated_score(tiny_run: Run, tiny_pairs: Path) -> None:
    errors = tiny_run.inspect(table=tiny_pairs, views="errors").numbers["summary"]["errors"]
    scores = tiny_run.evaluate(tiny_pairs)
    *kinds, whole = errors["by_kind"]["rows"]
    assert sum(row[3] for row in kinds) == pytest.approx(scores["cer"], rel=1e-3)
    assert whole[3] == pytest.approx(scores["cer"], rel=1e-3)
    *lengths, every = errors["by_length"]["rows"]
    assert every[1:3] == [200, pytest.approx(scores["cer"], rel=1e-3)]
    assert [sum(row[i] for row in lengths) for i in (1, 3, 4)] == [every[i] for i in (1, 3, 4)]
    assert sum(row[1] for row in kinds) == every[3]


def test_the_worst_lines_come_first_and_are_shown_in_full(tiny_run: Run, tiny_pairs: Path) -> None:
    seen = tiny_run.inspect(table=tiny_pairs).numbers
    rates = [row[4] for row in seen["summary"]["errors"]["lines"]["rows"]]
    assert rates == sorted(rates, reverse=True)
    assert len(rates) == len(seen["lines"]) == 50
    assert all("attention" in line["views"] for line in seen["lines"])
    assert any("worst 50" in text for text in seen["notes"])


def test_every_kind_of_mistake_is_told_apart() -> None:
    from weft.look.inspect.edits import LineKinds, mistakes

    def kinds(output: str, right: str) -> list[str]:
        return [mistake.kind for mistake in mistakes(list(output), list(right), {"x"})]

    assert kinds("abd", "abcd") == ["omission"]
    assert kinds("abbc", "abc") == ["repetition"]
    assert kinds("abdc", "abc") == ["insertion"]
    assert kinds("abd", "abc") == ["substitution"]
    assert kinds("ab", "abx") == ["unseen character"]
    lines = LineKinds([Pair("go", "went", features=("PST",)), Pair("go", "goes", features=("PRS",))])
    assert lines.of(Pair("go", "went", features=("PST",)), "goes") == "wrong feature"
    assert lines.of(Pair("go", "went", features=("PST",)), "go") == "copy"
    assert lines.of(Pair("go", "went", features=("PST",)), "went") == ""


# --- the report


def test_the_json_is_as_the_contract_says(weft: Weft, tiny_run: Run, tmp_path: Path) -> None:
    done = weft("inspect", tiny_run.path, "abcd", "hgfe", "--json", "numbers.json", "--out", "page.html")
    assert done.code == 0, done.err
    content = json.loads((tmp_path / "numbers.json").read_text())
    assert {"run", "lines", "summary"} <= set(content)
    for text, line in zip(("abcd", "hgfe"), content["lines"], strict=True):
        assert {"input", "output", "source_tokens", "target_tokens", "views"} <= set(line)
        assert (line["input"], line["output"]) == (text, tiny_run.predict([text])[0].text)
        assert line["source_tokens"] == [*text, "<end>"]
    page = (tmp_path / "page.html").read_text()
    embedded = page.split('<script type="application/json" id="report">')[1].split("</script>")[0]
    assert json.loads(embedded) == content
    assert len(page) < 1_000_000


def test_a_given_output_is_looked_at(tiny_run: Run) -> None:
    (line,) = numbers(tiny_run, "abcd", force="dcba")["lines"]
    assert line["target_tokens"] == [*"dcba", "<end>"]
    assert line["log_prob"] == pytest.approx(tiny_run.predictor.log_probs([Pair("abcd", "dcba")])[0], rel=1e-4)


def test_text_in_the_data_cannot_become_markup(tiny_run: Run) -> None:
    page = tiny_run.inspect("a</script><b>").page
    assert "</script><b>" not in page


def test_a_notebook_shows_the_page(tiny_run: Run) -> None:
    shown = tiny_run.inspect("abcd")._repr_html_()
    assert shown.startswith("<iframe")
    assert 'sandbox="allow-scripts"' in shown


def test_a_model_card_links_to_an_inspection_of_its_examples(tiny_run: Run, plain_run: Run) -> None:
    page, card = (tiny_run.path / "inspection.html").read_text(), (tiny_run.path / "README.md").read_text()
    assert "](inspection.html)" in card
    content = json.loads(page.split('id="report">')[1].split("</script>")[0])
    shown = [(line["input"], line["output"]) for line in content["lines"]]
    examples = LogFile(tiny_run.path / "log.jsonl").final()["examples"]
    assert shown == [(source, output) for source, _, output in examples]
    assert all("attention" in line["views"] for line in content["lines"])
    assert not (plain_run.path / "inspection.html").exists()  # it has no attention
    assert "inspection.html" not in (plain_run.path / "README.md").read_text()


def test_known_outputs_are_looked_at_without_decoding(tiny_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Predictor, "predict", lambda *_: pytest.fail("nothing is to be decoded"))
    seen = report.inspect(tiny_run.predictor, None, [Pair("abcd")], written=["dcba"], views=["attention"]).numbers
    assert (seen["lines"][0]["output"], "forced" in seen["lines"][0]) == ("dcba", False)


def test_unseen_symbols_are_named(tiny_run: Run) -> None:
    assert numbers(tiny_run, "abλd")["lines"][0]["unseen"] == ["λ"]


def test_long_lines_are_cut_and_say_so(tiny_run: Run) -> None:
    plot = numbers(tiny_run, "ab" * 100, views="attention")["lines"][0]["views"]["attention"]["cross"]
    assert len(plot["columns"]) == 100
    assert "first" in plot["note"]


def test_when_the_time_is_over_the_rest_is_left_out_and_a_note_says_so(
    weft: Weft, tiny_run: Run, tiny_pairs: Path, tmp_path: Path
) -> None:
    out, numbers = tmp_path / "report.html", tmp_path / "numbers.json"
    flags = ("--table", tiny_pairs, "--view", "attention,beam,storage", "--out", out, "--json", numbers)
    done = weft("inspect", tiny_run.path, *flags, "--seconds", "0")
    seen = json.loads(numbers.read_text(encoding="utf-8"))
    assert [len(line["views"]) for line in seen["lines"][:2]] == [2, 0]  # the first line has both
    assert "the time of 0 s was over" in seen["left_out"]["storage"]
    assert "Only the first 1 line of 50 show attention" in done.err
    assert "storage is left out" in done.err
    assert inspect.signature(tiny_run.inspect).parameters["seconds"].default == MOST_SECONDS == 120


def test_a_run_that_is_still_training_says_so(tiny_run: Run, tmp_path: Path) -> None:
    import shutil

    import weft

    copy = tmp_path / "copy"
    shutil.copytree(tiny_run.path, copy, symlinks=True)
    log = [line for line in (copy / "log.jsonl").read_text().splitlines() if '"final"' not in line]
    (copy / "log.jsonl").write_text("\n".join(log) + "\n")
    assert "not finished" in weft.load(copy).inspect("abcd").numbers["notes"][0]


# --- bad input


def test_mistakes_are_told_in_three_parts(weft: Weft, tiny_run: Run, plain_run: Run, tmp_path: Path) -> None:
    run = tiny_run.path
    (tmp_path / "sources.tsv").write_text("abcd\nefgh\n")
    refused(weft("inspect", run), "nothing to look at")
    refused(weft("inspect", run, "abcd", "--table", "x.tsv"), "either")
    refused(weft("inspect", run, "--table", "x.tsv", "--force", "x"), "--force")
    refused(weft("inspect", run, "abcd", "--view", "atention"), "did you mean 'attention'")
    refused(weft("inspect", run, ""), "empty")
    refused(weft("inspect", run, "ab" * 1000), "at most 1,000")
    refused(weft("inspect", run, "abcd", "--out", "nowhere/page.html"), "nowhere")
    refused(weft("inspect", run, "abcd", "--out", "."), "folder")
    refused(weft("inspect", run, "abcd", "--view", "errors"), "--table")
    refused(weft("inspect", run, "--table", "sources.tsv"), "sources.tsv")
    refused(weft("inspect", plain_run.path, "abcd", "--view", "attention"), "no attention")
    refused(weft("inspect", "nowhere", "abcd"), "no such run")
    assert list(tmp_path.glob("*.html")) == []


def test_a_model_without_attention_says_why_its_page_has_none(weft: Weft, plain_run: Run) -> None:
    done = weft("inspect", plain_run.path, "abcd")
    assert done.code == 0
    assert "attention is left out" in done.err


def test_a_page_that_cannot_be_written_leaves_nothing_behind(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tiny_run.inspect("abcd")
    seen.save(tmp_path / "page.html")
    before = (tmp_path / "page.html").read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="No space left"):
        seen.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == before


def test_every_view_says_what_it_shows() -> None:
    assert all(view.title and len(view.about) > 40 for view in VIEWS.values())
    assert report.MOST_INPUTS == 50
