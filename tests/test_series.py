"""Series of numbers: points, Gaussians and mixtures, predicted step by step, with and without a context."""

# B batch · S source length · T target length · F features · M components

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent, MixtureSameFamily, Normal

from variants import NUMBERS, layer, transformer
from weft.core.densities import Mixture, Point, Track
from weft.core.kinds import Batch, Column
from weft.core.noise import Noise
from weft.core.shapes import Nothing, Symbols, Vectors
from weft.learn.backward import Backward
from weft.learn.feeding import Feeding
from weft.learn.objectives import OBJECTIVES, Likelihood
from weft.learn.snapshot import put_weights
from weft.nn.assemble import assemble
from weft.nn.packed import packed
from weft.search.decode import SearchPlan, decode
from weft.search.ensemble import Ensemble
from weft.settings import compose

READ, WRITTEN, BESIDE = 3, 2, 4  # features
each = pytest.mark.parametrize("name", NUMBERS)


def same(a: Tensor, b: Tensor, within: float = 1e-5) -> None:
    torch.testing.assert_close(a, b, atol=within, rtol=1e-4)


def shapes_of(name: str) -> tuple[Vectors, Vectors, Vectors | Nothing]:
    return Vectors(READ), Vectors(WRITTEN), Nothing() if name.endswith("alone") else Vectors(BESIDE)


def build(name: str, seed: int = 1) -> Any:
    torch.manual_seed(seed)
    model = assemble(compose(("flag", NUMBERS[name])).spec, *shapes_of(name))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


built = cache(build)


