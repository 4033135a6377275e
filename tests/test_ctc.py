"""CTC against full enumeration: every path of some random frames is written out, merged and summed."""

# S frames · V symbols · B batch

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import dataclass
from itertools import groupby, pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from commands import Weft
from weft.cli.main import app
from weft.core.emissions import Choice
from weft.core.errors import UserError
from weft.core.kinds import Batch, Column, Hypothesis
from weft.core.pair import PAD, Pair
from weft.data import corpus as corpora
from weft.data.corpus import write_corpus
from weft.data.text.tokens import learn
from weft.learn.objectives import Ctc
from weft.runs.report import Quiet
from weft.search import ctc
from weft.search.ctc import best_path, merged, prefix_beam, scored
from weft.search.decode import SearchPlan, decode
from weft.search.rules import Rules

if TYPE_CHECKING:
    from weft.api import Run

Frames = npt.NDArray[np.float64]
Ids = tuple[int, ...]
BLANK = PAD
CPU = torch.device("cpu")


def some_frames(seed: int, length: int, symbols: int, spread: float = 1.5) -> Frames:
    logits = np.random.default_rng(seed).normal(scale=spread, size=(length, symbols))
    found: Frames = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return found


def said_by(path: tuple[int, ...]) -> Ids:
    """Equal neighbours as one, without blanks."""
    return tuple(symbol for symbol, _ in groupby(path) if symbol != BLANK)


def enumeration(frames: Frames) -> dict[Ids, float]:
    """The probability of every output: the sum over its paths."""
    found: Counter[Ids] = Counter()
    for path in product(range(frames.shape[1]), repeat=len(frames)):
        found[said_by(path)] += math.exp(sum(frames[t, s] for t, s in enumerate(path)))
    return dict(found)


def ranked(outputs: dict[Ids, float]) -> list[Ids]:
    return sorted((ids for ids in outputs if outputs[ids] > 0), key=lambda ids: -outputs[ids])


SIZES = [(1, 3), (2, 4), (4, 3), (5, 3), (4, 4), (6, 2)]
each_size = pytest.mark.parametrize(("length", "symbols"), SIZES)


# --- melting


@pytest.mark.parametrize(
    ("path", "output"),
    [
        ([0, 0, 0], ()),
        ([1, 1, 1], (1,)),
        ([1, 0, 1], (1, 1)),
        ([0, 1, 1, 0, 0, 1, 2, 2], (1, 1, 2)),
        ([2, 1, 2], (2, 1, 2)),
        ([5], (5,)),
    ],
)
def test_equal_neighbours_melt_and_then_blanks_go(path: list[int], output: Ids) -> None:
    assert merged(np.array(path)) == output == said_by(tuple(path))


# --- the probability of an output


@each_size
@pytest.mark.parametrize("seed", range(3))
def test_the_score_of_an_output_is_the_sum_over_its_paths(length: int, symbols: int, seed: int) -> None:
    frames = some_frames(seed, length, symbols)
    outputs = enumeration(frames)
    assert sum(outputs.values()) == pytest.approx(1)
    for ids, probability in outputs.items():
        found = scored(frames, ids)
        assert found.ids == ids
        assert found.score == pytest.approx(math.log(probability), abs=1e-9)
        assert found.log_prob == pytest.approx(found.score, abs=1e-9)


@each_size
def test_token_scores_are_the_chain_of_begins_with(length: int, symbols: int) -> None:
    frames = some_frames(5, length, symbols)
    outputs = enumeration(frames)

    def begins(prefix: Ids) -> float:
        return math.log(sum(p for ids, p in outputs.items() if ids[: len(prefix)] == prefix))

    for ids, probability in outputs.items():
        chain = [begins(ids[: n + 1]) - begins(ids[:n]) for n in range(len(ids))]
        found = scored(frames, ids).token_scores
        assert found == pytest.approx((*chain, math.log(probability) - begins(ids)), abs=1e-9)
        assert max(found) <= 1e-9


@pytest.mark.parametrize("ids", [(1, 1), (1, 2, 1), (1,) * 5, (2, 2, 2)])
def test_an_output_that_needs_more_frames_than_there_are_is_impossible(ids: Ids) -> None:
    frames = some_frames(1, 2, 3)
    found = scored(frames, ids)
    assert found.score == -math.inf
    assert len(found.token_scores) == len(ids) + 1
    assert not any(math.isnan(s) for s in found.token_scores)


def test_an_output_with_a_symbol_that_is_never_said_is_impossible() -> None:
    frames = some_frames(1, 4, 4)
    frames[:, 3] = -math.inf
    assert scored(frames, (1, 3)).score == -math.inf
    assert scored(frames, (1, 2)).score > -math.inf


