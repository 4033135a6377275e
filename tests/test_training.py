"""Training from Python: what is given is taken, what is chosen is told, what comes out can be used."""

from __future__ import annotations

import io
import json
import math
import random
import sys
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from matplotlib.image import imread

import weft
from commands import Weft
from conftest import made_up_pairs
from weft.cli.summary import scored_pairs
from weft.core.errors import UserError, WeftError
from weft.core.kinds import Batch
from weft.core.pair import END
from weft.core.shapes import Symbols
from weft.learn.optimise import adamw, set_rate
from weft.learn.selection import improves
from weft.learn.validate import Validator
from weft.nn.assemble import assemble
from weft.runs.folder import RunFolder
from weft.runs.log import LogFile
from weft.runs.memory import check_memory_fits
from weft.runs.report import Plain, Quiet, worth_telling
from weft.score.metrics import table_of
from weft.settings import compose
from weft.spec import CellName, PositionName, ScoreName, Search

SMALL = {"encoder.width": 32, "decoder.width": 32, "embed.width": 32, "train.batch_tokens": 512}
TRANSFORMER = {"encoder.kind": "transformer", "decoder.kind": "transformer", "encoder.layers": 1, "decoder.layers": 1}


def pairs(count: int = 120) -> list[tuple[str, str]]:
    draw = random.Random(2)
    words = {"".join(draw.choices("abcde", k=draw.randint(2, 6))) for _ in range(count)}
    return [(word, word.upper()) for word in sorted(words)]


def log(run: weft.Run) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run.path / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def test_what_is_kept_as_the_best_is_told_and_by_what() -> None:
    told = io.StringIO()
    plain = Plain(told)
    numbers = dict.fromkeys(("cer", "token_error_rate", "bleu", "chrf"), 0.0)
    kept = [(1, 0.0, True), (2, 0.0, True), (3, 5.0, True), (4, 5.0, False), (1, 5.0, True)]  # the last: another model
    for step, score, best in kept:
        line = {"step": step, "loss": 1 / step, "exact": score, **numbers}
        plain.evaluation({**line, "metric": "exact", "best": best, "best_score": score}, [])
    marks = [line.partition("  ← ")[2] for line in told.getvalue().splitlines()]
    assert marks == ["best so far", "best so far (equal exact, lower loss)", "best so far", "", "best so far"]


def test_a_bleu_of_nothing_is_told_only_where_it_is_asked_for() -> None:
    scores = {"exact": 95.0, "cer": 1.0, "token_error_rate": 5.0, "bleu": 0.0, "chrf": 98.0}
    assert "bleu" not in worth_telling({**scores, "metric": "exact"})
    assert worth_telling({**scores, "metric": "bleu"})["bleu"] == "0.00"
    assert worth_telling({**scores, "bleu": 3.0, "metric": "exact"})["bleu"] == "3.00"


def test_a_model_does_not_begin_with_the_best_score_of_the_one_before() -> None:
    told = io.StringIO()
    plain = Plain(told)
    numbers = {"loss": 1.0, "epoch": 1.0, "tokens_per_second": 9.0, "share": 0.5}
    evaluation = {
        **dict.fromkeys(("exact", "cer", "token_error_rate", "bleu", "chrf"), 88.0),
        "metric": "exact",
        "best_score": 88.0,
    }
    plain.evaluation({"step": 10, "loss": 1.0, "best": True, **evaluation}, [])
    plain.report({"step": 1, **numbers})
    assert "best" not in told.getvalue().splitlines()[-1]


KINDS = [
    *({"decoder.cell": cell} for cell in get_args(CellName)),
    *({"decoder.attention.score": score} for score in get_args(ScoreName)),
    *({**TRANSFORMER, "embed.positions": place} for place in get_args(PositionName) if place != "none"),
]


@pytest.mark.parametrize("settings", KINDS, ids=lambda settings: " ".join(map(str, settings.values())))
def test_the_room_for_a_model_of_any_kind_is_known_before_it_is_made(settings: dict[str, object]) -> None:
    spec, huge = (compose(("flag", {**settings, "embed.width": width})).spec for width in (256, 100_000))
    few, many = Symbols(60), Symbols(10**8)
    check_memory_fits(partial(assemble, spec, few, few), spec, torch.device("cpu"))
    with pytest.raises(UserError, match="GB of memory to train") as caught:
        check_memory_fits(partial(assemble, huge, many, many), huge, torch.device("cpu"))
    assert "embed.width=100000" in caught.value.where
    assert "smaller widths" in caught.value.todo


