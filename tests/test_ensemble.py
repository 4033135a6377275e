"""Several runs as one: the mean of their probabilities, computed by hand; and what cannot predict together."""

# M models · V symbols

from __future__ import annotations

import json
import math
import random
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import weft as package
from commands import Weft, refused
from conftest import SMALL, made_up_pairs
from test_search import CPU, END, FIRST, START, TEXT, Table, found, plan
from variants import layer, transformer
from weft.api import Run
from weft.core.errors import UserError
from weft.core.kinds import Batch, Column
from weft.core.pair import Pair
from weft.core.shapes import Symbols
from weft.nn.assemble import assemble
from weft.runs.report import Quiet
from weft.search.beam import beam
from weft.search.decode import SearchPlan, decode
from weft.search.ensemble import Ensemble
from weft.search.rules import Rules
from weft.settings import Layer, compose

Source = tuple[list[int], ...]
PLAIN = {**SMALL, "data.unseen": "unknown"}


def log_mean(*log_probs: float) -> float:
    return math.log(sum(math.exp(p) for p in log_probs) / len(log_probs))


# --- models that are tables


def sources(count: int, models: int = 2, seed: int = 1) -> list[Source]:
    """Each model's own symbols, of its own length."""
    rng = random.Random(seed)
    return [tuple([rng.choice(TEXT) for _ in range(rng.randint(0, 5))] for _ in range(models)) for _ in range(count)]


def token_scores(models: list[Table], source: Source, ids: tuple[int, ...]) -> list[float]:
    said = [*ids, END]
    return [
        log_mean(*(float(m.log_probs((*own, END), (START, *said[:t]))[s]) for m, own in zip(models, source)))
        for t, s in enumerate(said)
    ]


@pytest.mark.parametrize("models", [1, 2, 3])
@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_scores_are_the_logarithm_of_the_mean_probability(kind: str, models: int) -> None:
    tables, lines = [Table(seed) for seed in range(models)], sources(20, models)
    how = plan(kind, nbest=1 if kind == "greedy" else 3)
    for source, each in zip(lines, found(Ensemble(tables), lines, how)):
        for h in each:
            assert list(h.token_scores) == pytest.approx(token_scores(tables, source, h.ids), abs=1e-5)


def test_a_wide_beam_is_the_enumeration_of_the_mean() -> None:
    tables, limit = [Table(1), Table(2)], 2
    for source in sources(5):
        read = Column.of_ids(source)
        both = Column(read.values[None], read.mask[None])
        ours = beam(Ensemble(tables), both, torch.tensor([limit]), Rules(first_symbol=FIRST), 100, 1.0)[0]
        outputs = [ids for length in range(limit + 1) for ids in product(TEXT, repeat=length)]
        ranks = {ids: sum(token_scores(tables, source, ids)) / (len(ids) + 1) for ids in outputs}
        assert [h.ids for h in ours] == sorted(outputs, key=lambda ids, r=ranks: -r[ids])


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
def test_a_line_does_not_depend_on_its_batch(kind: str) -> None:
    model, lines = Ensemble([Table(3), Table(4)]), sources(60)
    how = plan(kind, nbest=1 if kind == "greedy" else 3)
    alone = [found(model, [line], how, lines=[n])[0] for n, line in enumerate(lines)]
    order = random.Random(1).sample(range(60), 60)
    for batch_lines in (1, 7, 60):
        mixed = found(model, [lines[n] for n in order], how, lines=order, batch_lines=batch_lines)
        assert mixed == [alone[n] for n in order]


def test_a_model_twice_is_the_model_once() -> None:
    lines = [own for own, _ in sources(20)]
    once, twice = (
        found(model, read, plan("beam"))
        for model, read in ((Table(5), lines), (Ensemble([Table(5), Table(5)]), [(line, line) for line in lines]))
    )
    for a, b in zip(once, twice):
        assert a[0].ids == b[0].ids
        assert a[0].score == pytest.approx(b[0].score, abs=1e-5)


# --- real models of different families

FAMILIES: dict[str, Layer] = {
    "recurrent": layer(),
    "transformer": layer(encoder=transformer(), decoder=transformer(), embed__positions="alibi"),
    "copy": layer(head__kind="copy", decoder__cell="gru"),
}