def rows(lengths: list[int], features: int, seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    return [random.normal(size=(length, features)).astype(np.float32) for length in lengths]


SOURCES, TARGETS = rows([3, 7, 1, 5], READ, 1), rows([6, 2, 4, 1], WRITTEN, 2)


def batch_of(name: str, chosen: list[int] | None = None) -> Batch:
    chosen = list(range(len(SOURCES))) if chosen is None else chosen
    beside = rows([6, 2, 4, 1] if "step" in name else [2, 5, 1, 3], BESIDE, 3)
    context = None if name.endswith("alone") else Column.of_vectors([beside[i] for i in chosen])
    columns = (Column.of_vectors([side[i] for i in chosen]) for side in (SOURCES, TARGETS))
    return Batch.between(*columns, context)


def noise(count: int, seed: int = 1) -> Noise:
    return Noise([np.random.default_rng((seed, row)) for row in range(count)])


# --- emissions


def emissions() -> dict[str, tuple[Any, Any]]:
    """Each kind of emission, and torch's distribution of the same parameters."""
    torch.manual_seed(1)
    centre, scale = torch.randn(3, 4, 2), torch.rand(3, 4, 2) + 0.1
    weights, centres, scales = torch.randn(3, 4, 5), torch.randn(3, 4, 5, 2), torch.rand(3, 4, 5, 2) + 0.1
    mixture = MixtureSameFamily(Categorical(logits=weights), Independent(Normal(centres, scales), 1))
    return {
        "gaussian": (Point(centre, scale), Independent(Normal(centre, scale), 1)),
        "mixture": (Mixture(weights, centres, scales), mixture),
    }


@pytest.mark.parametrize("kind", ["gaussian", "mixture"])
def test_the_likelihood_is_that_of_torchs_distribution_and_zero_where_nothing_is_wanted(kind: str) -> None:
    emission, theirs = emissions()[kind]
    wanted = Column.of_vectors(rows([4, 2, 3], 2, 4))
    same(emission.nll(wanted), (-theirs.log_prob(wanted.values)).masked_fill(~wanted.mask, 0.0))
    stop = torch.randn(3, 4)
    last = torch.tensor([[0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]]).float()
    stopping = -Bernoulli(logits=stop).log_prob(last)
    with_stop = replace(emission, stop=stop).nll(wanted)
    same(with_stop, emission.nll(wanted) + stopping.masked_fill(~wanted.mask, 0.0))


def test_squared_error_is_half_the_squared_distance() -> None:
    wanted, centre = Column.of_vectors([np.array([[1.0, 2.0], [0.0, 0.0]])]), torch.tensor([[[1.0, 0.0], [3.0, 4.0]]])
    same(Point(centre).nll(wanted), torch.tensor([[2.0, 12.5]]))
    assert torch.equal(Point(centre).best(), centre)
    assert torch.equal(Point(centre).draw(noise(1)), centre)  # it has no spread


def test_the_distance_of_steps_is_that_of_the_positions_that_they_add_up_to() -> None:
    wanted = Column.of_vectors([np.array([[1.0, 2.0], [0.0, 0.0]])])
    centre = torch.tensor([[[1.0, 0.0], [3.0, 6.0]]])
    same(Track(centre).nll(wanted), torch.tensor([[2.0, 45**0.5]]))
    same(Track(centre, steps=True).nll(wanted), torch.tensor([[2.0, 5.0]]))  # at the end (4, 6) instead of (1, 2)
    both = Track(centre, steps=True).mean([Track(centre + 2, steps=True)])
    assert isinstance(both, Track)
    assert both.steps
    same(both.best(), centre + 1)


def test_the_gradient_of_a_distance_of_nothing_is_finite() -> None:
    centre = torch.zeros(1, 2, 2, requires_grad=True)
    Track(centre, steps=True).nll(Column.of_vectors([np.zeros((2, 2))])).sum().backward()
    assert centre.grad is not None
    assert bool(centre.grad.isfinite().all())


def test_a_decoder_that_reads_no_numbers_predicts_the_same_whatever_they_are() -> None:
    name = next(name for name in NUMBERS if name.startswith("distance"))
    torch.manual_seed(1)
    model = assemble(compose(("flag", NUMBERS[name])).spec, Vectors(READ), Vectors(WRITTEN)).eval()
    batch = batch_of("alone")
    other = replace(batch, given=Column(batch.given.values + 1.0, batch.given.mask))
    assert torch.equal(model(batch).best(), model(other).best())


def test_a_mixture_gives_the_mean_of_its_heaviest_component() -> None:
    logits, centres = torch.tensor([[[0.0, 2.0, 1.0]]]), torch.tensor([[[[1.0], [2.0], [3.0]]]])
    assert Mixture(logits, centres, torch.ones(1, 1, 3, 1)).best().tolist() == [[[2.0]]]


@pytest.mark.parametrize("kind", ["gaussian", "mixture"])
def test_draws_have_the_mean_and_spread_of_the_distribution(kind: str) -> None:
    emission, theirs = emissions()[kind]
    drawn = torch.stack([emission.draw(noise(3, seed)) for seed in range(3000)])
    assert (drawn.mean(0) - theirs.mean).abs().amax() < 0.12
    assert (drawn.var(0) / theirs.variance - 1).abs().amax() < 0.2


def test_a_draw_does_not_depend_on_the_rows_beside_it() -> None:
    for emission, _ in emissions().values():
        fields = [value for value in vars(emission).values() if value is not None]
        alone = type(emission)(*(value[1:2] for value in fields)).draw(Noise([noise(3).each[1]]))
        assert torch.equal(emission.draw(noise(3))[1:2], alone)


def test_gaussians_together_have_the_mean_and_variance_of_their_mixture() -> None:
    (emission, _), centre = emissions()["gaussian"], torch.zeros(3, 4, 2)
    both = emission.mean([Point(centre, emission.scale)])
    same(both.centre, emission.centre / 2)
    same(both.scale.square(), emission.scale.square() + emission.centre.square() / 4)
    same(Point(emission.centre).mean([Point(centre)]).centre, emission.centre / 2)


def test_mixtures_together_are_the_mixture_of_all_components() -> None:
    emission, _ = emissions()["mixture"]
    other, wanted = replace(emission, centres=emission.centres + 1), Column.of_vectors(rows([4, 4, 4], 2, 4))
    likelihoods = [(-one.nll(wanted)).exp() for one in (emission, other)]
    same((-emission.mean([other]).nll(wanted)).exp(), (likelihoods[0] + likelihoods[1]) / 2)


def test_several_models_stop_by_the_mean_of_their_probabilities() -> None:
    stop = torch.tensor([[0.0], [2.0]])
    for emission, _ in emissions().values():
        same(replace(emission, stop=stop).mean([replace(emission, stop=-stop)]).stop, torch.zeros(2, 1))


@pytest.mark.parametrize("kind", ["squared", "gaussian", "mixture"])
def test_other_units_change_the_likelihood_by_their_size_alone(kind: str) -> None:
    emission = Point(torch.randn(3, 4, 2)) if kind == "squared" else emissions()[kind][0]
    wanted, unit = Column.of_vectors(rows([4, 4, 4], 2, 4)), torch.tensor([3.0, 0.5])
    nll = emission.scaled(unit).nll(Column(wanted.values * unit, wanted.mask))
    if kind == "squared":
        same(nll, ((wanted.values - emission.centre) * unit).square().sum(-1) / 2)
    else:
        same(nll, emission.nll(wanted) + float(unit.log().sum()))


def test_a_series_stops_where_that_is_more_likely_than_not() -> None:
    assert Point(torch.zeros(2, 3, 1), stop=torch.tensor([[0, 0, 0.1], [9, 9, -0.1]])).stops().tolist() == [True, False]


# --- models


@each
def test_padding_and_other_rows_change_nothing(name: str) -> None:
    model, wanted = built(name), batch_of(name)
    with torch.inference_mode():
        together = model(wanted).nll(wanted.wanted)
        for row in range(len(SOURCES)):
            alone = batch_of(name, [row])
            said = model(alone).nll(alone.wanted)[0]
            same(together[row, : len(said)], said)
            assert (together[row, len(said) :] == 0).all()


@each
def test_step_by_step_equals_all_at_once(name: str) -> None:
    model, batch = built(name), batch_of(name)
    with torch.inference_mode():
        whole = model(batch).best()
        state = model.begin(batch.source, batch.context)
        for step, y in enumerate(batch.given.values.unbind(1)):
            emission, state = model.emit(y, state)
            real = batch.wanted.mask[:, step]
            same(emission.best()[:, 0][real], whole[:, step][real])
        with packed(model):
            emission, _ = model.emit(batch.given.values[:, 0], model.begin(batch.source, batch.context))
            same(emission.best()[:, 0], whole[:, 0], within=1e-4)


@each
def test_selected_rows_go_on_as_they_would_have(name: str) -> None:
    model, batch, order = built(name), batch_of(name), torch.tensor([3, 0, 0, 1])
    ys = batch.given.values
    with torch.inference_mode():
        _, state = model.emit(ys[:, 0], model.begin(batch.source, batch.context))
        straight, after = model.emit(ys[:, 1], state)
        chosen, after_chosen = model.emit(ys[order, 1], state.select(order))
        same(chosen.best(), straight.best()[order])
        if "step" not in name:  # a context of steps has no more of them for the shortest rows
            same(model.emit(ys[order, 2], after_chosen)[0].best(), model.emit(ys[:, 2], after)[0].best()[order])


@each
def test_a_step_sees_what_came_before_and_nothing_later(name: str) -> None:
    model, batch = built(name), batch_of(name, [0])
    changes = {} if name.startswith("distance") else {"given": batch.given}  # distance: it reads nothing
    if "step" in name and batch.context is not None:
        changes["context"] = batch.context
    with torch.inference_mode():
        before = model(batch).best()
        for role, column in changes.items():
            values = column.values.clone()
            values[:, 3] += 1
            after = model(replace(batch, **{role: Column(values, column.mask)})).best()
            same(after[:, :3], before[:, :3], within=1e-6)
            assert (after[:, 3] - before[:, 3]).abs().amax() > 1e-5


@each
def test_the_source_and_the_context_are_seen(name: str) -> None:
    model, batch = built(name), batch_of(name)
    with torch.inference_mode():
        before = model(batch).best()
        for role in ("source", *([] if batch.context is None else ["context"])):
            column = getattr(batch, role)
            other = replace(batch, **{role: Column(column.values + 1, column.mask)})
            assert (model(other).best() - before).abs().amax() > 1e-4


@each
def test_every_parameter_gets_a_gradient_in_parts_of_a_batch_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.learn import backward

    model, batch = build(name), batch_of(name)
    loss = Likelihood()(model(batch), batch)
    (loss.total / loss.count).backward()
    assert int(loss.count) == 13
    whole = {key: p.grad for key, p in model.named_parameters()}
    softmax_does_not_see = ("key.bias", "scores.0.to_key.bias")
    missing = [key for key, grad in whole.items() if grad is None or not bool(grad.abs().amax() > 1e-9)]
    assert [key for key in missing if not key.endswith(softmax_does_not_see)] == []
    whole = {key: grad.clone() for key, grad in whole.items() if grad is not None}
    model.zero_grad(set_to_none=True)
    monkeypatch.setattr(backward, "MOST_SCORES", 1)
    Backward(model, OBJECTIVES["squared"](0.1), "float32", torch.device("cpu"))(batch, loss.count)
    for key, parameter in model.named_parameters():
        same(parameter.grad, whole[key])


@each
def test_saved_and_loaded_weights_predict_the_same(name: str, tmp_path: Path) -> None:
    model, other, batch = built(name), build(name, seed=2), batch_of(name)
    save_file({key: p.detach().contiguous() for key, p in model.named_parameters()}, tmp_path / "weights")
    put_weights(load_file(tmp_path / "weights"), other)
    with torch.inference_mode():
        same(other(batch).best(), model(batch).best(), within=0)


# --- feeding


@pytest.mark.parametrize("name", [name for name in NUMBERS if "variational" not in name])
def test_what_is_read_is_what_the_model_predicts_after_having_read_it(name: str) -> None:
    model, batch = built(name), batch_of(name)
    fed = Feeding("own")(model, batch, 0.5)
    assert (fed.given.values[:, 0] == 0).all()
    assert (fed.given.values[~fed.given.mask] == 0).all()
    assert not fed.given.values.requires_grad
    with torch.inference_mode():
        said = model(fed).best()
    real = batch.wanted.mask[:, 1:]
    same(fed.given.values[:, 1:][real], said[:, :-1][real])
    assert Feeding("teacher")(model, batch, 0.5) is batch


def test_scheduled_feeding_mixes_right_and_own_steps() -> None:
    name = next(iter(NUMBERS))
    torch.manual_seed(2)
    batch = batch_of(name)
    fed = Feeding("scheduled")(built(name), batch, 0.5).given.values
    right = (fed == batch.given.values).all(-1)[:, 1:][batch.wanted.mask[:, 1:]]
    assert right.any()
    assert not right.all()


@pytest.mark.parametrize("family", ["recurrent", "transformer"])
def test_noise_is_on_the_numbers_that_the_decoder_reads_and_in_training_only(family: str) -> None:
    part = transformer() if family == "transformer" else {"kind": "recurrent", "width": 16}
    tree = layer(target__kind="numbers", decoder=part, feeding__noise=0.5, train={"dropout": 0.0})
    model: Any = assemble(compose(("flag", tree)).spec, Symbols(9), Vectors(WRITTEN))
    values = torch.zeros(400, 5, WRITTEN)
    assert torch.equal(model.target_reader.eval()(values), model.target_reader(values))
    noisy = model.target_reader.train()(values) - model.target_reader.eval()(values)
    wanted = 0.5 * model.target_reader.project.weight.norm(dim=1)
    assert (noisy.std((0, 1)) / wanted - 1).abs().amax() < 0.1


def test_the_first_zeros_are_told_from_later_ones() -> None:
    reader = built(next(iter(NUMBERS))).target_reader
    zeros = torch.zeros(1, 2, WRITTEN)
    assert not torch.equal(reader.first, torch.zeros_like(reader.first))
    plain = torch.cat([reader(zeros, 1)[:, :1], reader(zeros)[:, 1:]], dim=1)
    assert (reader(zeros) - plain)[0, 0].abs().amax() > 1e-3
    later = reader(zeros, 1)[0, 0] - reader(zeros)[0, 1]
    same(later, torch.zeros_like(later))


# --- text beside numbers


@pytest.mark.parametrize("use", ["attend", "step"])
def test_text_may_have_a_context_of_numbers(use: str) -> None:
    tree = layer(data__context=3, context={"kind": "numbers", "use": use})
    torch.manual_seed(1)
    model: Any = assemble(compose(("flag", tree)).spec, Symbols(9), Symbols(9), Vectors(2)).eval()
    context = Column.of_vectors(rows([4, 3], 2, 5))
    batch = replace(Batch.of([[4, 5], [6]], [[7, 8, 4], [5, 5]]), context=context)
    with torch.inference_mode():
        whole, state = model(batch).log_probs, model.begin(batch.source, batch.context)
        for step, y in enumerate(batch.given.values.unbind(1)):
            log_probs, state = model.advance(y, state)
            real = batch.wanted.mask[:, step]
            same(log_probs[real], whole[:, step][real])


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
@pytest.mark.parametrize("use", ["attend", "step"])
def test_a_search_reads_the_context_of_each_line_alone_or_in_an_ensemble(use: str, kind: str) -> None:
    """Also beyond the end of a context that is read step by step."""
    tree = layer(source__kind="numbers", data__context=3, context={"kind": "numbers", "use": use})
    torch.manual_seed(1)
    models: list[Any] = [
        assemble(compose(("flag", tree)).spec, Vectors(READ), Symbols(9), Vectors(2)).eval() for _ in range(2)
    ]
    sources, contexts, cpu = rows([3, 1, 4], READ, 1), rows([2, 4, 1], 2, 2), torch.device("cpu")
    plan = SearchPlan(kind, nbest=2 if kind == "beam" else 1, max_extra=6)
    found = decode(models[0], sources, plan, cpu, contexts=contexts)
    alone = [
        decode(models[0], [s], plan, cpu, contexts=[c], lines=[n])[0] for n, (s, c) in enumerate(zip(sources, contexts))
    ]
    assert [[h.ids for h in line] for line in found] == [[h.ids for h in line] for line in alone]
    others = decode(models[0], sources, plan, cpu, contexts=[context + 3 for context in contexts])
    assert [h.score for line in others for h in line] != [h.score for line in found for h in line]
    if kind != "sample":
        twins = Ensemble([models[0], models[0]])
        pairs = [[(row, row) for row in side] for side in (sources, contexts)]
        both = decode(twins, pairs[0], plan, cpu, contexts=pairs[1])
        assert [[h.ids for h in line] for line in both] == [[h.ids for h in line] for line in found]


def test_a_model_that_reads_a_context_refuses_to_go_without() -> None:
    tree = layer(data__context=3, context={"kind": "numbers", "use": "step"})
    model: Any = assemble(compose(("flag", tree)).spec, Symbols(9), Symbols(9), Vectors(2)).eval()
    with pytest.raises(AssertionError, match="reads a context"):
        model.begin(Column.of_ids([[4, 5]]))


def test_a_classifier_pools_the_context_with_the_source() -> None:
    tree = {"task": "classify", "data": {"context": 3}, "context": {"kind": "text"}, "embed": {"width": 8}}
    torch.manual_seed(1)
    model: Any = assemble(compose(("flag", tree)).spec, Symbols(9), Symbols(6), Symbols(7)).eval()
    source, contexts = Column.of_ids([[4, 5]]), [Column.of_ids([ids]) for ids in ([5, 6], [6, 5, 4])]
    with torch.inference_mode():
        first, second = (model.label(source, context).logits for context in contexts)
        assert (first - second).abs().amax() > 1e-4
        batch = Batch.between(source, Column.of_labels([[4]]), contexts[0])
        same(model(batch).logits, first, within=0)


# --- learning


@pytest.mark.parametrize(
    ("family", "objective"),
    [("recurrent", "squared"), ("transformer", "squared"), ("recurrent", "gaussian"), ("recurrent", "mixture")],
)
def test_it_learns_to_follow_its_context(family: str, objective: str) -> None:
    """yₜ = yₜ₋₁ + cₜ / 2, from a source that tells where it begins."""
    part = transformer(width=24) if family == "transformer" else {"kind": "recurrent", "width": 24, "cell": "gru"}
    tree = layer(
        source__kind="numbers",
        target__kind="numbers",
        encoder=part,
        decoder=part,
        embed={"width": 24, "positions": "sinusoid"},
        objective__kind=objective,
        data__context=3,
        context={"kind": "numbers", "use": "step"},
        train={"dropout": 0.0},
    )
    torch.manual_seed(1)
    model = assemble(compose(("flag", tree)).spec, Vectors(1), Vectors(1), Vectors(1))
    random = np.random.default_rng(1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(100):
        batch = following(random, 48)
        loss = Likelihood()(model(batch), batch)
        optimiser.zero_grad()
        (loss.total / loss.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.param_groups[0]["lr"] = 0.01 * (1 - step / 105)
        optimiser.step()
    batch = following(random, 200)
    with torch.inference_mode():
        error = (model.eval()(batch).best() - batch.wanted.values)[batch.wanted.mask].square().mean()
    assert error < 0.1 * batch.wanted.values[batch.wanted.mask].var()


def following(random: np.random.Generator, count: int) -> Batch:
    starts, contexts, targets = [], [], []
    for _ in range(count):
        steps = random.normal(size=(int(random.integers(2, 6)), 1))
        start = random.normal(size=(1, 1))
        starts.append(start)
        contexts.append(steps)
        targets.append(start + np.cumsum(steps / 2, axis=0))
    source, wanted, context = (Column.of_vectors(rows) for rows in (starts, targets, contexts))
    return Batch.between(source, wanted, context)


def test_init_goes_on_with_the_objective_and_the_context_of_the_other_run(tmp_path: Path) -> None:
    import json

    import weft
    from weft.core.errors import UserError
    from weft.runs.report import Quiet

    random, data = np.random.default_rng(1), tmp_path / "series.jsonl"
    lists = [
        {role: random.normal(size=(4, 2)).round(3).tolist() for role in ("source", "target", "context")}
        for _ in range(40)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in lists), encoding="utf-8")
    small = {
        "encoder.width": 8,
        "decoder.width": 8,
        "embed.width": 8,
        "train.valid_pairs": 5,
        "data.context": "context",
    }
    objective = {"objective.kind": "mixture", "objective.components": 2, "numbers.stop": "learned"}
    first = weft.train(data, out=tmp_path / "first", steps=2, settings={**small, **objective}, reporter=Quiet())
    again = {"data.context": "context"}
    second = weft.train(data, out=tmp_path / "second", steps=2, settings=again, init=first.path, reporter=Quiet())
    for part in ("objective", "numbers", "context", "head"):
        assert getattr(second.spec, part) == getattr(first.spec, part)
    settings = {**again, "objective.components": 3}
    with pytest.raises(UserError, match=r"objective\.components: 2 → 3"):
        weft.train(data, out=tmp_path / "third", steps=2, settings=settings, init=first.path, reporter=Quiet())