def test_a_batch_that_does_not_fit_into_memory_is_told_in_three_parts(
    tiny_pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    monkeypatch.setattr("weft.learn.backward.Backward.__call__", full)
    with pytest.raises(WeftError, match="there is not enough memory for batches of 512 tokens") as caught:
        weft.train(tiny_pairs, out=tmp_path / "run", steps=1, settings={**SMALL, "train.batch_tokens": 512})
    assert "train.batch_tokens=512" in caught.value.where
    assert "--set train.batch_tokens=256" in caught.value.todo


def test_a_list_of_pairs_is_learned_and_predicted(tmp_path: Path) -> None:
    settings = {**SMALL, "train.rate": 0.01, "train.dropout": 0.0}
    run = weft.train(pairs(), out=tmp_path / "run", steps=150, settings=settings)
    assert run.evaluate([weft.Pair(s, t) for s, t in pairs()])["exact"] > 90
    assert run.predict(["abba"])[0].text == "ABBA"


def test_tags_and_features_of_pairs_reach_the_model(tmp_path: Path) -> None:
    rows = [weft.Pair(s, t if up else s, tag="up" if up else "as-is") for s, t in pairs() for up in (True, False)]
    run = weft.train(
        rows, out=tmp_path / "run", steps=250, settings={**SMALL, "train.rate": 0.01, "train.dropout": 0.0}
    )
    up, as_is = run.predict([weft.Pair("abcd", tag="up"), weft.Pair("abcd", tag="as-is")])
    assert (up.text, as_is.text) == ("ABCD", "abcd")
    featured = [weft.Pair(p.source, p.target, features=(p.tag,)) for p in rows]
    other = weft.train(featured, out=tmp_path / "other", steps=2, settings=SMALL)
    assert other.predictor.source.marks == ["<+as-is>", "<+up>"]


def test_a_transformer_is_trained_by_the_same_call(tmp_path: Path) -> None:
    run = weft.train(pairs(), out=tmp_path / "run", steps=5, settings={**SMALL, **TRANSFORMER})
    assert run.spec.encoder.kind == run.spec.decoder.kind == "transformer"
    assert run.spec.embed.positions != "none"


def test_bfloat16_trains_to_finite_weights(tmp_path: Path) -> None:
    run = weft.train(
        pairs(), out=tmp_path / "run", steps=5, settings={**SMALL, **TRANSFORMER, "train.precision": "bfloat16"}
    )
    assert all(bool(p.isfinite().all()) for p in run.predictor.model.parameters())


def test_a_budget_of_time_ends_annealed_after_the_most_passes(tmp_path: Path) -> None:
    settings = {**SMALL, "train.batch_tokens": 32, "train.max_epochs": 1, "train.members": 1}
    run = weft.train(pairs(200), out=tmp_path / "run", budget=100, settings=settings, reporter=Quiet())
    reports = [line for line in log(run) if line["kind"] == "report"]
    assert (reports[-1]["epoch"], reports[-1]["share"]) == (1, 1)
    assert reports[-1]["step"] > 20
    assert reports[-1]["seconds"] < 50
    assert reports[-1]["rate"] < 0.05 * run.spec.train.rate < max(line["rate"] for line in reports)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device that the test needs to be missing")
def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        weft.train(pairs(), out=tmp_path / "run", steps=2, settings={**SMALL, "train.device": "cuda"})
    assert "no cuda device" in caught.value.what
    assert "train.device=auto" in caught.value.todo


def test_the_best_checkpoint_is_chosen_by_the_metric_that_is_named(tmp_path: Path) -> None:
    run = weft.train(pairs(), out=tmp_path / "run", steps=60, settings={**SMALL, "train.select": "loss"})
    evaluations = [line for line in log(run) if line["kind"] == "evaluation"]
    best = min(evaluations, key=lambda line: line["loss"])
    assert log(run)[-1]["step"] == best["step"]
    assert (run.path / "best").resolve().name == f"step-{best['step']:06d}"


def test_two_runs_of_one_seed_are_the_same_and_of_another_are_not(tmp_path: Path) -> None:
    first, again, other = (
        weft.train(pairs(), out=tmp_path / name, steps=6, settings=SMALL, seed=seed)
        for name, seed in (("first", 5), ("again", 5), ("other", 6))
    )
    losses = [[line["loss"] for line in log(run)] for run in (first, again, other)]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_a_run_and_a_prediction_show_themselves_in_a_notebook(tmp_path: Path) -> None:
    run = weft.train([(s + "<i>", t) for s, t in pairs()], out=tmp_path / "run", steps=2, settings=SMALL)
    assert "exact" in run._repr_html_()
    assert "validation pairs" in repr(run)
    prediction = run.predict(["ab<i>"], nbest=2)[0]
    assert "ab&lt;i&gt;" in prediction._repr_html_()
    assert len(prediction.outputs) == 2
    assert str(prediction) == prediction.text
    assert "exact" in run.evaluate([weft.Pair("ab<i>", "AB")])._repr_html_()


def test_pairs_too_long_for_a_batch_are_left_out_with_a_note(tmp_path: Path) -> None:
    class Listener(Quiet):
        def __init__(self) -> None:
            self.notes: list[str] = []

        def note(self, text: str) -> None:
            self.notes.append(text)

    listener = Listener()
    rows = [*pairs(), ("a" * 600, "A" * 600)]
    weft.train(rows, out=tmp_path / "run", steps=2, settings={**SMALL, "data.hold_out": 0}, reporter=listener)
    assert any("more tokens than train.batch_tokens=512: 1" in note for note in listener.notes)
    with pytest.raises(UserError, match="no pair fits"):
        weft.train([("a" * 600, "b")], out=tmp_path / "none", steps=2, settings=SMALL)


@pytest.mark.usefixtures("rendered")
def test_the_card_tells_the_score_the_data_and_the_command(tmp_path: Path) -> None:
    run = weft.train(pairs(), out=tmp_path / "run", steps=2, settings=SMALL, command="weft train a.tsv")
    card = (run.path / "README.md").read_text(encoding="utf-8")
    facts = json.loads((run.path / "data.json").read_text(encoding="utf-8"))
    for text in ("exact", facts["fingerprint"], "weft train a.tsv", "parameters", "curves.png", "autopilot"):
        assert text in card
    assert imread(run.path / "curves.png").shape[:2] == (450, 1200)


def plainly(self: Any, batch: Batch, count: torch.Tensor) -> torch.Tensor:
    """The gradient of the loss as one would write it down, instead of the trainer's."""
    loss: torch.Tensor = self.objective(self.model(batch), batch).total
    (loss / count).backward()
    return loss.detach()


HEADS: dict[str, dict[str, object]] = {
    "tokens": SMALL,
    "copy": {**SMALL, "head.kind": "copy"},
    "ctc": {"embed.width": 32, "encoder.width": 32, "head.kind": "ctc"},
}


@pytest.mark.parametrize("head", HEADS)
def test_the_gradient_is_the_same_whether_the_scores_are_made_in_parts_or_at_once(
    head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.learn import backward

    settings, weights = {**HEADS[head], "train.dropout": 0.0, "train.evaluations": 1}, []
    for name, most in (("whole", 8_000_000), ("parts", 700), ("plain", 0)):
        monkeypatch.setattr(backward, "MOST_SCORES", most)
        if name == "plain":
            monkeypatch.setattr(backward.Backward, "__call__", plainly)
        run = weft.train(pairs(), out=tmp_path / name, steps=4, settings=settings, reporter=Quiet())
        weights.append(list(run.predictor.model.parameters()))
    whole, parts, plain = weights
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(whole, parts))
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(whole, plain))
    assert not all(torch.equal(a, b) for a, b in zip(whole, parts))  # it was really done in parts