def real_model(name: str, source_symbols: int) -> Any:
    torch.manual_seed(len(name))
    spec, copies = compose(("flag", FAMILIES[name])).spec, [5] * source_symbols
    model = assemble(spec, Symbols(source_symbols), Symbols(14), copies=copies).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


@pytest.mark.parametrize("families", [("recurrent", "transformer"), ("transformer", "copy", "recurrent")])
def test_families_predict_together_each_from_its_own_symbols(families: tuple[str, ...]) -> None:
    sizes = (9, 30, 17)
    models = [real_model(name, size) for name, size in zip(families, sizes)]
    rng = random.Random(2)
    lines = [
        tuple([rng.randrange(4, size) for _ in range(rng.randint(1, 3 * m + 2))] for m, size in enumerate(sizes))
        for _ in range(30)
    ]
    lines = [line[: len(models)] for line in lines]
    ours = decode(Ensemble(models), lines, SearchPlan("beam", nbest=2, max_extra=4), CPU)
    for source, each in zip(lines, ours):
        for h in each:
            said = [
                model(Batch.of([own], [h.ids])).log_probs[0].detach() for model, own in zip(models, source)
            ]  # all at once, alone
            wanted = [log_mean(*(float(p[t, s]) for p in said)) for t, s in enumerate((*h.ids, END))]
            assert list(h.token_scores) == pytest.approx(wanted, abs=1e-4)


# --- runs


