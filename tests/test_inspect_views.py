"""The numbers of single views against brute force, autograd by hand and other parts of Weft."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from commands import Weft, refused
from conftest import SMALL, made_up_pairs
from weft.core.pair import Pair
from weft.look.inspect import attribution, beam, changes, faithful, field, gradients, heads, what_if
from weft.look.inspect.attention import maps_of
from weft.look.inspect.changes import AtCall, silence_head
from weft.look.inspect.statistics import auc, correlation, kendall, ratio_interval
from weft.look.inspect.subject import Line, Subject
from weft.look.inspect.views import Options
from weft.nn.assemble import CELLS

if TYPE_CHECKING:
    from weft.api import Run

TRANSFORMER = {
    f"{part}.{name}": value
    for part in ("encoder", "decoder")
    for name, value in {"kind": "transformer", "layers": 2, "heads": 2}.items()
}
BOTH = pytest.mark.parametrize("kind", ["lstm", "transformer"])
PAIRS = [Pair(*pair) for pair in made_up_pairs(30, seed=5)]


@pytest.fixture(scope="module")
def runs(tiny_pairs: Path, tiny_run: Run) -> dict[str, Run]:
    import weft

    out = tiny_pairs.with_name("transformer-of-views")
    settings = {**SMALL, **TRANSFORMER, "decoder.attention.score": "scaled"}
    return {"lstm": tiny_run, "transformer": weft.train(tiny_pairs, out=out, steps=12, settings=settings)}


def line_of(run: Run, text: str = "abcde", target: str = "") -> Line:
    return Subject(run.predictor).lines([Pair(text, target)])[0]


# --- statistics


def test_kendall_by_its_definition() -> None:
    draw = np.random.default_rng(1)
    for _ in range(20):
        a, b = draw.integers(0, 5, 7).astype(float), draw.integers(0, 5, 7).astype(float)
        pairs = [(i, j) for i, j in product(range(7), repeat=2) if i < j]
        agree = sum(np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) for i, j in pairs)
        untied = [sum(x[i] != x[j] for i, j in pairs) for x in (a, b)]
        assert kendall(a, b) == pytest.approx(agree / np.sqrt(untied[0] * untied[1]))
    assert np.isnan(kendall(np.ones(4), np.arange(4.0)))


def test_auc_by_its_definition() -> None:
    draw = np.random.default_rng(2)
    scores, truth = draw.integers(0, 6, (40, 3)).astype(float), draw.random(40) < 0.4
    pairs = [(i, j) for i in np.flatnonzero(truth) for j in np.flatnonzero(~truth)]
    for column in range(3):
        x = scores[:, column]
        wins = sum((x[i] > x[j]) + 0.5 * (x[i] == x[j]) for i, j in pairs)
        assert auc(scores, truth)[column] == pytest.approx(wins / len(pairs))


def test_correlation_and_intervals() -> None:
    x = np.random.default_rng(3).normal(size=(50, 2))
    y = x[:, 0] * 2 + 1
    assert correlation(x, y) == pytest.approx([1, np.corrcoef(x[:, 1], y)[0, 1]])
    mean, low, high = ratio_interval([1.0, 2, 3, 4] * 10, [2.0] * 40)
    assert mean == 1.25
    assert low < mean < high


# --- beam


@BOTH
def test_the_search_tree_is_that_of_predict_and_its_scores_are_those_of_forced_scoring(
    kind: str, runs: dict[str, Run]
) -> None:
    run, line = runs[kind], line_of(runs[kind])
    found = beam.search(line)
    wanted = run.predict(["abcde"], nbest=5)[0].outputs
    assert found.finished[0].score == pytest.approx(wanted[0].score, abs=1e-5)
    assert line.subject.sides.text(found.finished[0].row, line.pair) == wanted[0].text
    for hypothesis in found.finished:
        assert beam.forced_scores(line, hypothesis.ids) == pytest.approx(hypothesis.token_scores, abs=1e-4)
        path = [found.tree[(*hypothesis.ids, 3)[: i + 1]] for i in range(len(hypothesis.ids) + 1)]
        assert [node.log_prob for node in path] == pytest.approx(hypothesis.token_scores, abs=1e-5)
        assert [node.fate for node in path] == ["kept"] * len(hypothesis.ids) + ["ended"]
        assert path[-1].rank == pytest.approx(hypothesis.score, abs=1e-5)
    depths = [len(prefix) for prefix, node in found.tree.items() if node.fate == "kept"]
    assert max(depths.count(depth) for depth in depths) <= 5


def test_a_wrong_output_is_the_fault_of_the_search_or_of_the_model(tiny_run: Run) -> None:
    line = line_of(tiny_run)
    found = beam.search(line)
    best = line.subject.sides.text(found.finished[0].row, line.pair)
    assert beam.judgement(line, found, best).verdict.startswith("The search found")
    worse = line.subject.sides.text(found.finished[-1].row, line.pair)
    assert beam.judgement(line, found, worse).verdict.startswith("Model error")
    blind = replace(found, finished=[replace(found.finished[-1], score=-99.0)])
    assert beam.judgement(line, blind, best).verdict.startswith("Search error")
    assert "training never had" in beam.judgement(line, found, "λλ").verdict


# --- what-if


@BOTH
def test_the_unedited_path_is_what_predict_writes(kind: str, runs: dict[str, Run]) -> None:
    seen = runs[kind].inspect("abcde", views="what-if").numbers["lines"][0]["views"]["what-if"]["outcomes"]
    prediction = runs[kind].predict(["abcde"])[0]
    name, output, _, score, log_prob = seen["rows"][0]
    assert (name, output) == ("nothing", prediction.text)
    assert (score, log_prob) == pytest.approx((prediction.score, prediction.outputs[0].log_prob), rel=1e-3)
    assert len(seen["rows"]) == 6


@BOTH
def test_a_changed_input_is_the_prediction_of_that_input(kind: str, runs: dict[str, Run]) -> None:
    line = line_of(runs[kind])
    for change, text in (("input:2=", "acde"), ("input:2=h", "ahcde")):
        outcome = what_if.outcome(line, changes.parse(change))
        assert outcome.text == runs[kind].predict([text])[0].text
        forced = Pair(text, line.output.text)
        assert outcome.log_prob_before == pytest.approx(runs[kind].predictor.log_probs([forced])[0], abs=1e-3)


def test_a_forced_symbol_is_written(tiny_run: Run) -> None:
    outcome = what_if.outcome(line_of(tiny_run), changes.parse("output:1=h"))
    assert outcome.text.startswith("h")


@BOTH
def test_a_silenced_head_is_a_head_without_its_part_of_the_output_matrix(kind: str, runs: dict[str, Run]) -> None:
    """Brute force: the columns of Wₒ (or, of a single head, the context) that read the head are set to zero."""
    subject = Subject(runs[kind].predictor)
    if kind == "lstm":
        lost = heads.ablate(subject, PAIRS, "decode.cross", 1, 0, 0)
        model = subject.untrained()
        model.load_state_dict(subject.model.state_dict())
        model.decoder.attention._mixed = lambda weights, source: (weights[:, 0] * 0) @ source.values
    else:
        lost = heads.ablate(subject, PAIRS, "decode.cross", 2, 1, 0)
        model = subject.untrained()
        model.load_state_dict(subject.model.state_dict())
        width = model.decoder.blocks[1].cross.out.in_features // 2
        model.decoder.blocks[1].cross.out.weight[:, :width] = 0
    before = subject.with_model(subject.model).teacher_forced(PAIRS)
    if kind == "lstm":
        with torch.no_grad():
            from weft.core.trace import trace

            with trace(keep=lambda _: False):  # which leaves the compiled code out
                after = subject.with_model(model).teacher_forced(PAIRS)
    else:
        after = subject.with_model(model).teacher_forced(PAIRS)
    assert lost.loss == pytest.approx(after["loss"] - before["loss"], abs=1e-4)
    assert lost.accuracy == pytest.approx(after["accuracy"] - before["accuracy"], abs=1e-4)
    assert lost.low <= lost.loss <= lost.high


def test_changes_that_make_no_sense_are_refused(weft: Weft, runs: dict[str, Run]) -> None:
    run = runs["transformer"].path
    for change, words in {
        "nonsense": "is not a change",
        "input:9=x": "no symbol 9",
        "input:0=x": "counted from 1",
        "output:1=λ": "cannot write",
        "output:99=a": "no symbol 99",
        "attention:1=99": "names no input position",
        "head:cross.1.9": "there is no head cross.1.9; cross has 2 layers with 2 heads each",
        "head:cros.1.1": "is not an attention of this model",
        "unit:decode.1.999": "choose from",
        "unit:other.1.1": "is not a part",
    }.items():
        refused(weft("inspect", run, "abcd", "--what-if", change), words, "--what-if")


def test_an_attention_row_can_be_pointed_elsewhere(tiny_run: Run) -> None:
    line = line_of(tiny_run)
    outcome = what_if.outcome(line, changes.parse("attention:1=5"))
    assert outcome.log_prob_before != pytest.approx(what_if.outcome(line, changes.parse("input:1=a")).log_prob_before)
    edits = changes.model_edits(changes.parse("attention:2=1+3"), {"cross": 1}, 4)
    weights = torch.rand(1, 1, 1, 4)
    assert torch.equal(edits["decode.cross"](weights), weights)
    assert edits["decode.cross"](weights).flatten().tolist() == [0.5, 0, 0.5, 0]


# --- faithful


@BOTH
def test_leave_one_out_equals_brute_force(kind: str, runs: dict[str, Run]) -> None:
    line = line_of(runs[kind])
    measured = attribution.left_out(line, line.subject.model)
    whole = runs[kind].predictor.step_scores([Pair("abcde", line.output.text)])[0]
    for index in range(5):
        shorter = "abcde"[:index] + "abcde"[index + 1 :]
        scores = runs[kind].predictor.step_scores([Pair(shorter, line.output.text)])[0]
        assert measured[:, index] == pytest.approx(np.subtract(whole, scores), abs=1e-4)


@BOTH
def test_integrated_gradients_are_complete_up_to_the_error_that_is_printed(kind: str, runs: dict[str, Run]) -> None:
    line = line_of(runs[kind])
    measured = attribution.attribution(line, line.subject.model)
    tolerance = 0.01 if kind == "lstm" else 0.5  # a layer norm is steep where vectors are nearly empty
    assert measured.completeness == pytest.approx(0, abs=tolerance)
    error = np.abs(measured.integrated.sum(1) - measured.difference)
    assert measured.completeness == pytest.approx(error, abs=1e-5)
    assert measured.gradient.shape == (len(line.target_tokens), len(line.source_tokens))


def test_a_map_that_agrees_with_nothing_is_not_trusted() -> None:
    weights, other = np.array([[0.1, 0.2, 0.3, 0.4]] * 3), np.array([[4.0, 3, 2, 1]] * 3)
    against, along = faithful.Compared(weights, other), faithful.Compared(weights, other[:, ::-1])
    bad = faithful._trust({"left out": against, "integrated gradients": along}, 0.9)
    assert bad.warn
    assert "Do not read" in bad.verdict
    good = faithful._trust({"left out": along, "integrated gradients": along}, 0.9)
    assert not good.warn
    assert faithful._trust({"left out": along}, 0.001).warn
    mixed = faithful._trust({"left out": along, "integrated gradients": against}, 0.9)
    assert mixed.warn
    assert "not with integrated gradients" in mixed.verdict


@BOTH
def test_the_view_of_trust_prints_its_controls(kind: str, runs: dict[str, Run]) -> None:
    plots = runs[kind].inspect("abcdef", views="faithful").numbers["lines"][0]["views"]["faithful"]
    assert {"maps", "correlation", "trust", "completeness"} == set(plots)
    assert [row[0] for row in plots["correlation"]["rows"]] == ["left out", "integrated gradients", "gradient × input"]


# --- gradients


@pytest.mark.parametrize("cell", ["elman", "gru", "mut1"])
def test_jacobians_over_a_lag_are_products_of_single_steps(cell: str) -> None:
    torch.manual_seed(1)
    part, inputs = CELLS[cell](3, 4), torch.randn(1, 5, 3)
    states, state = [], part.start(1)
    for x in part.inputs(inputs).unbind(1):
        state = tuple(s.detach().requires_grad_() if not states else s for s in state)
        _, state = part.step(x, state)
        states.append(state[0])
    measured = gradients.jacobians(states)
    by_hand = torch.eye(4)
    for step in range(4, 0, -1):
        before = states[step - 1].detach()
        single = torch.autograd.functional.jacobian(
            lambda h, at=step: part.step(part.inputs(inputs)[:, at], (h,))[0][0], before
        )[:, 0]
        by_hand = by_hand @ single
        assert torch.allclose(measured[5 - step], by_hand, atol=1e-5)


def test_the_cell_of_an_lstm_hands_on_its_forget_gate() -> None:
    """∂cₜ/∂cₜ₋₁ = fₜ, with the hidden state held."""
    from weft.core.trace import trace

    torch.manual_seed(2)
    cell, x = CELLS["lstm"](3, 4), torch.randn(1, 3)
    h, c = torch.randn(1, 4), torch.randn(1, 4, requires_grad=True)
    with trace() as seen:
        after = cell(x, (h, c))[1][1]
    jacobian = torch.stack([torch.autograd.grad(after[0, i], c, retain_graph=True)[0][0] for i in range(4)])
    assert torch.allclose(jacobian, torch.diag(seen[".f"][0][0]), atol=1e-6)


def test_gates_and_states_of_the_view_are_those_of_the_model(tiny_run: Run) -> None:
    line = line_of(tiny_run, "abcdefgh")
    name = "decode.0"
    reach = gradients.reach(line.subject.model, line, name)
    assert reach.norm[0] == pytest.approx(1)
    assert reach.diagonal[0] == pytest.approx(1)
    assert (reach.largest >= reach.norm - 1e-6).all()
    assert np.isfinite(reach.norm).all()


@BOTH
def test_gradients_of_the_loss_reach_every_input(kind: str, runs: dict[str, Run]) -> None:
    plots = runs[kind].inspect("abcdef", views="gradients").numbers["lines"][0]["views"]["gradients"]
    for key in ("at_source", "at_target"):
        assert [series["name"] for series in plots[key]["series"]][:2] == ["trained", "untrained"]
        assert all(y > 0 for y in plots[key]["series"][0]["y"])
    assert ("decode.1" in plots) is (kind == "lstm")


# --- field


def by_walking(looked: Any, layer: int, position: int) -> set[int]:
    if layer == 0:
        return {position}
    below = [position, *(int(looked[layer - 1, head, position]) for head in range(looked.shape[1]))]
    return set().union(*(by_walking(looked, layer - 1, place) for place in below))


def test_counted_fields_equal_a_traversal_and_their_bound() -> None:
    looked = np.random.default_rng(4).integers(0, 30, (3, 2, 30))
    nodes = field.reached(looked)
    for layer, position in product(range(4), range(30)):
        assert nodes[layer][position] == by_walking(looked, layer, position)
        assert len(nodes[layer][position]) <= 3**layer
    apart = np.stack([(np.arange(30) + 3**layer)[None] % 30 for layer in range(3)])  # paths that never overlap
    double = np.concatenate([apart, (apart + apart - np.arange(30)) % 30], axis=1)
    assert {len(node) for node in field.reached(double)[3]} == {27}


@BOTH
def test_effective_fields_are_between_one_and_all_positions(kind: str, runs: dict[str, Run]) -> None:
    for shares in field.effective(line_of(runs[kind])):
        assert shares.sum(1) == pytest.approx(1)
        assert 1 <= field.size(shares) <= shares.shape[1]


# --- heads


def test_habits_are_recognised(runs: dict[str, Run]) -> None:
    maps = maps_of(line_of(runs["transformer"]))["encoder"]
    length = len(maps.rows)
    previous = np.zeros((1, 1, length, length))
    previous[0, 0, np.arange(1, length), np.arange(length - 1)] = 1
    table = heads._habits("encoder", [replace(maps, weights=previous)])
    assert table.rows[0][-1] == "previous"
    even = heads._habits("encoder", [replace(maps, weights=np.full((1, 1, length, length), 1 / length))])
    assert even.rows[0][-1] == "no clear habit"


def test_an_edit_at_a_call_knows_step_and_layer() -> None:
    seen = []
    edit = AtCall(3, lambda value, step, layer: (seen.append((step, layer)), value)[1])
    for _ in range(7):
        edit(torch.ones(1))
    assert seen == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert silence_head(1, 0)(torch.ones(1, 2, 1, 1), 0, 1).flatten().tolist() == [0, 1]


def test_every_view_of_a_line_fits_both_families(runs: dict[str, Run]) -> None:
    for run in runs.values():
        report = run.inspect(["abcd"], views=["all"])
        assert {"attention", "beam", "what-if", "faithful", "gradients", "field"} <= set(
            report.numbers["lines"][0]["views"]
        )
        assert len(report.page) < 1_000_000
    assert Options().edits == ()
