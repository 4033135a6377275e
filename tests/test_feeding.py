"""What the decoder reads in training: schedules, coins, its own output, unknown symbols and noise."""

# B batch · T target length · V symbols

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from test_resume import write_pairs
from variants import layer, transformer
from weft.core.emissions import Choice
from weft.core.kinds import Batch, Column
from weft.core.pair import END, PAD, START, UNKNOWN
from weft.core.shapes import Symbols
from weft.learn.feeding import SCHEDULES, Feeding
from weft.nn.assemble import assemble
from weft.runs.report import Quiet
from weft.search.decode import SearchPlan, decode
from weft.settings import Layer, compose

SYMBOLS = 12
SHARES = [n / 50 for n in range(51)]


# --- schedules

BY_HAND: dict[str, Callable[[float], float]] = {
    "linear": lambda share: 1 - share,
    "exponential": lambda share: 0.01**share,
    "inverse-sigmoid": lambda share: 20 / (20 + math.exp(9 * share)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_its_formula_and_falls_all_the_time(name: str) -> None:
    assert name in BY_HAND, f"write down the formula of {name} here"
    values = [SCHEDULES[name](share) for share in SHARES]
    assert values == pytest.approx([BY_HAND[name](share) for share in SHARES])
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == len(values)


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [("linear", 1.0, 0.0), ("exponential", 1.0, 0.01), ("inverse-sigmoid", 20 / 21, 20 / (20 + math.exp(9)))],
)
def test_a_schedule_begins_with_right_symbols_and_ends_with_the_models_own(
    name: str, first: float, last: float
) -> None:
    assert SCHEDULES[name](0.0) == pytest.approx(first)
    assert SCHEDULES[name](1.0) == pytest.approx(last)
    assert first > 0.95
    assert last < 0.011


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_teacher_is_always_right_and_own_never(share: float) -> None:
    assert Feeding("teacher").teacher_share(share) == 1
    assert Feeding("own").teacher_share(share) == 0


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_share_of_right_symbols_does_not_fall_below_the_least(name: str) -> None:
    feeding = Feeding("scheduled", name, least=0.4)
    assert [feeding.teacher_share(s) for s in SHARES] == [max(0.4, SCHEDULES[name](s)) for s in SHARES]
    assert Feeding("scheduled", name, least=1.0).teacher_share(1.0) == 1


def test_a_share_beyond_the_budget_is_no_negative_chance() -> None:
    assert Feeding("scheduled", "linear").teacher_share(1.2) == 0


# --- coins


@dataclass(frozen=True)
class Parrot:
    """A model that always says the same, whatever it reads."""

    says: int = 4

    def begin(self, source: Column, context: Column | None = None) -> None:
        return None

    def emit(self, y: Tensor, state: None) -> tuple[Choice, None]:
        logits = torch.full((len(y), 1, SYMBOLS), -9.0)
        logits[..., self.says] = 0.0
        return Choice(logits), None


def wide_batch(rows: int = 200, length: int = 20) -> Batch:
    """Targets of 5 and 6, of different lengths; the Parrot says 4."""
    targets = [[5 + (row + place) % 2 for place in range(length - row % 3)] for row in range(rows)]
    return Batch.of([[5]] * rows, targets)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_each_symbol_has_a_coin_of_its_own(share: float) -> None:
    torch.manual_seed(1)
    batch = wide_batch()
    fed = Feeding("scheduled")(Parrot(), batch, share)
    own = (fed.given.values == 4)[:, 1:]
    real = batch.wanted.mask[:, 1:]
    right = fed.given.values[:, 1:][~own & real]
    assert torch.equal(right, batch.given.values[:, 1:][~own & real])
    spread = math.sqrt(share * (1 - share) / int(real.sum()))
    assert abs(float(own[real].double().mean()) - share) < 4 * spread
    per_row, per_place = own.double().mean(1), own[:, :17].double().mean(0)
    assert per_row.std() > 0.5 * math.sqrt(share * (1 - share) / 20)  # not one coin a batch or a place
    assert per_row.std() < 2 * math.sqrt(share * (1 - share) / 20)  # not one coin a row
    assert (per_place - share).abs().amax() < 5 * math.sqrt(share * (1 - share) / 200)  # the place does not matter


@pytest.mark.parametrize("feeding", [Feeding("own"), Feeding("scheduled"), Feeding("teacher", token_dropout=0.9)])
def test_only_what_is_read_changes_and_padding_and_start_stay(feeding: Feeding) -> None:
    batch = wide_batch()
    fed = feeding(Parrot(), batch, 0.9)
    for name in ("source", "wanted"):
        assert getattr(fed, name) is getattr(batch, name)
    assert (fed.given.values[:, 0] == START).all()
    assert torch.equal(fed.given.values == PAD, ~batch.wanted.mask)
    assert not torch.equal(fed.given.values, batch.given.values)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_teacher_leaves_the_batch_as_it_is(share: float) -> None:
    batch = wide_batch()
    assert Feeding("teacher")(Parrot(), batch, share).given is batch.given
    assert Feeding("scheduled")(Parrot(), batch, 0.0).given is batch.given


@pytest.mark.parametrize("said", [PAD, START])
def test_padding_and_start_are_never_fed_back(said: int) -> None:
    fed = Feeding("own")(Parrot(said), wide_batch(), 0.0)
    assert not (fed.given.values[:, 1:] == START).any()
    assert torch.equal(fed.given.values == PAD, ~fed.wanted.mask)


# --- unknown symbols


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_hidden_symbols_are_read_as_unknown_and_follow_their_share(share: float) -> None:
    torch.manual_seed(1)
    batch = wide_batch()
    fed = Feeding("teacher", token_dropout=share)(Parrot(), batch, 0.5)
    hidden, real = fed.given.values == UNKNOWN, batch.wanted.mask & (batch.given.values != START)
    assert not hidden[~real].any()
    assert torch.equal(fed.given.values[~hidden], batch.given.values[~hidden])
    assert abs(float(hidden[real].double().mean()) - share) < 4 * math.sqrt(share * (1 - share) / int(real.sum()))


def test_hidden_symbols_and_own_output_go_together() -> None:
    torch.manual_seed(1)
    fed = Feeding("scheduled", token_dropout=0.5)(Parrot(), wide_batch(), 0.5)
    kinds = {int(k) for k in fed.given.values[:, 1:].unique()}
    assert kinds == {PAD, UNKNOWN, 4, 5, 6}


# --- the model's own output

COPY = {"kind": "copy", "tied": False}
FAMILIES: dict[str, Layer] = {
    "fed": layer(),
    "unfed": layer(decoder__attention__feed=False),
    "before": layer(decoder__attention={"query": "before"}, decoder__cell="gru"),
    "deep": layer(decoder={"kind": "recurrent", "layers": 2, "residual": True, "variational": True, "width": 16}),
    "copy": layer(head=COPY),
    "transformer": layer(encoder=transformer(), decoder=transformer(), embed__positions="rotary"),
    "relative": layer(encoder=transformer(norm="post"), decoder=transformer(), embed__positions="relative"),
    "prompted": layer(data={"tag": 3, "tag_at": "decoder"}),
    "prompted-transformer": layer(
        encoder=transformer(), decoder=transformer(), data={"tag": 3, "tag_at": "decoder"}, embed__positions="alibi"
    ),
}
each_family = pytest.mark.parametrize("family", FAMILIES)


def real_model(family: str, for_end: float = 0.0) -> Any:
    """Random weights whose outputs depend on what was read, and that like END more or less."""
    torch.manual_seed(3)
    model = assemble(compose(("flag", FAMILIES[family])).spec, Symbols(SYMBOLS), Symbols(SYMBOLS)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
        model.head.bias[UNKNOWN] = -50.0
        model.head.bias[END] += for_end
    return model


def some_batch() -> Batch:
    sources = [[4, 5, 6, 7], [8, 9], [10], [11, 4, 4]]
    return Batch.of(sources, [[5] * 8, [6] * 3, [7] * 6, []])


def best_after(model: Any, batch: Batch, given: Tensor) -> Tensor:
    """The best symbol after each place when `given` is read all at once (B, T)."""
    read = replace(batch, given=Column(given, batch.given.mask))
    log_probs = model(read).log_probs.detach()
    log_probs[..., [PAD, START]] = -math.inf
    return log_probs.argmax(-1)


@each_family
@pytest.mark.parametrize("for_end", [0.0, 2.0])
def test_what_is_read_is_what_the_model_says_after_having_read_it(family: str, for_end: float) -> None:
    model, batch = real_model(family, for_end), some_batch()
    given = Feeding("own")(model, batch, 0.5).given.values
    said = best_after(model, batch, given)
    real = batch.wanted.mask[:, 1:]
    assert torch.equal(given[:, 1:][real], said[:, :-1][real])


@each_family
def test_reading_goes_on_after_an_end_in_the_middle(family: str) -> None:
    ended = 0
    for for_end in (0.0, 3.0, 12.0):
        given = Feeding("own")(real_model(family, for_end), some_batch(), 0.5).given.values[0].tolist()
        ended += END in given[:-1]
        assert PAD not in given
    assert ended


@each_family
def test_what_is_read_is_greedy_search_up_to_its_end(family: str) -> None:
    batch, compared = some_batch(), 0
    sources = [row[mask][:-1].tolist() for row, mask in zip(batch.source.values, batch.source.mask)]
    for for_end in (-20.0, -1.0, 0.0, 1.0):
        model = real_model(family, for_end)
        found = decode(model, sources, SearchPlan("greedy", max_extra=20), torch.device("cpu"))
        for row, (best,) in zip(Feeding("own")(model, batch, 0.5).given.values.tolist(), found):
            read = [s for s in row[1:] if s != PAD]
            read = read[: read.index(END)] if END in read else read
            assert read == list(best.ids[: len(read)])
            compared += len(read)
    assert compared > 10


@each_family
def test_a_place_that_reads_the_right_symbol_decides_what_comes_after_it(family: str) -> None:
    """Half and half: each own symbol is the best one after the mixture before it."""
    model, batch = real_model(family), some_batch()
    torch.manual_seed(5)
    given = Feeding("scheduled")(model, batch, 0.5).given.values
    said = best_after(model, batch, given)
    real = batch.wanted.mask[:, 1:]
    own, right = given[:, 1:] == said[:, :-1], given[:, 1:] == batch.given.values[:, 1:]
    assert (own | right)[real].all()
    assert (own & ~right)[real].any()
    assert (right & ~own)[real].any()


@each_family
def test_feeding_leaves_no_gradient_and_no_trace_in_the_model(family: str) -> None:
    model, batch = real_model(family).train(), some_batch()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    given = Feeding("own")(model, batch, 0.5).given.values
    assert not given.requires_grad
    assert model.training
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


# --- noise


@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
def test_noise_is_on_what_the_decoder_reads_and_in_training_only(kind: str) -> None:
    part = transformer() if kind == "transformer" else {"kind": "recurrent", "width": 16}
    tree = layer(encoder=part, decoder=part, embed__positions="sinusoid", feeding__noise=0.5, train={"dropout": 0.0})
    torch.manual_seed(1)
    model: Any = assemble(compose(("flag", tree)).spec, Symbols(SYMBOLS), Symbols(SYMBOLS))
    ids = torch.full((400, 5), 7)
    plain = model.target_reader.eval()(ids)
    assert torch.equal(plain, model.target_reader(ids))
    noise = model.target_reader.train()(ids) - plain
    assert float(noise.detach().std()) == pytest.approx(0.5, rel=0.05)
    assert float(noise.detach().mean()) == pytest.approx(0.0, abs=0.02)
    assert torch.equal(model.source_reader.train()(ids), model.source_reader.eval()(ids))


# --- runs


def test_the_way_of_feeding_changes_what_is_learned(tmp_path: Path) -> None:
    import weft

    pairs = write_pairs(tmp_path / "pairs.tsv", 40)
    small, losses = {f"{part}.width": 32 for part in ("embed", "encoder", "decoder")}, {}
    for kind in ("teacher", "own"):
        settings = {**small, "train.evaluations": 2, "feeding.kind": kind}
        run = weft.train(pairs, out=tmp_path / kind, steps=12, settings=settings, reporter=Quiet())
        losses[kind] = run.evaluate(pairs)["loss"]
    assert losses["teacher"] != losses["own"]