@pytest.fixture(scope="module")
def tiny_run(tiny_pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """As everywhere, but with no stand-ins among its target symbols: what reads bytes has none."""
    out = tmp_path_factory.mktemp("first") / "run"
    return package.train(tiny_pairs, out=out, steps=12, settings=PLAIN, reporter=Quiet())


@pytest.fixture(scope="module")
def other_run(tiny_pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The pairs of `tiny_run`, read as bytes by a Transformer."""
    settings = {
        "source.tokens": "bytes",
        **{f"{side}.{name}": value for side in ("encoder", "decoder") for name, value in transformer().items()},
        "embed.width": 16,
        "embed.positions": "rotary",
    }
    out = tmp_path_factory.mktemp("other") / "run"
    return package.train(tiny_pairs, out=out, steps=12, settings=settings, reporter=Quiet())


@pytest.fixture
def together(tiny_run: Run, other_run: Run) -> Run:
    return package.load(tiny_run.path, other_run.path)


WORDS = [source for source, _ in made_up_pairs(12, seed=9)]


def right_or_not(count: int = 12) -> list[Pair]:
    return [Pair(source, target) for source, target in made_up_pairs(count, seed=9)]


def test_runs_predict_together_by_the_mean_of_their_probabilities(together: Run, tiny_run: Run, other_run: Run) -> None:
    each = [tiny_run.predictor, other_run.predictor]
    for word, prediction in zip(WORDS, together.predict(WORDS)):
        best = prediction.outputs[0]
        ids = each[0].target.encode(best.text)
        said = [p.model(Batch.of(p.source.encode_sources([Pair(word)]), [ids])).log_probs[0].detach() for p in each]
        wanted = [log_mean(*(float(p[t, s]) for p in said)) for t, s in enumerate([*ids, END])]
        assert list(best.token_scores) == pytest.approx(wanted, abs=1e-4)


def test_the_loss_of_runs_together_is_that_of_the_mean(together: Run, tiny_run: Run, other_run: Run) -> None:
    pairs, total, count = right_or_not(), 0.0, 0
    for pair in pairs:
        ids = tiny_run.predictor.target.encode(pair.target)
        said = [
            p.model(Batch.of(p.source.encode_sources([pair]), [ids])).log_probs[0].detach()
            for p in (tiny_run.predictor, other_run.predictor)
        ]
        total -= sum(log_mean(*(float(p[t, s]) for p in said)) for t, s in enumerate([*ids, END]))
        count += len(ids) + 1
    assert together.predictor.teacher_forced(pairs)["loss"] == pytest.approx(total / count, rel=1e-4)
    assert together.evaluate(pairs)["loss"] == pytest.approx(total / count, rel=1e-4)
    alone = [run.evaluate(pairs)["loss"] for run in (tiny_run, other_run)]
    assert total / count < max(alone)


def test_an_evaluation_of_runs_together_scores_their_outputs(together: Run) -> None:
    pairs = right_or_not()
    found = together.evaluate(pairs)
    assert found.outputs == [p.text for p in together.predict([pair.source for pair in pairs])]
    assert found["exact"] == pytest.approx(
        100 * sum(o == pair.target for o, pair in zip(found.outputs, pairs)) / len(pairs)
    )


def test_runs_predict_together_on_the_command_line(weft: Weft, together: Run, tiny_run: Run, other_run: Run) -> None:
    wanted = [p.text for p in together.predict(WORDS)]
    done = weft("predict", tiny_run.path, "-", "--with", other_run.path, stdin="\n".join(WORDS))
    assert (done.code, done.lines) == (0, wanted)
    alone = weft("predict", tiny_run.path, "-", stdin="\n".join(WORDS))
    assert alone.lines != wanted
    several = weft("predict", tiny_run.path, "-", "--with", other_run.path, "--with", tiny_run.path, stdin="abc\n")
    assert several.code == 0


def test_runs_are_evaluated_together_on_the_command_line(
    weft: Weft, together: Run, tiny_run: Run, other_run: Run, tmp_path: Path
) -> None:
    pairs = right_or_not()
    file = tmp_path / "test.tsv"
    file.write_text("".join(f"{p.source}\t{p.target}\n" for p in pairs), encoding="utf-8")
    done = weft("evaluate", tiny_run.path, file, "--with", other_run.path, "--json")
    assert done.code == 0
    said = json.loads(done.out)
    wanted = together.evaluate(pairs)
    assert {name: said[name] for name in wanted} == pytest.approx(dict(wanted))
    assert said["n"] == 12


# --- a run from another machine


def test_a_run_that_was_trained_on_a_device_which_is_not_here_predicts_with_a_warning(
    tiny_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    moved = tmp_path / "moved"
    shutil.copytree(tiny_run.path, moved, symlinks=True)
    spec = yaml.safe_load((moved / "spec.yaml").read_text(encoding="utf-8"))
    spec["train"]["device"] = "cuda"
    (moved / "spec.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
    (moved / "manifest.json").unlink()
    with pytest.warns(UserWarning, match="this machine has no cuda device that torch can use: cpu is used instead"):
        predictor = package.load(moved).predictor
    assert predictor.device == torch.device("cpu")
    said = predictor.predict([Pair(word) for word in WORDS])
    assert [p.text for p in said] == [p.text for p in tiny_run.predict(WORDS)]


# --- what cannot predict together


@pytest.fixture(scope="module")
def strangers(tiny_pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Runs with other target symbols, and by CTC."""
    folder = tmp_path_factory.mktemp("strangers")
    upper = folder / "upper.tsv"
    upper.write_text(tiny_pairs.read_text(encoding="utf-8").replace("h", "H"), encoding="utf-8")
    ctc = {"encoder.width": 16, "embed.width": 16, "head.kind": "ctc"}
    return {
        "symbols": package.train(upper, out=folder / "symbols", steps=2, settings=PLAIN, reporter=Quiet()),
        "ctc": package.train(tiny_pairs, out=folder / "ctc", steps=2, settings=ctc, reporter=Quiet()),
    }


REASONS = {
    "symbols": (
        "the target vocabulary of this run differs from that of the first run (12 and 12 tokens)",
        "trained on the same pairs",
    ),
    "ctc": (
        "CTC models cannot be combined in an ensemble",
        "leave the run out, or use runs with head.kind=tokens or copy",
    ),
}


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("kind", REASONS)
def test_runs_that_cannot_share_a_choice_are_refused(
    weft: Weft, tiny_run: Run, strangers: dict[str, Run], tiny_pairs: Path, kind: str, command: str
) -> None:
    done = weft(command, tiny_run.path, tiny_pairs, "--with", strangers[kind].path)
    refused(done, *REASONS[kind], str(strangers[kind].path))


def test_a_ctc_run_is_refused_as_the_first_one_too(tiny_run: Run, strangers: dict[str, Run]) -> None:
    with pytest.raises(UserError, match="CTC models cannot be combined in an ensemble"):
        package.load(strangers["ctc"].path, tiny_run.path)


def test_a_run_that_is_not_there_is_refused(weft: Weft, tiny_run: Run) -> None:
    refused(weft("predict", tiny_run.path, "-", "--with", "nowhere", stdin="abc\n"), "no such run folder", "nowhere")