# --- searching


@each_size
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_prefix_beam_is_full_enumeration(length: int, symbols: int, seed: int) -> None:
    frames = some_frames(seed, length, symbols)
    outputs = enumeration(frames)
    found = prefix_beam(frames, 1000)
    assert [h.ids for h in found] == ranked(outputs)
    assert [math.exp(h.score) for h in found] == pytest.approx([outputs[h.ids] for h in found], abs=1e-9)


@pytest.mark.parametrize("width", [1, 2, 3, 8])
def test_a_narrow_prefix_beam_gives_different_outputs_with_exact_scores_the_best_first(width: int) -> None:
    for seed in range(20):
        frames = some_frames(seed, 6, 4)
        found = prefix_beam(frames, width)
        assert 0 < len(found) <= width
        assert len({h.ids for h in found}) == len(found)
        assert found == sorted((scored(frames, h.ids) for h in found), key=lambda h: -h.score)


def test_a_wider_prefix_beam_finds_better_outputs_on_the_whole() -> None:
    frames = [some_frames(seed, 7, 5, spread=0.8) for seed in range(40)]
    totals = [sum(prefix_beam(f, width)[0].score for f in frames) for width in (1, 3, 200)]
    assert totals == sorted(totals)
    assert totals[0] < totals[2] - 1
    assert sum(best_path(f).score for f in frames) < totals[2] - 1


@each_size
def test_the_best_path_says_the_best_symbol_at_each_frame(length: int, symbols: int) -> None:
    for seed in range(10):
        frames = some_frames(seed, length, symbols)
        found = best_path(frames)
        path = tuple(max(range(symbols), key=lambda s, f=frame: f[s]) for frame in frames)
        assert found == scored(frames, said_by(path))


def test_the_best_path_need_not_be_the_best_output_and_the_beam_finds_that() -> None:
    """Blank at both frames is the best path, but `1` has three paths."""
    frames = np.log(np.array([[0.6, 0.4], [0.6, 0.4]]))
    assert best_path(frames).ids == ()
    assert prefix_beam(frames, 2)[0].ids == (1,)
    assert math.exp(prefix_beam(frames, 2)[0].score) == pytest.approx(1 - 0.36)


# --- the objective


def said_with(frames: Tensor, length: int) -> dict[Ids, float]:
    return enumeration(torch.log_softmax(frames[:length].double(), -1).numpy())


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_objective_is_the_sum_over_all_paths(smoothing: float) -> None:
    torch.manual_seed(1)
    sources, targets = [[4, 4, 4, 4], [4, 4], [4], []], [[4, 4, 5], [5, 4], [], []]
    batch, symbols = Batch.of(sources, targets), 6
    logits = torch.randn(4, 5, symbols)
    loss = Ctc(smoothing)(Choice(logits), batch)
    surprise = spread = 0.0
    for row, (source, target) in enumerate(zip(sources, targets)):
        length = len(source) + 1
        surprise -= math.log(said_with(logits[row], length)[tuple(target)])
        spread -= float(torch.log_softmax(logits[row, :length].double(), -1).mean(-1).sum())
    assert float(loss.total) == pytest.approx((1 - smoothing) * surprise + smoothing * spread, rel=1e-5)
    assert int(loss.count) == 4 + 3 + 1 + 1


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("target", [[4, 5, 4], [4, 4]])
def test_a_target_that_cannot_be_aligned_adds_nothing(smoothing: float, target: list[int]) -> None:
    torch.manual_seed(1)
    logits = torch.randn(2, 4, 6, requires_grad=True)
    both = Ctc(smoothing)(Choice(logits), Batch.of([[4, 4, 4], [5]], [[4, 5], target]))
    alone = Ctc(smoothing)(Choice(logits[:1]), Batch.of([[4, 4, 4]], [[4, 5]]))
    assert float(both.total.detach()) == pytest.approx(float(alone.total.detach()))
    assert (int(both.count), int(alone.count)) == (3, 3)
    both.total.backward()
    assert logits.grad is not None
    assert not logits.grad[1].any()
    assert logits.grad[0].any()


# --- through the one door to all searches


@dataclass(frozen=True)
class Talker:
    """A model whose frames are random, but depend on nothing except the symbol that is read and its place."""

    symbols: int = 8
    spread: float = 1.5

    def frames(self, source: Column) -> tuple[Tensor, Tensor]:
        rows = [[self.frame(place, symbol) for place, symbol in enumerate(line)] for line in source.values.tolist()]
        return torch.stack([torch.stack(row) for row in rows]), source.mask

    def frame(self, place: int, symbol: int) -> Tensor:
        logits = np.random.default_rng((place, symbol)).normal(scale=self.spread, size=self.symbols)
        return torch.log_softmax(torch.from_numpy(logits).float(), -1)


