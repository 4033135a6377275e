"""Notes: cells, encoding, emissions, models, and runs that learn them, from the file to the answer."""

# B batch · T steps · K notes

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.distributions import Bernoulli

from commands import Weft, refused
from processes import Started
from variants import NOTES
from weft.api import Run, train
from weft.core.densities import Bits
from weft.core.errors import UserError
from weft.core.kinds import Batch, Column
from weft.core.noise import Noise
from weft.core.pair import Pair
from weft.core.shapes import Notes as NotesShape
from weft.core.shapes import Nothing
from weft.data.cells import Kinds
from weft.data.corpus import write_corpus
from weft.data.formats import Fault, ReadReport
from weft.data.pairs import read_pairs
from weft.data.sides.notes import ALL, PIANO, Notes, learned, note_name, parse
from weft.data.sides.table import recognised, side_from_json
from weft.learn.objectives import Likelihood
from weft.nn.assemble import assemble
from weft.predict.predictor import Predictor
from weft.runs.report import Quiet
from weft.score.metrics import table_of
from weft.settings import compose

SMALL = {"encoder.width": 16, "decoder.width": 16, "embed.width": 16, "train.evaluations": 2, "train.rate": 0.01}
FAST = {"train.batch_tokens": 256, "train.dropout": 0}
K = 5
each_model = pytest.mark.parametrize("name", NOTES)

# cells ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cell", "what"), [
    ("[[60], [128]]", "step 2 holds 128, and there is no such note"),
    ("[[-1]]", "step 1 holds -1, and there is no such note"),
    ('[[60], ["C4"]]', "step 2 holds 'C4', which is not a note"),
    ("[[60.5]]", "step 1 holds 60.5, which is not a note"),
    ("[[true]]", "step 1 holds True, which is not a note"),
    ("[60, 62]", "step 1 is 60, not a list"),
    ("[]", "the tune is empty"),
    ("C4 E4", "'C4 E4' is not a list of lists of notes"),
    ("[" * 5000, "is not a list of lists of notes"),
    ('{"a": 1}', "is not a list of lists of notes"),
])  # fmt: skip
def test_a_cell_that_holds_no_notes_is_refused_with_the_reason(cell: str, what: str) -> None:
    with pytest.raises(Fault) as fault:
        parse(cell)
    assert what in fault.value.what


@pytest.mark.parametrize(("cells", "kind"), [
    (["[[60, 64], [62]]"], "notes"),
    (["[[60], []]"], "notes"),
    (["[[60, 64], [62, 65]]"], "numbers"),  # as many in every step: numbers, unless the setting says otherwise
    (["[[60], [62]]", "[[60, 64], [62, 65]]"], "notes"),
    (["[[60, 64], [200]]"], "numbers"),  # of which it is a bad row
    (["[[60, 64], [62]]", "words"], "text"),
])  # fmt: skip
def test_lists_of_integers_of_different_lengths_are_notes(cells: list[str], kind: str) -> None:
    assert recognised(cells) == kind


def test_a_melody_beside_notes_is_notes_and_beside_numbers_numbers(tmp_path: Path) -> None:
    for other, kind in (("[[48, 52], [50]]", "notes"), ("[[1.5], [2]]", "numbers")):
        path = tmp_path / f"{kind}.tsv"
        path.write_text(f"[[60], [62]]\t{other}\n" * 3)
        report = ReadReport()
        pairs = list(read_pairs([str(path)], report=report, kinds=Kinds()))
        assert report.kinds == {"source": kind, "target": kind}
        assert len(pairs) == 3


def test_bad_notes_are_named_by_their_line_and_a_rest_may_come_first(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"source": "a", "target": [[], [60]]}, {"source": "b", "target": [[60, 300]]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError) as error:
        list(read_pairs([str(path)], kinds=Kinds("text", "notes")))
    assert error.value.where == f"{path}:2"
    assert "step 1 holds 300" in error.value.what


# sides ----------------------------------------------------------------------------------------------------------------


def test_notes_are_bits_and_back_again() -> None:
    side = Notes(*PIANO)
    (row,) = side.rows([Pair("x", "[[60, 21], [], [108, 108]]")], "target")
    assert row.shape == (3, 88)
    assert np.asarray(row).sum(1).tolist() == [2, 0, 1]
    assert side.text(row, Pair("x", "")) == "[[21, 60], [], [108]]"
    assert side_from_json(side.to_json(), "target.json") == side
    assert note_name(60) == "C4"