def test_embeddings_are_trained_at_a_multiple_of_the_rate() -> None:
    model = assemble(compose(("flag", SMALL)).spec, Symbols(9), Symbols(8))
    optimiser = adamw(model, 0.01, 8.0)
    set_rate(optimiser, 0.5)
    tables = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    rates = {id(p): group["lr"] for group in optimiser.param_groups for p in group["params"]}
    assert {rates[id(p)] for p in model.parameters() if id(p) in tables} == {4.0}
    assert {rates[id(p)] for p in model.parameters() if id(p) not in tables} == {0.5}


def test_a_tied_transformers_outputs_are_turned_before_they_meet_the_embedding() -> None:
    parts = {f"{side}.{key}": value for side in ("encoder", "decoder")
             for key, value in (("kind", "transformer"), ("width", 32), ("heads", 2))}  # fmt: skip
    turned = {}
    for name, settings in (("tied", {}), ("own", {"head.tied": False})):
        spec = compose(("flag", {**parts, "embed.width": 32, **settings})).spec
        turned[name] = isinstance(assemble(spec, Symbols(9), Symbols(8)).head.project, torch.nn.Linear)
    assert turned == {"tied": True, "own": False}
    assert isinstance(assemble(compose(("flag", SMALL)).spec, Symbols(9), Symbols(8)).head.project, torch.nn.Identity)