FIRST = 5  # four specials and a mark


def plan(kind: str, **more: Any) -> SearchPlan:
    return SearchPlan(kind, rules=Rules(first_symbol=FIRST), **more)


def lines(count: int, seed: int = 1) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(4, 12) for _ in range(rng.randint(0, 7))] for _ in range(count)]


KINDS = {
    "greedy": plan("greedy"),
    "beam": plan("beam", width=4, nbest=3),
    "sample": plan("sample"),
    "several": plan("sample", nbest=3, temperature=1.5),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_does_not_depend_on_its_batch(kind: str) -> None:
    given = lines(200)
    alone = decode(Talker(), given, KINDS[kind], CPU, batch_lines=1)
    assert decode(Talker(), given, KINDS[kind], CPU, batch_lines=7) == alone
    order = random.Random(2).sample(range(200), 200)
    mixed = decode(Talker(), [given[n] for n in order], KINDS[kind], CPU, lines=order, batch_lines=200)
    assert mixed == [alone[n] for n in order]
    assert len({each[0].ids for each in alone}) > 40


@pytest.mark.parametrize("kind", KINDS)
def test_specials_and_marks_are_never_said(kind: str) -> None:
    for found in decode(Talker(spread=4.0), lines(100), KINDS[kind], CPU):
        assert all(min(h.ids, default=FIRST) >= FIRST for h in found)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_come_the_best_first_and_none_twice(kind: str) -> None:
    for found in decode(Talker(), lines(60), KINDS[kind], CPU):
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        assert len({h.ids for h in found}) == len(found) <= KINDS[kind].nbest


# --- drawing


def draws(count: int, **how: Any) -> list[Hypothesis]:
    return [each[0] for each in decode(Talker(), [[7, 9]] * count, plan("sample", **how), CPU)]


def allowed_frames(temperature: float = 1.0) -> Frames:
    """Those of the line that is drawn from, of the blank and the symbols of text alone."""
    frames = torch.stack([Talker().frame(place, symbol) for place, symbol in enumerate([7, 9, 3])]).double()
    found: Frames = torch.log_softmax(frames[:, [BLANK, *range(FIRST, 8)]] / temperature, -1).numpy()
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_draws_follow_the_probabilities_of_outputs(temperature: float) -> None:
    outputs, count = enumeration(allowed_frames(temperature)), 3000
    seen = Counter(tuple(s - FIRST + 1 for s in h.ids) for h in draws(count, temperature=temperature))
    likely = {ids: p for ids, p in outputs.items() if p * count >= 10}
    rest = count - sum(seen[ids] for ids in likely), 1 - sum(likely.values())
    cells = [(seen[ids], p) for ids, p in likely.items()] + [rest]
    chi_square = sum((n - count * p) ** 2 / (count * p) for n, p in cells)
    degrees = len(cells) - 1
    assert degrees > 5
    assert chi_square < degrees + 4 * math.sqrt(2 * degrees)


@pytest.mark.parametrize("how", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-5}])
def test_drawing_that_leaves_no_choice_is_the_best_path(how: dict[str, float]) -> None:
    given = lines(40)
    assert decode(Talker(), given, plan("sample", **how), CPU) == decode(Talker(), given, plan("greedy"), CPU)


def most_probable(frame: npt.NDArray[np.float64], top_k: int, top_p: float) -> list[int]:
    """The k most probable symbols, or the first that hold mass p."""
    order = np.argsort(-frame).tolist()
    mass = np.cumsum(np.exp(frame[order]))
    return order[:top_k] if top_k else order[: int(np.searchsorted(mass, top_p)) + 1]


@pytest.mark.parametrize("how", [{"top_k": 2}, {"top_k": 3}, {"top_p": 0.6}])
def test_top_k_and_top_p_hold_at_each_frame(how: dict[str, Any]) -> None:
    frames = allowed_frames()
    left = [most_probable(frame, how.get("top_k", 0), how.get("top_p", 1.0)) for frame in frames]
    possible = {said_by(path) for path in product(*left)}
    drawn = {tuple(s - FIRST + 1 for s in h.ids) for h in draws(600, **how)}
    assert drawn <= possible
    assert len(drawn) > len(possible) // 2 > 0
    assert len(possible) < len(enumeration(frames))


