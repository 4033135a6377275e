"""Labels: one for a sequence or one for each of its tokens, by every encoder and every way to summarise."""

# B batch · S source length · V labels

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from variants import LABELS
from weft.core.emissions import Choice
from weft.core.errors import UserError
from weft.core.kinds import Batch, Column, Labeller
from weft.core.noise import Noise
from weft.core.pair import END, PAD, SPECIALS, UNKNOWN
from weft.core.shapes import Symbols
from weft.core.trace import trace
from weft.learn.backward import Backward
from weft.learn.objectives import CrossEntropy, class_weights
from weft.learn.snapshot import put_weights
from weft.nn import pools
from weft.nn.assemble import assemble
from weft.nn.dropout import Dropout
from weft.nn.packed import packed
from weft.settings import compose

WORDS, FIRST, COUNT = 14, len(SPECIALS), 3  # source symbols, the first label, how many labels
SOURCES = [[4, 5, 6], [7, 8, 9, 10, 11, 12, 13], [5], [6, 6, 9, 4, 4]]


def same(a: Tensor, b: Tensor, within: float = 1e-5) -> None:
    torch.testing.assert_close(a, b, atol=within, rtol=1e-5)


each = pytest.mark.parametrize("name", LABELS)


def spec_of(name: str, **train: Any) -> Any:
    return compose(("flag", LABELS[name]), ("flag", {"train": train})).spec


def build(name: str, seed: int = 1) -> Any:
    torch.manual_seed(seed)
    model = assemble(spec_of(name), Symbols(WORDS), Symbols(FIRST + COUNT))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


built = cache(build)


def answer(name: str, source: list[int]) -> list[int]:
    """Whether a 5 is in it, or which third of the symbols each token is of."""
    if name.startswith("classify"):
        return [FIRST + (5 in source)]
    return [FIRST + (symbol - FIRST) % COUNT for symbol in source]


def batch_of(name: str, sources: list[list[int]]) -> Batch:
    return Batch.between(Column.of_ids(sources), Column.of_labels([answer(name, source) for source in sources]))


@each
def test_a_label_does_not_depend_on_padding_or_on_other_rows(name: str) -> None:
    model = built(name)
    with torch.inference_mode():
        together = model(batch_of(name, SOURCES)).logits
        for row, source in enumerate(SOURCES):
            alone = model(batch_of(name, [source])).logits[0]
            assert alone.shape[0] == len(answer(name, source))
            same(together[row, : len(alone)], alone)


@each
def test_the_labels_of_sources_are_those_of_training(name: str) -> None:
    model, batch = built(name), batch_of(name, SOURCES)
    assert isinstance(model, Labeller)
    with torch.inference_mode():
        same(model.label(batch.source).logits, model(batch).logits, within=0)
        with packed(model):
            same(model.label(batch.source).logits, model(batch).logits, within=1e-4)


@each
def test_every_parameter_gets_a_gradient_in_parts_of_a_batch_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.learn import backward

    torch.manual_seed(1)
    model, batch = build(name), batch_of(name, SOURCES)
    loss = CrossEntropy()(model(batch), batch)
    (loss.total / loss.count).backward()
    whole = {key: p.grad.clone() for key, p in model.named_parameters()}
    assert all(bool(gradient.abs().amax() > 0) for gradient in whole.values())
    model.zero_grad(set_to_none=True)
    monkeypatch.setattr(backward, "MOST_SCORES", 1)  # a row at a time
    Backward(model, CrossEntropy(), "float32", torch.device("cpu"))(batch, loss.count)
    for key, parameter in model.named_parameters():
        same(parameter.grad, whole[key])


@each
def test_saved_and_loaded_weights_give_the_same_labels(name: str, tmp_path: Path) -> None:
    model, other, batch = built(name), build(name, seed=2), batch_of(name, SOURCES)
    save_file({key: p.detach().contiguous() for key, p in model.named_parameters()}, tmp_path / "weights")
    put_weights(load_file(tmp_path / "weights"), other)
    with torch.inference_mode():
        same(other(batch).logits, model(batch).logits, within=0)


@pytest.mark.parametrize("name", [name for name in LABELS if "last" not in name or "recurrent" in name])
def test_it_learns_its_labels(name: str) -> None:
    torch.manual_seed(1)
    draw, model = random.Random(1), assemble(spec_of(name, dropout=0.0), Symbols(WORDS), Symbols(FIRST + COUNT))
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02)
    for _ in range(90):
        batch = batch_of(name, some(draw, 48))
        loss = CrossEntropy(0.1)(model(batch), batch)
        optimiser.zero_grad()
        (loss.total / loss.count).backward()
        optimiser.step()
    batch = batch_of(name, some(random.Random(2), 200))
    with torch.inference_mode():
        best = model.eval()(batch).best()
    assert (best == batch.wanted.values)[batch.wanted.mask].double().mean() > 0.95


