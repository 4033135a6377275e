"""Every position scheme against its formula, written down in `byhand.py`."""

# B batch · T length or queries · S keys · H heads · d width of a head

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from byhand import POSITIONED, array, bucket, same, shaken
from weft.nn.assemble import POSITIONS
from weft.nn.positions import BUCKETS, FARTHEST, PLACES, Attended, Bucketed, Relative, Rotary

HEADS = 4
each_scheme = pytest.mark.parametrize("name", POSITIONS)
STARTS = [0, 3, PLACES - 2]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(7)


def made(name: str, width: int = 16, both_ways: bool = True) -> Any:
    assert name in POSITIONED, f"write down the formula of {name} in byhand.py"
    return shaken(POSITIONS[name](width, Attended(HEADS, both_ways)))


@each_scheme
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("width", [16, 28])
def test_what_a_scheme_adds_to_symbols_is_its_formula(name: str, start: int, width: int) -> None:
    scheme = made(name, width)
    x = torch.randn(2, 5, width - scheme.room).double()
    ours = scheme.add(x, start)
    assert ours.shape == (2, 5, width)
    for row, place in np.ndindex(2, 5):
        same(ours[row, place], POSITIONED[name][0](scheme, array(x[row, place]), start + place), within=1e-4)


def test_waves_of_an_odd_width_are_those_of_the_next_even_one_cut() -> None:
    odd, even = made("sinusoid").add(torch.zeros(1, 5, 7), 3), made("sinusoid").add(torch.zeros(1, 5, 8), 3)
    assert torch.equal(odd, even[..., :7])


@each_scheme
@pytest.mark.parametrize("start", STARTS)
def test_how_a_scheme_turns_queries_and_keys_is_its_formula(name: str, start: int) -> None:
    scheme, x = made(name), torch.randn(2, HEADS, 5, 8).double()
    ours = scheme.turn(x, start)
    for row, head, place in np.ndindex(2, HEADS, 5):
        wanted = POSITIONED[name][1](scheme, array(x[row, head, place]), start + place)
        same(ours[row, head, place], wanted, within=1e-4)


@each_scheme
@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(("queries", "keys", "start"), [(40, 40, 0), (1, 30, 29), (3, 200, 197)])
def test_what_a_scheme_adds_to_scores_is_its_formula(
    name: str, both_ways: bool, queries: int, keys: int, start: int
) -> None:
    scheme, formula = made(name, both_ways=both_ways), POSITIONED[name][2]
    ours = scheme.bias(queries, keys, start)
    if formula is None:
        assert ours is None
        return
    assert ours.shape == (HEADS, queries, keys)
    wanted = [[[formula(scheme, h, start + q, k) for k in range(keys)] for q in range(queries)] for h in range(HEADS)]
    same(ours, np.array(wanted), within=1e-5)


@each_scheme
def test_a_scheme_acts_on_vectors_or_within_attention(name: str) -> None:
    """`in_attention` is what tells a recurrence that a scheme has nothing for it."""
    scheme = made(name)
    add, turn, bias = POSITIONED[name]
    within = turn is not POSITIONED["none"][1] or bias is not None
    assert scheme.in_attention is within
    assert not (within and add is not POSITIONED["none"][0])


def test_learned_vectors_beyond_the_table_are_the_last() -> None:
    scheme, x = made("learned"), torch.zeros(1, 6, 16).double()
    added = scheme.add(x, PLACES - 3)[0]
    same(added[2:], scheme.table.weight[-1].expand(4, -1))
    assert not torch.equal(added[1], added[2])


@pytest.mark.parametrize("k", [16, 3])
def test_relative_distances_are_clipped_on_both_sides(k: int) -> None:
    scheme = shaken(Relative(16, Attended(HEADS, max_distance=k)))
    assert scheme.table.shape == (HEADS, 2 * k + 1)
    bias = scheme.bias(2 * k + 5, 2 * k + 5, 0)
    same(bias[:, 0, k:], scheme.table[:, -1:].expand(-1, k + 5))
    same(bias[:, -1, : -k - 1], scheme.table[:, :1].expand(-1, k + 4))
    assert len(set(bias[0, k + 2, 2 : 2 * k + 3].tolist())) == 2 * k + 1