def test_other_notes_than_those_of_a_piano_take_all_there_are() -> None:
    survey = {"lowest": 21, "highest": 108, "shortest": 1, "longest": 9}
    assert learned(survey).shape == NotesShape(88)
    assert learned({**survey, "highest": 109}) == Notes(*ALL, 1, 9)


def test_a_corpus_keeps_a_bit_for_each_note(tmp_path: Path) -> None:
    side, cells = Notes(*PIANO), ["[[60, 64]]", "[[21], [], [108]]"]
    corpus = write_corpus([Pair(cell, cell) for cell in cells], side, side, tmp_path / "corpus")
    assert (tmp_path / "corpus" / "target.notes").stat().st_size == 4 * 11
    batch = corpus.batch([0, 1])
    assert batch.wanted.values.shape == (2, 3, 88)
    assert side.text(batch.wanted.values[1].numpy(), Pair("", "")) == cells[1]
    assert batch.wanted.mask.tolist() == [[True, False, False], [True, True, True]]


# emissions ------------------------------------------------------------------------------------------------------------


def same(a: Tensor, b: Tensor, within: float = 1e-5) -> None:
    torch.testing.assert_close(a, b, atol=within, rtol=1e-4)


def bits(lengths: list[int], seed: int = 1, notes: int = K) -> Column:
    draw = np.random.default_rng(seed)
    return Column.of_vectors([(draw.random((length, notes)) < 0.4).astype(np.uint8) for length in lengths])


def test_the_likelihood_is_that_of_torchs_bernoulli_summed_over_notes() -> None:
    torch.manual_seed(1)
    logits, wanted = torch.randn(3, 4, K), bits([4, 2, 3])
    theirs = -Bernoulli(logits=logits).log_prob(wanted.values).sum(-1)
    same(Bits(logits).nll(wanted), theirs.masked_fill(~wanted.mask, 0.0))


def test_the_best_notes_are_those_more_likely_than_not_and_draws_have_their_probabilities() -> None:
    logits = torch.tensor([[[-2.0, 0.5, 3.0]]])
    assert Bits(logits).best().tolist() == [[[0, 1, 1]]]
    drawn = [Bits(logits).draw(Noise([np.random.default_rng(seed)])) for seed in range(4000)]
    same(torch.stack(drawn).mean(0), logits.sigmoid(), within=0.03)


def test_several_models_predict_the_mean_probability_of_each_note() -> None:
    torch.manual_seed(1)
    first, second = torch.randn(2, 3, K) * 4, torch.randn(2, 3, K) * 4
    both = Bits(first).mean([Bits(second)])
    same(both.logits.sigmoid(), (first.sigmoid() + second.sigmoid()) / 2)


# models ---------------------------------------------------------------------------------------------------------------


def build(name: str) -> Any:
    torch.manual_seed(1)
    context = Nothing() if name.endswith("alone") else NotesShape(3)
    model = assemble(compose(("flag", NOTES[name])).spec, NotesShape(4), NotesShape(K), context)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


built = cache(build)


def batch_of(name: str) -> Batch:
    beside = [6, 2, 4, 1] if "step" in name else [2, 5, 1, 3]
    context = None if name.endswith("alone") else bits(beside, 3, 3)
    return Batch.between(bits([3, 7, 1, 5], 1, 4), bits([6, 2, 4, 1], 2), context)


@each_model
def test_padding_and_other_rows_change_nothing(name: str) -> None:
    model, batch = built(name), batch_of(name)
    with torch.inference_mode():
        together = model(batch).nll(batch.wanted)
        for row in range(batch.size):
            alone = batch.rows(slice(row, row + 1))
            real = int(alone.wanted.mask.sum())
            trimmed = [Column(c.values[:, : c.mask.sum()], c.mask[:, : c.mask.sum()])
                       for c in (alone.source, alone.wanted, alone.context) if c is not None]  # fmt: skip
            short = Batch.between(*trimmed)
            same(together[row, :real], model(short).nll(short.wanted)[0])
            assert (together[row, real:] == 0).all()