def test_the_same_seed_draws_the_same_and_another_one_does_not() -> None:
    one, again, other = ([h.ids for h in draws(20, seed=seed)] for seed in (1, 1, 2))
    assert one == again != other
    assert len(set(one)) > 5


def test_several_draws_stop_where_there_are_no_more_outputs() -> None:
    frames = np.log(np.array([[0.5, 0.5]]))
    found = ctc.drawn(frames, frames, np.random.default_rng(1), 5)
    assert {h.ids for h in found} == {(), (1,)}


# --- which pairs can be learned from


def fits(source: list[int], target: list[int]) -> bool:
    """Some path over the source's places (END is one) says the target."""
    blanks = sum(a == b for a, b in pairwise(target))
    return len(target) + blanks <= len(source) + 1


@pytest.mark.parametrize("block", [1, 3, 1 << 18])
def test_repeats_and_alignable_equal_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(corpora, "BLOCK", block)
    rng = random.Random(3)
    texts = [
        "",
        "",
        *["".join(rng.choices("ab", k=rng.randint(0, 5))) for _ in range(60)],
        "",
        "aa",
        "aa",
        "b",
        "b",
        "",
    ]
    pairs = [Pair("".join(rng.choices("ab", k=rng.randint(0, 5))), text) for text in texts]
    made = learn("characters", 0, ["ab"])
    corpus = write_corpus(pairs, made, made, tmp_path / "corpus")
    rows = [(made.encode(p.source), made.encode(p.target)) for p in pairs]
    assert corpus._target.repeats().tolist() == [sum(a == b for a, b in pairwise(t)) for _, t in rows]
    wanted = [fits(source, target) for source, target in rows]
    assert corpus.alignable().tolist() == wanted
    assert {True, False} == set(wanted)
    source, target = corpus.lengths(aligned=True)
    assert source.tolist() == corpus.source_lengths.tolist()
    for length, alignable, (_, ids) in zip(target.tolist(), wanted, rows):
        assert length == (len(ids) + 1 if alignable else np.iinfo(np.int32).max)


@pytest.mark.parametrize("targets", [["", "", ""], ["a"], ["aaa"]])
def test_repeats_of_corpora_that_are_almost_nothing(tmp_path: Path, targets: list[str]) -> None:
    made = learn("characters", 0, ["a"])
    corpus = write_corpus([Pair("a", t) for t in targets], made, made, tmp_path / "corpus")
    assert corpus._target.repeats().tolist() == [max(0, len(t) - 1) for t in targets]


def test_alignable_is_what_the_objective_can_lay_out() -> None:
    torch.manual_seed(2)
    for source, target in product([[], [4], [4, 4], [4, 4, 4]], [[], [4], [4, 4], [4, 5], [4, 4, 4], [4, 5, 5]]):
        frames = enumeration(some_frames(1, len(source) + 1, 6))
        assert (tuple(target) in frames) is fits(source, target)
        counted = Ctc()(Choice(torch.randn(1, len(source) + 1, 6)), Batch.of([source], [target])).count
        assert bool(counted) is fits(source, target)


# --- a run from pairs to scores


class Listener(Quiet):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


SMALL = {"encoder.width": 32, "embed.width": 16, "head.kind": "ctc", "train.evaluations": 4}