def test_each_layer_has_a_relative_table_of_its_own() -> None:
    scheme = shaken(Relative(16, Attended(HEADS, layers=3, max_distance=2)))
    assert scheme.table.shape == (3, HEADS, 5)
    for layer, bias in enumerate(scheme.bias(4, 6, 1)):
        alone = shaken(Relative(16, Attended(HEADS, max_distance=2)))
        alone.table.data = scheme.table.data[layer]
        same(bias, alone.bias(4, 6, 1))


def test_bucketed_distances_share_one_table_over_all_layers_as_in_t5() -> None:
    assert Bucketed(16, Attended(HEADS, layers=3)).table.shape == (HEADS, BUCKETS)


@pytest.mark.parametrize("name", ["rotary", "sinusoid", "sinusoid-concat"])
@pytest.mark.parametrize("place", [63, 511, 1900])
def test_angles_are_not_rounded_to_bfloat16(name: str, place: int) -> None:
    """Sines and cosines have the error of their own format; an angle rounded to it would be off by up to 1 at 511."""
    scheme, like = POSITIONS[name](16), torch.zeros(1, HEADS, 1, 8)
    if name == "rotary":
        exact, ours = (torch.stack(scheme.turns(place, 1, 8, x)) for x in (like, like.bfloat16()))
    else:
        x = torch.zeros(1, 1, 16 - scheme.room)
        exact, ours = scheme.add(x, place), scheme.add(x.bfloat16(), place)
    assert ours.dtype == torch.bfloat16
    assert (exact - ours.float()).abs().max() < 2**-8


@pytest.mark.parametrize("both_ways", [True, False])
def test_every_bucket_is_used_and_far_distances_share_the_last(both_ways: bool) -> None:
    scheme = Bucketed(8, Attended(1, both_ways))
    distances = torch.arange(-2 * FARTHEST, 2 * FARTHEST + 1)
    kinds = scheme.kind(distances).tolist()
    assert kinds == [bucket(d, both_ways) for d in distances.tolist()]
    assert set(kinds) == set(range(BUCKETS)) - ({BUCKETS // 2} if both_ways else set())  # no distance is 0 ahead
    assert len({kinds[i] for i, d in enumerate(distances.tolist()) if d <= -FARTHEST}) == 1
    if not both_ways:
        assert {kinds[i] for i, d in enumerate(distances.tolist()) if d >= 0} == {0}  # what comes later is not seen


def test_alibi_has_the_slopes_of_the_paper() -> None:
    eight = POSITIONS["alibi"](16, Attended(8)).slopes
    assert eight.tolist() == [1 / 2**n for n in range(1, 9)]
    assert POSITIONS["alibi"](16, Attended(2)).slopes.tolist() == [1 / 16, 1 / 256]


def test_concatenated_waves_stand_behind_the_symbol_and_take_a_quarter() -> None:
    scheme, x = made("sinusoid-concat", 16), torch.randn(1, 3, 12).double()
    ours = scheme.add(x, 0)
    assert scheme.room == 4
    same(ours[..., :12], x)
    same(ours[0, 0, 12:], np.array([0.0, 1.0, 0.0, 1.0]))


def test_rotary_products_depend_on_the_distance_only() -> None:
    turn = Rotary().turn
    q, k = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)

    def product(query_place: int, key_place: int) -> float:
        return float((turn(q, query_place) * turn(k, key_place)).sum())

    for distance in range(-4, 5):
        values = [product(place + distance, place) for place in (4, 5, 11, 40)]
        assert values == pytest.approx([values[0]] * 4, abs=1e-4)
    assert len({round(product(place, 0), 3) for place in range(6)}) == 6
    assert product(0, 0) == pytest.approx(float((q * k).sum()), abs=1e-5)


def test_rotary_turns_places_together_as_one_by_one() -> None:
    x = torch.randn(2, 3, 6, 8)
    one_by_one = [Rotary().turn(x[:, :, place : place + 1], place + 2) for place in range(6)]
    torch.testing.assert_close(Rotary().turn(x, 2), torch.cat(one_by_one, dim=2), atol=1e-5, rtol=1e-5)
