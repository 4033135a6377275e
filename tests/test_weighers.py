"""Every weigher against its formula in `byhand.py`, with and without places that are not real, forth and back."""

# B rows · S keys

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from byhand import WEIGHED, array, same
from weft.nn.assemble import WEIGHERS

NEVER = float("-inf")
each_weigher = pytest.mark.parametrize("name", WEIGHERS)


def some_scores(rows: int, keys: int, spread: float) -> Tensor:
    """Random ones; a third of them are 0, the score of an exact match in rbf, and none is above it in odd rows."""
    random = torch.Generator().manual_seed(rows * keys)
    scores = torch.randn(rows, keys, generator=random).double() * spread
    scores[1::2] = -scores[1::2].abs()
    return scores.masked_fill(torch.rand(rows, keys, generator=random) < 1 / 3, 0.0)


def scores_for(name: str, rows: int, keys: int, spread: float) -> Tensor:
    scores = some_scores(rows, keys, spread)
    return -scores.abs() if name == "exact" else scores


@each_weigher
@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("keys", [1, 2, 6])
def test_weights_are_the_formula(name: str, keys: int, spread: float) -> None:
    assert name in WEIGHED, f"write down the formula of {name} in byhand.py"
    scores = scores_for(name, 20, keys, spread)
    ours = WEIGHERS[name](scores)
    for row in range(20):
        same(ours[row], WEIGHED[name](array(scores[row])))


@each_weigher
def test_a_place_that_is_not_real_gets_nothing_and_changes_nothing(name: str) -> None:
    scores = scores_for(name, 12, 5, 2.0)
    hidden = torch.cat([scores[:, :3], torch.full((12, 2), NEVER).double(), scores[:, 3:]], dim=1)
    ours = WEIGHERS[name](hidden)
    same(ours[:, [0, 1, 2, 5, 6]], WEIGHERS[name](scores))
    assert not ours[:, 3:5].any()


@each_weigher
@pytest.mark.parametrize("spread", [1.0, 1e4])
def test_gradients_are_numbers_however_far_scores_are_apart(name: str, spread: float) -> None:
    scores = (scores_for(name, 10, 6, 1.0).float() * spread).requires_grad_()
    hidden = scores.masked_fill(torch.arange(6) > 3, NEVER)
    weights = WEIGHERS[name](hidden)
    assert weights.isfinite().all()
    assert weights.requires_grad == (name not in ("nearest", "exact")), "those hand no gradient to scores"
    if weights.requires_grad:
        check_gradients(weights, scores)


def check_gradients(weights: Tensor, scores: Tensor) -> None:
    """Finite, and none for the two that are hidden."""
    (weights * torch.randn(10, 6)).sum().backward()
    assert scores.grad.isfinite().all()
    assert not scores.grad[:, 4:].any()


# --- sparsemax


def by_bisection(scores: list[float]) -> list[float]:
    """max(s − τ, 0) with the τ at which the weights sum to 1."""
    low, high = max(scores) - 1, max(scores)
    for _ in range(200):
        tau = (low + high) / 2
        low, high = (tau, high) if sum(max(s - tau, 0) for s in scores) > 1 else (low, tau)
    return [max(s - high, 0) for s in scores]


@pytest.mark.parametrize("keys", [2, 9, 60])
def test_sparsemax_solves_for_its_threshold(keys: int) -> None:
    scores = some_scores(30, keys, 1.5)
    ours = WEIGHERS["sparsemax"](scores)
    for row in range(30):
        assert ours[row].tolist() == pytest.approx(by_bisection(scores[row].tolist()), abs=1e-9)


def test_no_point_of_the_simplex_is_nearer_than_sparsemax() -> None:
    scores, random = some_scores(20, 5, 1.0), np.random.default_rng(1)
    ours = array(WEIGHERS["sparsemax"](scores))
    for row, point in enumerate(ours):
        nearest = ((point - array(scores[row])) ** 2).sum()
        others = np.concatenate([random.dirichlet(np.ones(5), 300), 0.999 * point + 0.001 * np.eye(5)])
        assert (((others - array(scores[row])) ** 2).sum(1) >= nearest - 1e-12).all()


def test_sparsemax_leaves_keys_out_and_softmax_does_not() -> None:
    scores = torch.tensor([[2.0, 1.9, 0.1, -3.0]])
    assert (WEIGHERS["sparsemax"](scores) > 0).tolist() == [[True, True, False, False]]
    assert (WEIGHERS["softmax"](scores) > 0).all()


# --- one key alone


@pytest.mark.parametrize("spread", [0.5, 30.0])
def test_straight_through_is_nearest_to_the_last_bit_and_learns_like_softmax(spread: float) -> None:
    values = torch.randn(40, 7)
    scores = (some_scores(40, 7, spread).float() + 1e-3 * torch.randn(40, 7)).requires_grad_()
    through, soft = WEIGHERS["straight-through"](scores), WEIGHERS["softmax"](scores)
    assert torch.equal(through, WEIGHERS["nearest"](scores))
    (ours,) = torch.autograd.grad((through * values).sum(), scores)
    (wanted,) = torch.autograd.grad((soft * values).sum(), scores)
    assert torch.equal(ours, wanted)
    assert ours.any()


def test_nearest_takes_one_key_even_where_two_are_equally_good() -> None:
    assert WEIGHERS["nearest"](torch.tensor([[1.0, 3.0, 3.0]])).tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize("name", ["nearest", "exact"])
def test_no_gradient_comes_back_to_scores(name: str) -> None:
    scores = torch.zeros(3, 4, requires_grad=True)
    assert not WEIGHERS[name](scores).requires_grad


def test_exact_shares_among_matches_and_gives_nothing_without_one() -> None:
    scores = torch.tensor([[-1.0, 0.0, -2.0, 0.0], [-1.0, -1e-9, -2.0, -3.0], [0.0, NEVER, NEVER, NEVER]])
    assert WEIGHERS["exact"](scores).tolist() == [[0.0, 0.5, 0.0, 0.5], [0.0] * 4, [1.0, 0.0, 0.0, 0.0]]


# --- kernel


def test_a_kernel_on_rbf_is_the_gaussian_divided_by_its_sum() -> None:
    apart = torch.tensor([[0.5, 1.0, 2.0]]).double()
    gaussian = torch.exp(-0.7 * apart**2)
    same(WEIGHERS["kernel"](-0.7 * apart**2), gaussian / gaussian.sum())


def test_a_kernel_of_keys_that_are_all_far_away_still_sums_to_one() -> None:
    same(WEIGHERS["kernel"](torch.tensor([[-900.0, -901.0]]).double()).sum(), torch.tensor(1.0))
