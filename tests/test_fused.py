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
from weft.core.shapes import Symbols
from weft.core.trace import trace
from weft.learn.objectives import CrossEntropy
from weft.nn import fused
from weft.nn.assemble import CELLS, SCORES, assemble
from weft.nn.cells import Elman
from weft.nn.lstm import Lstm
from weft.nn.unroll import over_time
from weft.settings import compose, put

compiled = pytest.mark.skipif(native.recurrence() is None, reason="the compiled recurrence was not built: no compiler")
KNOWN = ("dot", "scaled", "scaled-width", "bilinear", "additive", "concat")


def shaken(module: nn.Module) -> Any:
    return shaken_in_double(module).float()


@contextmanager
def in_plain_torch() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "available", lambda x: False)
        yield


@pytest.fixture(autouse=True)
def _without_torchs_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled code is used even where torch's kernel is faster."""
    monkeypatch.setattr(Lstm, "faster", False)


def check_against_torch(run: Callable[[], tuple[Tensor, ...]]) -> None:
    ours = run()
    with in_plain_torch():
        plain = run()
    assert len(ours) == len(plain)
    for compiled_result, expected in zip(ours, plain, strict=True):
        tolerance = 2e-5 * max(1.0, expected.abs().max().item())
        torch.testing.assert_close(compiled_result, expected, rtol=2e-5, atol=tolerance)


@compiled
@pytest.mark.parametrize(("rows", "steps", "inputs"), [(1, 1, 6), (3, 4, 6), (5, 7, 9), (40, 3, 21)])
@pytest.mark.parametrize("name", CELLS)
def test_every_cell_over_time_equals_torch(name: str, rows: int, steps: int, inputs: int) -> None:
    torch.manual_seed(3)
    cell = shaken(CELLS[name](inputs, 21 if rows == 40 else 6))  # a width that fills no register
    x = torch.randn(rows, steps, inputs, requires_grad=True)
    state = tuple(torch.randn_like(part, requires_grad=True) for part in cell.start(rows))
    pull = torch.randn(rows, steps, cell.width)

    def run() -> tuple[Tensor, ...]:
        out, after = over_time(cell, x, state)
        loss = (out * pull).sum() + sum(part.square().sum() for part in after)
        return (out, *after, *torch.autograd.grad(loss, [x, *state, *cell.parameters()]))

    check_against_torch(run)


def model_of(**settings: Any) -> nn.Module:
    size = {"encoder.width": 8, "decoder.width": 12, "embed.width": 10, "train.dropout": 0.0}
    tree: dict[str, Any] = {}
    for key, value in {**size, **{name.replace("__", "."): value for name, value in settings.items()}}.items():
        put(tree, key, value)
    torch.manual_seed(5)
    return shaken(assemble(compose(("flag", tree)).spec, Symbols(14), Symbols(14)))


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
def test_every_cell_with_a_fed_context_equals_torch(
    cell: str, score: str, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"encoder__width": 12} if score in ("dot", "scaled", "scaled-width") else {}
    more |= {"decoder__attention__location_aware": moves, "decoder__attention__score": score}
    model = model_of(encoder__cell=cell, decoder__cell=cell, **more)
    calls, real = [], fused.with_attention
    monkeypatch.setattr(fused, "with_attention", lambda *given: calls.append(1) or real(*given))
    check_against_torch(losses(model, batch([(1, 4), (6, 1), (3, 7)])))
    assert calls == [1], "the compiled code must run once, and plain torch the other time"


@compiled
def test_attention_that_is_not_compiled_runs_in_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: object) -> None:
        raise AssertionError("the compiled code was called with attention that it does not have")

    monkeypatch.setattr(fused, "with_attention", never)
    given = batch([(2, 3), (4, 2)])
    for score in set(SCORES) - set(KNOWN):
        model_of(decoder__attention__score=score, encoder__width=12)(given)
    for key, value in {"weigh": "sparsemax", "heads": 2, "query": "before", "project": "linear"}.items():
        model_of(**{f"decoder__attention__{key}": value})(given)
    model_of(decoder__layers=2)(given)
    model_of(decoder__layer_norm=True)(given)
    with trace() as seen:  # attention weights are noted in plain torch only
        model_of()(given)
    assert seen["decode.cross"]


@compiled
def test_a_cell_that_is_not_compiled_runs_in_plain_torch() -> None:
    class Uncompiled(Elman):
        def fused(self) -> None:
            return None

    cell, x = Uncompiled(3, 3), torch.randn(2, 4, 3)
    assert over_time(cell, x, cell.start(2))[0].shape == (2, 4, 3)


@compiled
def test_the_summary_at_every_step_comes_before_the_context() -> None:
    check_against_torch(losses(model_of(bridge__give="every"), batch([(1, 4), (6, 1), (3, 7)])))


@compiled
def test_other_dtypes_run_in_plain_torch() -> None:
    assert fused.available(torch.zeros(1))
    assert not fused.available(torch.zeros(1, dtype=torch.float64))
    assert not fused.available(torch.zeros(1, dtype=torch.bfloat16))


@compiled
def test_it_computes_in_float32_under_autocast() -> None:
    model, given = model_of(), batch([(1, 4), (6, 1), (3, 7)])
    with torch.autocast("cpu", torch.bfloat16):
        assert fused.available(torch.zeros(1, dtype=torch.bfloat16))
        state = model.decoder.start(model.read(given.source))
        assert (
            model.decoder.stack.sequence(torch.randn(3, 2, 18, dtype=torch.bfloat16), state.layers).dtype
            == torch.float32
        )
        halves = losses(model, given)()
    for half, whole in zip(halves, losses(model, given)(), strict=True):
        torch.testing.assert_close(half, whole, rtol=0.1, atol=0.1 * max(1.0, whole.abs().max().item()))


@compiled
def test_a_second_backward_pass_gives_the_same_gradients() -> None:
    for name in CELLS:
        cell = shaken(CELLS[name](4, 4))
        x = torch.randn(2, 3, 4, requires_grad=True)
        loss = over_time(cell, x, cell.start(2))[0].square().sum()
        first = torch.autograd.grad(loss, [x, *cell.parameters()], retain_graph=True)
        for before, after in zip(first, torch.autograd.grad(loss, [x, *cell.parameters()]), strict=True):
            assert torch.equal(before, after), name


@compiled
def test_the_number_of_threads_does_not_change_the_result() -> None:
    model, given = model_of(decoder__width=64), batch([(30, 4)] * 40)
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        results.append(losses(model, given)())
    torch.set_num_threads(before)
    for alone, shared in zip(*results, strict=True):
        torch.testing.assert_close(alone, shared, rtol=1e-5, atol=1e-5 * max(1.0, shared.abs().max().item()))


def test_weft_native_0_turns_it_off() -> None:
    command = [sys.executable, "-c", "from weft.core import native; print(native.recurrence())"]
    done = subprocess.run(command, env={**os.environ, "WEFT_NATIVE": "0"}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"
