"""The compiled recurrence against plain torch: the same outputs and the same gradients, with and without attention."""

# B batch · T steps · I input width · D width

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from byhand import shaken as shaken_in_double
from weft.core import native
from weft.core.kinds import Batch
from weft.core.pair import END
from weft.core.trace import trace
from weft.learn.objectives import CrossEntropy
from weft.nn import fused
from weft.nn.assemble import CELLS, SCORES, assemble
from weft.nn.cells import Elman
from weft.nn.lstm import Lstm
from weft.nn.unroll import over_time
from weft.settings import compose, put

compiled = pytest.mark.skipif(native.recurrence() is None, reason="the compiled recurrence was not built: no compiler")
KNOWN = ("dot", "scaled", "bilinear", "additive", "concat")


def shaken(module: nn.Module) -> Any:
    return shaken_in_double(module).float()


@contextmanager
def in_plain_torch() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "available", lambda x: False)
        yield


@pytest.fixture(autouse=True)
def _never_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where torch's own kernel is faster."""
    monkeypatch.setattr(Lstm, "faster", False)


def both_ways(run: Callable[[], tuple[Tensor, ...]]) -> None:
    ours = run()
    with in_plain_torch():
        plain = run()
    assert len(ours) == len(plain)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-5 * max(1.0, other.abs().max().item()))


@compiled
@pytest.mark.parametrize(("rows", "steps", "inputs"), [(1, 1, 6), (3, 4, 6), (5, 7, 9), (40, 3, 21)])
@pytest.mark.parametrize("name", CELLS)
def test_every_cell_over_time(name: str, rows: int, steps: int, inputs: int) -> None:
    torch.manual_seed(3)
    cell = shaken(CELLS[name](inputs, 21 if rows == 40 else 6))  # a width that fills no register
    x = torch.randn(rows, steps, inputs, requires_grad=True)
    state = tuple(torch.randn_like(part, requires_grad=True) for part in cell.start(rows))
    pull = torch.randn(rows, steps, cell.width)

    def run() -> tuple[Tensor, ...]:
        out, after = over_time(cell, x, state)
        loss = (out * pull).sum() + sum(part.square().sum() for part in after)
        return (out, *after, *torch.autograd.grad(loss, [x, *state, *cell.parameters()]))

    both_ways(run)


def model_of(**settings: Any) -> nn.Module:
    size = {"encoder.width": 8, "decoder.width": 12, "embed.width": 10, "train.dropout": 0.0}
    tree: dict[str, Any] = {}
    for key, value in {**size, **{name.replace("__", "."): value for name, value in settings.items()}}.items():
        put(tree, key, value)
    torch.manual_seed(5)
    return shaken(assemble(compose(("flag", tree)).spec, 14, 14))


def batch(lengths: list[tuple[int, int]]) -> Batch:
    draw = random.Random(2)

    def texts(sizes: Iterable[int]) -> list[list[int]]:
        return [[draw.randrange(END + 1, 14) for _ in range(size)] for size in sizes]

    return Batch.of(texts(source for source, _ in lengths), texts(target for _, target in lengths))


def losses(model: nn.Module, given: Batch) -> Callable[[], tuple[Tensor, ...]]:
    def run() -> tuple[Tensor, ...]:
        emission = model(given)
        loss = CrossEntropy()(emission, given).total
        return emission.log_probs, *torch.autograd.grad(loss, list(model.parameters()))

    return run


@compiled
@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("score", KNOWN)
@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_with_a_fed_context(cell: str, score: str, moves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    more = {"encoder__width": 12} if score in ("dot", "scaled") else {}
    more |= {"decoder__attention__location_aware": moves, "decoder__attention__score": score}
    model = model_of(encoder__cell=cell, decoder__cell=cell, **more)
    looks, looking = [], fused.with_attention
    monkeypatch.setattr(fused, "with_attention", lambda *given: looks.append(1) or looking(*given))
    both_ways(losses(model, batch([(1, 4), (6, 1), (3, 7)])))
    assert looks == [1], "the compiled code must have done it once, and plain torch the other time"


@compiled
def test_what_it_does_not_know_is_left_to_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: object) -> None:
        raise AssertionError("the compiled code was given what it does not know")

    monkeypatch.setattr(fused, "with_attention", never)
    given = batch([(2, 3), (4, 2)])
    for score in set(SCORES) - set(KNOWN):
        model_of(decoder__attention__score=score, encoder__width=12)(given)
    for key, value in {"weigh": "sparsemax", "heads": 2, "query": "before", "project": "linear"}.items():
        model_of(**{f"decoder__attention__{key}": value})(given)
    model_of(decoder__layers=2)(given)
    model_of(decoder__layer_norm=True)(given)
    with trace() as seen:  # what somebody looks at is made where it can be seen
        model_of()(given)
    assert seen["decode.cross"]


@compiled
def test_a_cell_that_is_not_in_the_compiled_code_runs_all_the_same() -> None:
    class Own(Elman):
        def weights(self) -> None:
            return None

    own, x = Own(3, 3), torch.randn(2, 4, 3)
    assert over_time(own, x, own.start(2))[0].shape == (2, 4, 3)


@compiled
def test_the_summary_at_every_step_stands_before_the_context() -> None:
    both_ways(losses(model_of(bridge__give="every"), batch([(1, 4), (6, 1), (3, 7)])))


@compiled
def test_other_formats_are_left_to_plain_torch() -> None:
    assert fused.available(torch.zeros(1))
    assert not fused.available(torch.zeros(1, dtype=torch.float64))
    assert not fused.available(torch.zeros(1, dtype=torch.bfloat16))


@compiled
def test_under_autocast_it_counts_in_float32() -> None:
    model, given = model_of(), batch([(1, 4), (6, 1), (3, 7)])
    with torch.autocast("cpu", torch.bfloat16):
        assert fused.available(torch.zeros(1, dtype=torch.bfloat16))
        state = model.decoder.start(model.bridge(model.encoder(given.source, given.source_mask)))
        assert (
            model.decoder.stack.sequence(torch.randn(3, 2, 18, dtype=torch.bfloat16), state.layers).dtype
            == torch.float32
        )
        halves = losses(model, given)()
    for half, whole in zip(halves, losses(model, given)(), strict=True):
        torch.testing.assert_close(half, whole, rtol=0.1, atol=0.1 * max(1.0, whole.abs().max().item()))


@compiled
def test_a_second_way_back_finds_what_the_first_found() -> None:
    for cell in CELLS:
        one = shaken(CELLS[cell](4, 4))
        x = torch.randn(2, 3, 4, requires_grad=True)
        loss = over_time(one, x, one.start(2))[0].square().sum()
        first = torch.autograd.grad(loss, [x, *one.parameters()], retain_graph=True)
        for before, after in zip(first, torch.autograd.grad(loss, [x, *one.parameters()]), strict=True):
            assert torch.equal(before, after), cell


@compiled
def test_threads_change_nothing() -> None:
    model, given = model_of(decoder__width=64), batch([(30, 4)] * 40)
    before = torch.get_num_threads()
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(losses(model, given)())
    torch.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5 * max(1.0, other.abs().max().item()))


def test_it_can_be_turned_off() -> None:
    asked = [sys.executable, "-c", "from weft.core import native; print(native.recurrence())"]
    done = subprocess.run(asked, env={**os.environ, "WEFT_NATIVE": "0"}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"
