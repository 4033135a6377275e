"""Batches: every row once, within the token budget, in an order of seed and epoch alone, with little padding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft.data import batches
from weft.data.batches import Lengths, Thinning, by_length, plan, too_long
from weft.data.prepare import Files, Prepared
from weft.data.sides.sides import Sides


def lengths(count: int = 3000, spread: float = 0.5, seed: int = 1) -> tuple[Lengths, Lengths]:
    """Source lengths as in running text, target lengths that go along with them."""
    draw = np.random.default_rng(seed)
    source = np.maximum(2, draw.lognormal(2.6, spread, count))
    target = np.maximum(2, source * draw.normal(1.0, 0.18, count))
    return source.astype(np.int32), target.astype(np.int32)


def padding_waste(made: batches.EpochPlan, source: Lengths, target: Lengths) -> float:
    """The share of places in the batches that hold no symbol, over both sides."""
    real = padded = 0
    for rows in made:
        for side in (source[rows], target[rows]):
            real += int(side.sum())
            padded += len(rows) * int(side.max())
    return 1 - real / max(1, padded)


def rows_of(made: batches.EpochPlan) -> list[list[int]]:
    return [[int(row) for row in batch] for batch in made]


def test_the_same_seed_and_epoch_give_the_same_plan() -> None:
    source, target = lengths()
    np.random.seed(5)
    first = rows_of(plan(source, target, 512, seed=3, epoch=2))
    np.random.seed(6)
    assert rows_of(plan(source.copy(), target.copy(), 512, seed=3, epoch=2)) == first


def test_a_plan_does_not_change_the_lengths_it_reads() -> None:
    source, target = lengths()
    before = source.copy(), target.copy()
    plan(source, target, 512, seed=3, epoch=2)
    assert (source == before[0]).all()
    assert (target == before[1]).all()


@pytest.mark.parametrize(("seed", "epoch"), [(3, 3), (4, 2), (2, 3)])
def test_another_seed_or_epoch_gives_another_plan(seed: int, epoch: int) -> None:
    source, target = lengths()
    first, other = plan(source, target, 512, 3, 2), plan(source, target, 512, seed, epoch)
    assert rows_of(first) != rows_of(other)
    assert {tuple(sorted(b)) for b in rows_of(first)} != {tuple(sorted(b)) for b in rows_of(other)}


@pytest.mark.parametrize("pool", [1 << 18, 700])
@pytest.mark.parametrize("batch_tokens", [16, 40, 512, 10**6])
def test_every_row_that_fits_is_in_exactly_one_batch(
    monkeypatch: pytest.MonkeyPatch, pool: int, batch_tokens: int
) -> None:
    monkeypatch.setattr(batches, "POOL", pool)
    source, target = lengths()
    made = rows_of(plan(source, target, batch_tokens, seed=1, epoch=0))
    fitting = [i for i in range(len(source)) if max(source[i], target[i]) <= batch_tokens]
    assert sorted(row for batch in made for row in batch) == fitting
    assert all(made)


@pytest.mark.parametrize("batch_tokens", [16, 40, 512, 4096])
def test_no_batch_costs_more_than_the_token_budget(batch_tokens: int) -> None:
    source, target = lengths()
    for rows in plan(source, target, batch_tokens, seed=1, epoch=0):
        assert len(rows) * max(source[rows].max(), target[rows].max()) <= batch_tokens


def test_batches_are_not_in_the_order_of_length() -> None:
    source, target = lengths()
    longest = [int(np.maximum(source, target)[rows].max()) for rows in plan(source, target, 512, seed=1, epoch=0)]
    assert longest != sorted(longest)
    assert longest != sorted(longest, reverse=True)


def test_a_plan_knows_its_length_and_its_batches_by_place() -> None:
    made = plan(*lengths(), 512, seed=1, epoch=0)
    assert len(made) == len(list(made))
    assert made[3].tolist() == list(made)[3].tolist()


def test_too_long_counts_the_rows_that_are_in_no_batch() -> None:
    source, target = lengths()
    made = plan(source, target, 40, seed=1, epoch=0)
    left_out = too_long(source, target, 40)
    assert left_out > 0
    assert left_out == len(source) - sum(len(rows) for rows in made)
    assert too_long(source, target, 10**6) == 0


def test_a_source_that_n_rows_have_counts_n_to_a_power_times_and_its_rows_take_turns() -> None:
    times = [16, 9, 2, 1]
    sources = np.repeat(np.arange(len(times)), times).astype(np.int32)
    source = target = np.full(len(sources), 5, dtype=np.int32)
    seen = np.zeros(len(sources))
    for epoch in range(400):
        made = plan(source, target, 64, 1, epoch, Thinning(sources, 0.5))
        rows = np.concatenate(list(made))
        assert len(set(rows.tolist())) == len(rows)
        assert np.bincount(sources[rows], minlength=4)[[0, 1, 3]].tolist() == [4, 3, 1]
        seen[rows] += 1 / 400
    expected = np.repeat([4 / 16, 3 / 9, 2**0.5 / 2, 1], times)
    assert seen == pytest.approx(expected, abs=0.1)


def test_thinned_epochs_hang_on_seed_and_epoch_alone() -> None:
    source, target = lengths()
    thinning = Thinning((np.arange(len(source)) % 50).astype(np.int32), 0.5)
    made = [rows_of(plan(source, target, 512, seed, epoch, thinning)) for seed, epoch in ((1, 2), (1, 2), (1, 3))]
    assert made[0] == made[1] != made[2]


def test_a_row_that_fills_the_budget_alone_fits() -> None:
    source, target = np.array([16, 17, 3], dtype=np.int32), np.array([3, 3, 16], dtype=np.int32)
    assert sorted(rows_of(plan(source, target, 16, 1, 0))) == [[0], [2]]
    assert too_long(source, target, 16) == 1


def test_a_plan_where_nothing_fits_has_no_batches() -> None:
    source = np.array([50, 60], dtype=np.int32)
    assert len(plan(source, source, 16, 1, 0)) == 0


@pytest.mark.parametrize("batch_tokens", [16, 512, 4096])
def test_by_length_covers_every_row_once_however_long(batch_tokens: int) -> None:
    source, target = lengths()
    source[7] = 5000
    found = list(by_length(source, target, batch_tokens))
    assert sorted(int(row) for rows in found for row in rows) == list(range(len(source)))
    for rows in found:
        assert len(rows) == 1 or len(rows) * max(source[rows].max(), target[rows].max()) <= batch_tokens


def test_by_length_gives_the_same_batches_each_time() -> None:
    source, target = lengths()
    first, again = ([rows.tolist() for rows in by_length(source, target, 512)] for _ in range(2))
    assert first == again


def test_by_length_of_nothing_has_no_batches() -> None:
    nothing = np.empty(0, dtype=np.int32)
    assert list(by_length(nothing, nothing, 512)) == []


def test_padding_waste_is_the_share_of_empty_places() -> None:
    source, target = np.array([2, 4], dtype=np.int32), np.array([3, 3], dtype=np.int32)
    made = plan(source, target, 100, 1, 0)
    assert len(made) == 1
    assert padding_waste(made, source, target) == pytest.approx(2 / 14)


@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize(("count", "spread"), [(30_000, 0.28), (100_000, 0.5)])
def test_padding_wastes_less_than_eight_percent_on_made_up_lengths(count: int, spread: float, epoch: int) -> None:
    """As many and as even as in multi30k; and uneven ones, of which it takes more rows to find alike ones."""
    source, target = lengths(count, spread)
    made = plan(source, target, 4096, seed=1, epoch=epoch)
    assert padding_waste(made, source, target) < 0.08


def test_padding_wastes_less_than_eight_percent_on_multi30k(data_folder: Path, tmp_path: Path) -> None:
    folder = data_folder / "multi30k"
    files = Files((f"{folder}/train.en:{folder}/train.de",), (f"{folder}/val.en:{folder}/val.de",))
    prepared = Prepared(files, root=tmp_path)
    tokenisers = prepared.tokenisers(("bpe", 8000), ("bpe", 8000), shared=False)
    corpus = prepared.corpus(Sides(*tokenisers))
    made = plan(corpus.source_lengths, corpus.target_lengths, 4096, seed=1, epoch=0)
    waste = padding_waste(made, corpus.source_lengths, corpus.target_lengths)
    print(f"padding waste on multi30k: {waste:.2%} in {len(made)} batches")
    assert waste < 0.08