@pytest.fixture(scope="module")
def ctc_pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words and the same words in capitals without their b's; some targets are too long."""
    rng = random.Random(1)
    words = sorted({"a" + "".join(rng.choices("abcd", k=rng.randint(2, 6))) for _ in range(120)})
    rows = [f"{w}\t{w.replace('b', '').upper()}\n" for w in words] + ["a\tAAAA\n", "ab\tABABABA\n"]
    path = tmp_path_factory.mktemp("ctc") / "pairs.tsv"
    path.write_text("".join(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def ctc_run(ctc_pairs: Path) -> Run:
    import weft

    return weft.train(ctc_pairs, out=ctc_pairs.with_name("run"), steps=60, settings=SMALL, reporter=Quiet())


def test_a_run_trains_predicts_and_evaluates(ctc_run: Run, ctc_pairs: Path) -> None:
    assert ctc_run.spec.decoder.kind == "none"
    assert ctc_run.spec.objective.kind == "ctc"
    outputs = [ctc_run.predict(["abcd", "", "dd"], search={"kind": kind}) for kind in ("greedy", "beam", "sample")]
    assert all(len(each) == 3 and each[1].text == "" for each in outputs)
    assert all(len(each[0].outputs[0].tokens) == len(each[0].outputs[0].token_scores) for each in outputs)
    found = ctc_run.evaluate(ctc_pairs)
    assert {"exact", "cer", "loss"} <= set(found)
    assert "accuracy" not in found
    assert math.isfinite(found["loss"])


def test_pairs_of_which_half_are_too_long_and_half_cannot_be_aligned_are_refused(tmp_path: Path) -> None:
    import weft

    path = tmp_path / "pairs.tsv"
    path.write_text(f"{'abcd' * 20}\tA\nab\tABABABA\n" * 30, encoding="utf-8")
    cut = {"source.tokens": "characters", "target.tokens": "characters"}
    settings = {**SMALL, **cut, "data.hold_out": 0, "train.batch_tokens": 16}
    with pytest.raises(UserError, match="no pair fits into a batch of 16"):
        weft.train(path, out=tmp_path / "run", steps=2, settings=settings, reporter=Quiet())


def test_no_loss_is_null_in_json(ctc_run: Run, tmp_path: Path, weft: Weft) -> None:
    path = tmp_path / "long.tsv"
    path.write_text("a\tAAAA\n", encoding="utf-8")
    assert json.loads(weft("evaluate", ctc_run.path, path, "--json").out, parse_constant=pytest.fail)["loss"] is None


def test_a_run_learns(ctc_run: Run) -> None:
    lines = [json.loads(line) for line in (ctc_run.path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = [line["loss"] for line in lines if line["kind"] == "evaluation"]
    assert losses[-1] < 0.9 * losses[0]


def test_the_loss_of_a_run_is_that_of_its_frames_by_enumeration(ctc_run: Run) -> None:
    pairs = [Pair("ab", "A"), Pair("aca", "ACA"), Pair("d", "DD"), Pair("d", "")]  # the third cannot be said
    predictor, total, count = ctc_run.predictor, 0.0, 0
    for pair in (pairs[0], pairs[1], pairs[3]):
        batch = Batch.of(predictor.source.encode_sources([pair]), [predictor.target.encode(pair.target)])
        frames = predictor.model(batch).logits[0].detach()
        wanted = predictor.target.encode(pair.target)
        kept = [BLANK, *sorted(set(wanted))]
        others = torch.log_softmax(frames.double(), -1)[:, kept].numpy()  # paths with other symbols say other outputs
        total -= math.log(enumeration(others)[tuple(kept.index(i) for i in wanted)])
        count += len(wanted) + 1
    assert ctc_run.evaluate(pairs)["loss"] == pytest.approx(total / count, rel=1e-4)


def test_pairs_that_cannot_be_said_are_left_out_and_told(ctc_pairs: Path, tmp_path: Path) -> None:
    import weft

    listener = Listener()
    settings = {**SMALL, "data.hold_out": 0.0}
    weft.train(ctc_pairs, out=tmp_path / "run", steps=2, settings=settings, reporter=listener)
    (told,) = [note for note in listener.notes if "pairs, because CTC cannot produce targets that are longer" in note]
    rows = [line.split("\t") for line in ctc_pairs.read_text(encoding="utf-8").splitlines()]
    lost = sum(not fits(list(source.encode()), list(target.encode())) for source, target in rows)
    assert lost >= 2
    assert told.startswith(f"left out {lost} of {len(rows)} pairs, because ")


def test_data_of_which_no_pair_can_be_said_are_refused(tmp_path: Path) -> None:
    import weft

    pairs = [(word, word * 3) for word in ("ab", "abc", "b", "ca")]
    with pytest.raises(UserError) as caught:
        weft.train(pairs, out=tmp_path / "run", steps=2, settings=SMALL, reporter=Quiet())
    assert caught.value.what.startswith("CTC cannot produce targets that are longer than their sources")
    assert caught.value.what.endswith("all 4 pairs have such targets")
    assert "head.kind=tokens" in caught.value.todo
    assert not (tmp_path / "run").exists()


def test_a_prefix_is_refused(ctc_run: Run) -> None:
    with pytest.raises(UserError, match="no decoder, so it cannot use a prefix"):
        ctc_run.predict(["abc"], prefix="A")
    result = CliRunner().invoke(app, ["predict", str(ctc_run.path), "-", "--prefix", "A"], input="abc\n")
    assert isinstance(result.exception, UserError)
    assert result.exception.where == "--prefix"


def test_a_picture_of_attention_is_refused(ctc_run: Run) -> None:
    with pytest.raises(UserError, match="no attention to show"):
        ctc_run.predictor.alignment(Pair("abc"), "AC")


def test_search_settings_that_a_ctc_model_cannot_follow_are_refused(ctc_run: Run) -> None:
    with pytest.raises(UserError, match=r"search\.no_repeat"):
        ctc_run.predict(["abc"], search={"no_repeat": 2})