def some(draw: random.Random, count: int) -> list[list[int]]:
    """Sources in half of which a 5 occurs."""
    others = [symbol for symbol in range(FIRST, WORDS) if symbol != 5]
    sources = [[draw.choice(others) for _ in range(draw.randint(1, 6))] for _ in range(count)]
    for source in sources[::2]:
        source[draw.randrange(len(source))] = 5
    return sources


def test_special_symbols_are_never_predicted_or_drawn() -> None:
    import numpy as np

    logits = torch.full((5, 1, FIRST + COUNT), 9.0)
    logits[..., FIRST:] = torch.tensor([0.0, 1.0, 0.5])
    model = built("classify-recurrent-mean")
    with torch.no_grad():
        never = model.head(torch.zeros(1, 1, 16), None).never
    choice = Choice(logits, never)
    assert choice.best().flatten().tolist() == [FIRST + 1] * 5
    drawn = choice.draw(Noise([np.random.default_rng(seed) for seed in range(5)]))
    assert (drawn >= FIRST).all()
    assert choice.mean([Choice(-logits, never)]).never == never
    assert set(never) >= {PAD, UNKNOWN, END}


def test_the_mean_of_choices_is_the_mean_of_their_probabilities() -> None:
    first, second = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    mean = Choice(first).mean([Choice(second)]).log_probs.exp()
    same(mean, (torch.softmax(first, -1) + torch.softmax(second, -1)) / 2)


def test_the_likelihood_of_a_choice_is_zero_where_nothing_is_wanted() -> None:
    logits, wanted = torch.randn(2, 2, 6), Column.of_labels([[4, 5], [4]])
    nll = Choice(logits).nll(wanted)
    same(nll[0], -torch.log_softmax(logits[0], -1)[[0, 1], [4, 5]])
    assert nll[1, 1] == 0


def test_class_weights_follow_the_counts_and_have_mean_one_over_the_data() -> None:
    counts = torch.tensor([0, 0, 0, 0, 80, 20, 0])
    for power in (0.0, 0.5, 1.0):
        weights = class_weights(counts, power)
        assert float(weights[5] / weights[4]) == pytest.approx(4**power)
        assert float((weights * counts).sum() / counts.sum()) == pytest.approx(1.0)
        assert weights[[0, 6]].tolist() == [1.0, 1.0]


def test_a_rare_label_weighs_more_in_the_loss() -> None:
    logits, batch = torch.zeros(2, 1, FIRST + COUNT), batch_of("classify-x", [[5], [6]])
    weights = class_weights(torch.tensor([0, 0, 0, 0, 90, 10, 0]), 1.0)
    loss = CrossEntropy(weights=weights)(Choice(logits), batch)
    alone = nn.functional.cross_entropy(logits[0], torch.tensor([FIRST]))
    same(loss.total, alone * (weights[FIRST] + weights[FIRST + 1]))
    assert int(loss.count) == 2


def test_the_attention_of_a_learned_query_is_traced() -> None:
    with torch.inference_mode(), trace() as seen:
        built("classify-transformer-query")(batch_of("classify-x", SOURCES))
    (weights,) = seen["pool.query"]
    same(weights.sum(-1), torch.ones(len(SOURCES)))
    assert (weights[2, 2:] == 0).all()


def test_parts_are_equal_and_in_order_whatever_the_length() -> None:
    pool = pools.Parts(4, 5, Dropout(0.0))
    mask = torch.arange(20)[None] < torch.tensor([[20], [10], [5], [2]])
    weights = pool.weights(mask)  # (B, P, S)
    same(weights.sum(2), torch.ones(4, 5))
    assert (weights[:, :, :] * ~mask[:, None]).abs().sum() == 0
    centres = (weights * torch.arange(20)).sum(2)  # where each part is
    assert (centres[:3].diff(dim=1) > 0.5).all()
    assert (centres[3].diff() >= 0).all()
    same(centres[0], 2 * centres[1] + 0.5, within=0.2)
    same(weights[2, :, :5], torch.eye(5))


def test_a_number_of_parts_is_refused_where_there_are_none() -> None:
    with pytest.raises(UserError, match=r"pool.parts=3 has no effect with pool.kind=mean"):
        compose(("flag", {**LABELS["classify-recurrent-mean"], "pool": {"kind": "mean", "parts": 3}}))