def test_validation_cuts_what_goes_on_long_after_its_target(tmp_path: Path) -> None:
    run = weft.train(pairs(), out=tmp_path / "run", steps=2, settings=SMALL, reporter=Quiet())
    rows = [weft.Pair(s, t) for s, t in pairs()[:20]]
    predictor = run.predictor
    with torch.no_grad():
        predictor.model.head.bias[END] -= 50  # it never ends
    valid = Validator.of(rows, predictor.sides, 500)
    plan = predictor.plan(Search(kind="greedy", max_extra=60))
    whole, cut = (valid.evaluate(predictor.model, plan, predictor.device, cut=cut) for cut in (False, True))
    assert all(len(output) > 60 for output in whole.outputs)
    assert [len(o) for o in cut.outputs] == [math.ceil(1.5 * len(row.target)) + 5 for row in rows]


def test_a_single_text_a_missing_tag_and_what_is_no_text_are_refused(tmp_path: Path) -> None:
    rows = [weft.Pair(s, t, tag="up") for s, t in pairs()]
    run = weft.train(rows, out=tmp_path / "run", steps=2, settings=SMALL)
    for lines, said in (("abc", "a single text"), (["abc"], "trained with a tag"), ([3], "neither a text nor a Pair")):
        with pytest.raises(UserError, match=said):
            run.predict(lines)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="greedy search finds only one output"):
        run.predict([weft.Pair("abc", tag="up")], search={"kind": "greedy"}, nbest=2)
    with pytest.raises(UserError, match="no pairs to evaluate"):
        run.evaluate([])


