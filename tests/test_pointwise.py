"""The compiled passes over values equal plain torch: cross-entropy with its gradient, dropout, a step of an LSTM."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from weft.core import native
from weft.core.emissions import Choice
from weft.core.kinds import Batch
from weft.core.pair import PAD
from weft.learn.objectives import CrossEntropy
from weft.nn.dropout import Dropout
from weft.nn.lstm import Lstm

pytestmark = pytest.mark.skipif(native.pointwise() is None, reason="nothing was compiled: no compiler")
each_format = pytest.mark.parametrize("format", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])


def batch_of(rows: int, longest: int, symbols: int) -> Batch:
    draw = torch.Generator().manual_seed(rows)
    sizes = torch.randint(1, longest + 1, (rows,), generator=draw).tolist()
    targets = [torch.randint(4, symbols, (size,), generator=draw).tolist() for size in sizes]
    return Batch.of([[5, 6]] * rows, targets)


def torchs_loss(logits: Tensor, batch: Batch, smoothing: float) -> Tensor:
    flat, wanted = logits.flatten(0, 1).float(), batch.wanted.values.flatten()
    return cross_entropy(flat, wanted, ignore_index=PAD, reduction="sum", label_smoothing=smoothing)


@each_format
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("rows", "longest", "symbols", "spread"), [(1, 1, 5, 1), (6, 9, 37, 3), (40, 12, 301, 30)])
def test_cross_entropy_and_its_gradient_equal_torchs(
    format: torch.dtype, smoothing: float, rows: int, longest: int, symbols: int, spread: float
) -> None:
    batch = batch_of(rows, longest, symbols)
    torch.manual_seed(1)
    logits = (spread * torch.randn(*batch.wanted.values.shape, symbols)).to(format).requires_grad_()
    ours, wanted = CrossEntropy(smoothing)(Choice(logits), batch).total, torchs_loss(logits, batch, smoothing)
    torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-4)
    (of_ours,), (of_wanted,) = (torch.autograd.grad(loss / 3, logits) for loss in (ours, wanted))
    coarse = format == torch.bfloat16
    torch.testing.assert_close(of_ours, of_wanted, rtol=0.02 if coarse else 1e-4, atol=2e-3 if coarse else 1e-6)
    assert not of_ours[~batch.wanted.mask].any()


@each_format
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_drops_its_share_and_the_same_values_of_the_gradient(p: float, format: torch.dtype) -> None:
    torch.manual_seed(2)
    x = torch.full((400, 250), 2.0, dtype=format, requires_grad=True)
    y = Dropout(p)(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    kept = y != 0
    assert float((~kept).double().mean()) == pytest.approx(p, abs=0.01)
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 2 / (1 - p)), rtol=0.01, atol=0)
    assert torch.equal(gradient * 2, y)


def test_dropout_masks_are_independent_of_position_and_call() -> None:
    torch.manual_seed(3)
    one, other = (((Dropout(0.5)(torch.ones(1000, 500)) != 0).double() - 0.5) for _ in range(2))
    for first, second in ((one, other), (one[1:], one[:-1]), (one[:, 1:], one[:, :-1]), (one[:, 256:], one[:, :244])):
        assert abs(float((first * second).mean())) < 0.002
    assert float(one.mean(0).std()) == pytest.approx(0.5 / 1000**0.5, rel=0.15)


def test_torchs_random_state_decides_what_is_dropped() -> None:
    results = []
    for seed in (4, 4, 5):
        torch.manual_seed(seed)
        results.append(Dropout(0.5)(torch.ones(64, 64)))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_the_number_of_threads_does_not_change_the_result() -> None:
    before, results = torch.get_num_threads(), []
    logits, wanted = torch.randn(300, 701).bfloat16(), torch.randint(1, 701, (300,))
    compiled = native.pointwise()
    assert compiled is not None
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(
                (*compiled.cross_entropy(logits, wanted, PAD, 0.1), compiled.dropout(logits, 0.3, 77, logits.dtype))
            )
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@each_format
def test_dropout_added_to_a_residual_equals_their_sum(format: torch.dtype) -> None:
    rest, x = torch.randn(40, 60, requires_grad=True), torch.randn(40, 60).to(format).requires_grad_()
    drop = Dropout(0.4)
    torch.manual_seed(6)
    ours = drop.onto(rest, x)
    torch.manual_seed(6)
    wanted = rest + drop(x)
    torch.testing.assert_close(ours, wanted, rtol=0, atol=0.02 if format == torch.bfloat16 else 1e-6)
    weights = torch.randn(40, 60)
    for one, other in zip(*(torch.autograd.grad((s * weights).sum(), (rest, x)) for s in (ours, wanted))):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=0.01, atol=1e-6)


def test_dropout_of_a_transposed_tensor_and_its_gradient_agree() -> None:
    x = torch.ones(64, 32).t().requires_grad_()
    y = Dropout(0.5)(x)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], y)


def test_weft_native_0_turns_it_off() -> None:
    code = "import os; os.environ['WEFT_NATIVE'] = '0'; from weft.core import native; print(native.pointwise())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"


@pytest.mark.parametrize(("rows", "symbols"), [(1, 1), (3, 77), (200, 1001)])
def test_log_softmax_equals_torchs_and_is_in_place(rows: int, symbols: int) -> None:
    compiled = native.pointwise()
    assert compiled is not None
    torch.manual_seed(rows)
    x = torch.randn(rows, 1, symbols) * 20
    wanted = torch.log_softmax(x, -1)
    assert compiled.log_softmax_(x) is x
    torch.testing.assert_close(x, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("lines", "width", "symbols", "count"), [(1, 1, 5, 1), (4, 3, 9, 6), (40, 5, 1000, 10)])
def test_the_largest_sums_of_each_line_are_those_of_topk(lines: int, width: int, symbols: int, count: int) -> None:
    compiled, end, first = native.pointwise(), 3, 4
    assert compiled is not None
    torch.manual_seed(lines)
    scores, log_probs = torch.randn(lines, width), torch.randn(lines * width, symbols)
    if width > 1:
        scores[0, 1] = -torch.inf  # a placeholder
    best, indices = compiled.top_sums(scores, log_probs, end, first, count)
    allowed = log_probs.clone()
    allowed[:, :end] = -torch.inf
    wanted = (scores[..., None] + allowed.view(lines, width, symbols)).flatten(1).topk(count)
    torch.testing.assert_close((best, indices), (wanted.values, wanted.indices), rtol=0, atol=0)


def test_missing_sums_are_minus_infinity_where_too_few_symbols_are_allowed() -> None:
    compiled = native.pointwise()
    assert compiled is not None
    best, indices = compiled.top_sums(torch.zeros(1, 1), torch.tensor([[9.0, 8, 7, 1, 6, 2]]), 3, 5, 4)
    assert best.tolist() == [[2.0, 1.0, -torch.inf, -torch.inf]]
    assert indices[0, :2].tolist() == [5, 3]


@pytest.mark.parametrize(("lines", "queries", "keys", "width"), [(1, 1, 1, 1), (2, 5, 7, 33), (9, 3, 20, 512)])
def test_additive_scores_equal_torchs(lines: int, queries: int, keys: int, width: int) -> None:
    compiled = native.pointwise()
    assert compiled is not None
    torch.manual_seed(lines)
    query, key, weight = torch.randn(queries, lines, width), torch.randn(lines, keys, width), torch.randn(width)
    query = query.transpose(0, 1)
    wanted = torch.tanh(query[:, :, None] + key[:, None]) @ weight
    torch.testing.assert_close(compiled.additive_scores(query, key, weight), wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("rows", "width"), [(1, 3), (5, 64), (200, 130)])
def test_a_step_of_an_lstm_equals_plain_torch(rows: int, width: int) -> None:
    torch.manual_seed(6)
    cell = Lstm(7, width)
    x, state = 4 * torch.randn(rows, 7), (torch.randn(rows, width), 3 * torch.randn(rows, width))
    plain, (_, plain_c) = cell(x, state)  # with gradients: not compiled
    with torch.no_grad():
        h, (same, c) = cell(x, state)
    assert same is h
    torch.testing.assert_close(h, plain.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(c, plain_c.detach(), rtol=1e-5, atol=1e-6)