@each_model
def test_step_by_step_equals_all_at_once_and_sees_nothing_later(name: str) -> None:
    model, batch = built(name), batch_of(name)
    with torch.inference_mode():
        whole = model(batch).logits
        state = model.begin(batch.source, batch.context)
        for step, y in enumerate(batch.given.values.unbind(1)):
            emission, state = model.emit(y, state)
            real = batch.wanted.mask[:, step]
            same(emission.logits[:, 0][real], whole[:, step][real])
        values = batch.given.values.clone()
        values[:, 3] = 1 - values[:, 3]
        after = model(replace(batch, given=Column(values, batch.given.mask))).logits
        same(after[:, :3], whole[:, :3], within=1e-6)
        assert (after[0, 3] - whole[0, 3]).abs().amax() > 1e-5


@each_model
def test_every_parameter_gets_a_gradient(name: str) -> None:
    model, batch = build(name), batch_of(name)
    loss = Likelihood()(model(batch), batch)
    (loss.total / loss.count).backward()
    softmax_does_not_see = ("key.bias", "scores.0.to_key.bias")
    missing = [key for key, p in model.named_parameters() if p.grad is None or not bool(p.grad.abs().amax() > 1e-9)]
    assert [key for key in missing if not key.endswith(softmax_does_not_see)] == []


# scores ---------------------------------------------------------------------------------------------------------------


def test_note_f1_counts_notes_at_their_steps() -> None:
    f1 = table_of("notes")["note_f1"]
    assert f1.of_line("[[60, 64], [62]]", ["[[60], [64]]"]) == pytest.approx(100 * 2 * 1 / (3 + 2))
    assert f1.of_line("[[60]]", ["[[60], [62]]"]) == pytest.approx(100 * 2 / 3), "a missing step is missing notes"
    assert f1.of_line("[[], []]", ["[[], []]"]) == 100
    assert f1.of_line("[[], []]", ["[[60], []]"]) == 0


# whole runs -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Melodies of 3 to 20 steps, each with an octave and, on some steps, a fifth below it."""
    draw, rows = random.Random(1), []
    for _ in range(80):
        melody = [[draw.choice([60, 62, 64, 65, 67])] for _ in range(draw.randint(3, 20))]
        harmony = [[step[0] - 12, *([step[0] - 5] if step[0] > 63 else [])] for step in melody]
        rows.append({"melody": melody, "harmony": harmony, "part": draw.choice("ab")})
    path = tmp_path_factory.mktemp("notes") / "songs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def run(table: Path) -> Run:
    out = table.with_name("run")
    settings: dict[str, Any] = {**SMALL, **FAST, "data.context": "melody"}
    return train(table, source="part", target="harmony", out=out, steps=150, settings=settings, reporter=Quiet())


def test_a_run_learns_notes_scores_them_and_predicts_json(run: Run, table: Path, weft: Weft, tmp_path: Path) -> None:
    assert (run.spec.context.kind, run.spec.target.kind) == ("notes", "notes")
    assert (run.spec.context.use, run.spec.numbers.stop) == ("step", "context")
    lines = tmp_path / "lines.tsv"
    scores = json.loads(weft("evaluate", run.path, table, "--json", "--by", "part", "--lines", lines).out)
    assert {"nll", "note_f1", "loss", "n", "by"} <= set(scores)
    assert scores["note_f1"] > 60
    assert scores["nll"] == pytest.approx(scores["loss"])
    assert run.evaluate(table)["nll"] == pytest.approx(scores["nll"], abs=1e-4)
    steps = sum(len(json.loads(line)["melody"]) for line in table.read_text().splitlines())
    _, *rows = [line.split("\t") for line in lines.read_text().splitlines()]
    assert -sum(float(row[-1]) for row in rows) / steps == pytest.approx(scores["nll"], abs=1e-3)
    done = weft("predict", run.path, stdin="a\t[[60], [64], [67]]\n\nb\t[[62]]\n")
    first, blank, last = done.out.split("\n")[:3]
    assert [len(json.loads(cell)) for cell in (first, last)] == [3, 1]
    assert blank == ""


def test_a_survey_of_notes_is_shown(table: Path, weft: Weft) -> None:
    done = weft("data", table, "--source", "part", "--target", "harmony", "--context", "melody")
    assert done.code == 0, done.err
    for words in ("48 to 62 (C3 to D4)", "60 to 67 (C4 to G4)", "3 to 20, mean", "target: notes", "context: notes"):
        assert words in done.out