def test_init_refuses_data_whose_symbols_the_run_does_not_know(tmp_path: Path) -> None:
    weft.train(pairs(), out=tmp_path / "latin", steps=2, settings=SMALL)
    greek = [("αβγδ"[i % 4] * (i % 5 + 1) + "ε" * (i // 20), "x") for i in range(60)]
    with pytest.raises(UserError) as caught:
        weft.train(greek, out=tmp_path / "greek", steps=2, init=tmp_path / "latin")
    assert "source tokens are unknown" in caught.value.what
    assert not (tmp_path / "greek" / "spec.yaml").exists()


def test_a_start_that_fails_leaves_the_folder_free_for_another_try(tmp_path: Path) -> None:
    weft.train(pairs(), out=tmp_path / "first", steps=2, settings=SMALL)
    with pytest.raises(UserError, match="do not fit"):
        weft.train(pairs(), out=tmp_path / "run", steps=2, init=tmp_path / "first", settings={"decoder.cell": "gru"})
    run = weft.train(pairs(), out=tmp_path / "run", steps=2, init=tmp_path / "first")
    assert log(run)[-1]["kind"] == "final"


# which checkpoint is the best ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "loss", "best_score", "best_loss", "better"),
    [
        (0.0, 2.0, None, None, True),
        (0.5, 3.0, 0.0, 2.0, False),  # near zero: one lucky line of 200 does not count,
        (0.0, 1.9, 0.5, 2.0, True),  # and a lower loss does
        (1.0, 3.0, 0.5, 2.0, True),  # the metric moves
        (40.0, 3.0, 30.0, 2.0, True),
        (30.0, 1.0, 40.0, 2.0, False),
        (40.0, 1.9, 40.0, 2.0, True),  # equal scores: the lower loss
        (40.0, 2.1, 40.0, 2.0, False),
    ],
)
def test_near_zero_the_loss_selects_the_checkpoint_until_the_metric_moves(
    score: float, loss: float, best_score: float | None, best_loss: float | None, better: bool
) -> None:
    table = table_of()
    assert improves(table["exact"], table["loss"], score, loss, best_score, best_loss) is better


def test_error_rates_are_selected_by_their_own_value_near_zero() -> None:
    table = table_of()
    assert improves(table["cer"], table["loss"], 0.1, 3.0, 0.2, 2.0)
    assert not improves(table["cer"], table["loss"], 0.2, 1.0, 0.1, 2.0)


def test_the_final_scores_are_over_all_validation_pairs(tmp_path: Path) -> None:
    settings = {**SMALL, "train.valid_pairs": 5, "train.members": 1}
    valid = made_up_pairs(40, seed=2)
    run = weft.train(made_up_pairs(120), valid=valid, out=tmp_path / "run", steps=2, settings=settings)
    lines = LogFile(run.folder.log).lines()
    assert [line["pairs"] for line in lines if line["kind"] == "evaluation"][-1] == 5
    assert (lines[-1]["kind"], lines[-1]["pairs"], lines[-1]["of"]) == ("final", 40, 40)


def test_a_summary_says_that_its_scores_are_of_a_sample() -> None:
    assert scored_pairs({"pairs": 20, "of": 450}) == "a sample of 20 of the 450 validation pairs"
    assert scored_pairs({"pairs": 450, "of": 450}) == "450 validation pairs"
    assert scored_pairs({"pairs": 1, "of": 1}) == "1 validation pair"


def test_tensorboard_events_are_written_when_they_are_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = {**SMALL, "train.tensorboard": True}
    run = weft.train(made_up_pairs(60), out=tmp_path / "run", steps=4, settings=settings)
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    assert {"report/loss", "evaluation/exact", "evaluation/loss"} <= set(events.Tags()["scalars"])
    assert events.Scalars("evaluation/loss")[-1].step == 4


def test_without_the_package_tensorboard_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(UserError, match="TensorBoard is not installed") as error:
        weft.train(made_up_pairs(60), out=tmp_path / "run", steps=1, settings={**SMALL, "train.tensorboard": True})
    assert "pip install tensorboard" in error.value.todo
    assert not RunFolder(tmp_path / "run").is_run


def test_of_several_validation_sets_the_first_selects_and_the_others_are_scored_at_the_end(tmp_path: Path) -> None:
    files = []
    for name, count in (("train", 120), ("dev", 30), ("test", 25)):
        files.append(tmp_path / f"{name}.tsv")
        files[-1].write_text("".join(f"{s}\t{t}\n" for s, t in made_up_pairs(count, seed=count)), encoding="utf-8")
    run = weft.train(files[0], valid=files[1:], out=tmp_path / "run", steps=2, settings=SMALL, reporter=Quiet())
    lines = LogFile(run.folder.log).lines()
    assert {line["pairs"] for line in lines if line["kind"] == "evaluation"} == {30}
    (further,) = lines[-1]["further"]
    assert (lines[-1]["pairs"], further["pairs"], further["of"], further["file"]) == (30, 25, 25, str(files[2]))
    assert further["exact"] == run.evaluate(files[2])["exact"]
    assert f"| {files[2]} | 25 of 25 |" in (run.path / "README.md").read_text(encoding="utf-8")
    weft.train(out=tmp_path / "run", resume=True, reporter=Quiet())


def test_a_further_validation_set_that_cannot_be_read_is_told_before_training(tmp_path: Path) -> None:
    train_file, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    for path in (train_file, dev):
        path.write_text("".join(f"{s}\t{t}\n" for s, t in made_up_pairs(60)), encoding="utf-8")
    with pytest.raises(UserError, match="there is no such file"):
        weft.train(train_file, valid=[dev, tmp_path / "absent.tsv"], out=tmp_path / "run", steps=1, reporter=Quiet())
    assert not (tmp_path / "run").exists()


def test_a_run_that_ends_before_its_time_says_so(weft: Weft, tiny_pairs: Path, tmp_path: Path) -> None:
    flags = ("--budget", "5m", "--set", "train.max_epochs=2", "--set", "train.evaluations=1")
    small = ("--set", "encoder.width=8", "--set", "decoder.width=8", "--set", "embed.width=8")
    done = weft("train", tiny_pairs, *flags, *small, "--out", tmp_path / "run")
    assert "the budget was 5m00s, but training ended at train.max_epochs=2 (0: use all of the time)" in done.out
    assert "The budget was 5m00s, but training ended" in (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    again = weft("train", tiny_pairs, "--steps", "2", *small, "--out", tmp_path / "other")
    assert "but training ended" not in again.out
