"""What hypotheses share and what they do not: lines, and the cache of a Transformer's keys and values."""

# N hypotheses · T places · H heads · d width of a head

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.core.lines import Lines
from weft.nn.cache import FIRST_CAPACITY, Cache
from weft.nn.decoders.transformer import TransformerState


def kept_of(lines: Lines, rows: list[int]) -> tuple[Lines, list[int] | None]:
    made, kept = lines.select(torch.tensor(rows, dtype=torch.long))
    return made, None if kept is None else kept.tolist()


def test_hypotheses_of_a_line_share_it() -> None:
    assert kept_of(Lines(3), [0, 0, 1, 1, 2, 2]) == (Lines(3, 2), None)  # a beam opens
    assert kept_of(Lines(3, 2), [1, 0, 3, 3, 4, 5]) == (Lines(3, 2), None)  # reordered within lines
    assert kept_of(Lines(3, 2), [1, 0, 4, 5]) == (Lines(2, 2), [0, 2])  # a line has left
    assert kept_of(Lines(3), [0, 2]) == (Lines(2), [0, 2])
    assert kept_of(Lines(3), [2, 0, 1]) == (Lines(3), [2, 0, 1])
    assert kept_of(Lines(2, 2), [0, 1, 2]) == (Lines(3), [0, 0, 1])  # not as many each: one by one
    assert kept_of(Lines(2, 2), []) == (Lines(0), [])


def test_a_lines_hypotheses_are_queries_side_by_side() -> None:
    x = torch.arange(24.0).view(6, 1, 4)
    lines = Lines(2, 3)
    assert lines.fold(x).shape == (2, 3, 4)
    assert torch.equal(lines.fold(x)[1, 0], x[3, 0])
    assert torch.equal(lines.unfold(lines.fold(x)), x)


def new(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 2, 1, 3, generator=draw), torch.randn(rows, 2, 1, 3, generator=draw)


@pytest.fixture(autouse=True)
def _inference() -> object:
    with torch.inference_mode():
        yield


def test_the_buffer_grows_and_returns_what_was_put() -> None:
    cache, said = Cache.start(4, 2, 2, torch.empty(4, 2, 5, 3)), []
    for place in range(3 * FIRST_CAPACITY):
        cache = cache.extended(1)
        said.append(new(4, place))
        for block in (0, 1):
            keys, values = cache.put(block, *(part + block for part in said[-1]))
            assert torch.equal(keys, torch.cat([k for k, _ in said], 2) + block)
            assert torch.equal(values, torch.cat([v for _, v in said], 2) + block)


def test_a_cache_is_a_value() -> None:
    one = Cache.start(2, 1, 2, torch.empty(2, 2, 5, 3)).extended(1)
    one.put(0, *new(2, 1))
    left, right = one.extended(1), one.extended(1)  # both extend the same cache
    of_left, _ = left.put(0, *new(2, 2))
    before = of_left.clone()
    of_right, _ = right.put(0, *new(2, 3))
    assert torch.equal(of_left, before)
    assert torch.equal(of_left[:, :, 0], of_right[:, :, 0])
    assert not torch.equal(of_left[:, :, 1], of_right[:, :, 1])


def test_rows_are_chosen_in_all_blocks() -> None:
    cache = Cache.start(3, 2, 2, torch.empty(3, 2, 5, 3)).extended(1)
    both = [cache.put(block, *new(3, block))[0].clone() for block in (0, 1)]
    rows = torch.tensor([2, 2, 0, 1])
    chosen = cache.select(rows).extended(1)
    for block in (0, 1):
        keys, _ = chosen.put(block, *new(4, 7))
        assert torch.equal(keys[:, :, :1], both[block][rows])


def test_rows_are_not_moved_before_they_are_compacted() -> None:
    cache = Cache.start(3, 1, 2, torch.empty(3, 2, 5, 3)).extended(1)
    first = cache.put(0, *new(3, 1))[0].clone()
    chosen = cache.select(torch.tensor([2, 0]))
    assert chosen.buffer is cache.buffer
    assert chosen.row_of is not None
    extended = chosen.extended(1)
    assert extended.row_of is not None
    assert extended.row_of.tolist() == [[2, 0], [0, 1]]
    compacted = chosen.compacted()
    assert compacted.row_of is None
    keys, _ = compacted.extended(1).put(0, *new(2, 2))
    assert torch.equal(keys[:, :, :1], first[[2, 0]])


def test_lines_are_not_moved_before_they_are_compacted() -> None:
    keys, mask = torch.randn(3, 2, 5, 3), torch.rand(3, 1, 1, 5) > 0.5
    begun = TransformerState(((keys, keys + 1),), mask, Lines(3), Cache.start(3, 1, 2, keys))
    left = begun.select(torch.tensor([0, 2])).select(torch.tensor([1, 1]))
    assert left.source is begun.source
    assert left.stored is not None
    assert left.stored.tolist() == [2]
    assert left.lines == Lines(1, 2)
    compacted = left.compacted()
    assert compacted.stored is None
    assert torch.equal(compacted.source[0][0], keys[[2]])
    assert torch.equal(compacted.source[0][1], keys[[2]] + 1)
    assert torch.equal(compacted.mask, mask[[2]])


def test_rows_that_left_are_dropped_when_the_buffer_grows() -> None:
    cache = Cache.start(6, 1, 2, torch.empty(6, 2, 5, 3)).extended(1)
    first = cache.put(0, *new(6, 1))[0].clone()
    cache = cache.select(torch.tensor([4, 1]))
    for _ in range(FIRST_CAPACITY - 1):
        cache = cache.extended(1)
    assert cache.buffer.shape[:2] == (FIRST_CAPACITY, 6)
    cache = cache.extended(1)
    assert cache.buffer.shape[:2] == (2 * FIRST_CAPACITY, 2)
    keys, _ = cache.put(0, *new(2, 2))
    assert torch.equal(keys[:, :, :1], first[[4, 1]])


def test_the_buffer_grows_only_if_it_is_too_short() -> None:
    cache = Cache.start(2, 1, 2, torch.empty(2, 2, 5, 3))
    with torch.inference_mode(False), torch.enable_grad():
        for _ in range(FIRST_CAPACITY):
            cache = cache.extended(1)
    assert cache.buffer.shape[0] == FIRST_CAPACITY