def test_samples_of_notes_differ_and_are_the_same_for_the_same_seed(run: Run) -> None:
    pairs = [Pair("a", context="[[60], [64], [67]]")] * 2
    drawn = [run.predict(pairs, search={"kind": "sample", "seed": 3}, nbest=3) for _ in range(2)]
    outputs = [[[output.text for output in line.outputs] for line in each] for each in drawn]
    assert outputs[0] == outputs[1]
    assert len({text for line in outputs[0] for text in line}) > 1


def test_a_prediction_of_notes_does_not_depend_on_the_other_lines(run: Run) -> None:
    draw = random.Random(2)
    melodies = [json.dumps([[draw.choice([60, 64, 67])] for _ in range(1 + n)]) for n in range(40)]
    pairs = [Pair("a", context=melody) for melody in melodies]
    together = run.predict(pairs)
    for n in (0, 7, 20, 33):
        alone = run.predict([pairs[n]])[0]
        assert (alone.text, alone.score) == (together[n].text, together[n].score)


def test_what_notes_have_not_is_refused(run: Run, weft: Weft) -> None:
    line = "a\t[[60], [64]]\n"
    refused(weft("predict", run.path, "--beam", "3", stdin=line), "--beam", "beam search needs tokens")
    refused(weft("predict", run.path, "--prefix", "a", stdin=line), "--prefix", "notes, which have no prefix")
    refused(
        weft("predict", run.path, "--nbest", "2", "--format", "tsv", stdin=line), "--nbest", "the most probable notes"
    )
    refused(weft("predict", run.path, stdin="a\t[[60], [110]]\n"), "knows the notes 21 to 108")
    refused(weft("predict", run.path, stdin="a\t[[60], [C4]]\n"), "is not a list of lists of notes")


def test_a_run_of_notes_that_is_killed_and_resumed_ends_with_the_same_weights(table: Path, tmp_path: Path) -> None:
    settings, roles = (
        {**SMALL, "train.evaluations": 6},
        {"source": "melody", "target": "harmony"},
    )
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    flags += [part for name, value in roles.items() for part in (f"--{name}", value)]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    threads = str(torch.get_num_threads())
    process = Started(
        tmp_path / "streams", "train", table, "--out", killed, "--steps", 40, *flags, OMP_NUM_THREADS=threads
    )
    process.wait_for(lambda: any((killed / "checkpoints").glob("step-*")))
    process.kill()
    assert not (killed / "README.md").exists(), "the run was over before it was killed: make it longer"
    train(out=killed, resume=True, reporter=Quiet())
    train(table, out=whole, steps=40, settings=settings, reporter=Quiet(), **roles)
    ours, theirs = (load_file(folder / "last" / "weights.safetensors") for folder in (killed, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_several_models_predict_notes_together(table: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SMALL, "train.members": 2, "train.side_by_side": 1}
    run = train(
        table, source="melody", target="harmony", out=tmp_path / "run", steps=3, settings=settings, reporter=Quiet()
    )
    assert (run.spec.source.kind, run.spec.numbers.stop) == ("notes", "source")
    assert len(json.loads(run.predict(["[[60], [64], [67]]"])[0].text)) == 3
    both, alone = Predictor.load(run.path), Predictor.load(run.path, alone=True)
    assert len(both.others) == 1
    pairs = [Pair("[[60], [64]]", "[[48], [52]]")]
    assert both.teacher_forced(pairs)["nll"] != alone.teacher_forced(pairs)["nll"]
    assert "nll" in (run.path / "README.md").read_text()


def test_kinds_of_models_of_notes_are_compared_by_nll(table: Path, weft: Weft) -> None:
    small = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    options = ["--source", "melody", "--target", "harmony", "--steps", "4", "--vary", "decoder.cell=gru,lstm"]
    done = weft("compare", table, *options, "--seeds", "1", "--out", "compared", *small)
    assert done.code == 0, done.err
    results = [json.loads(line) for line in Path("compared/results.jsonl").read_text().splitlines()]
    assert {line["metric"] for line in results} == {"nll"}
    assert all(line["valid"]["metrics"]["nll"] > 0 for line in results)
