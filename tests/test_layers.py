"""Options of the layers of a recurrence: dropout with one mask for all steps, residual connections, norms."""

# B batch · T length · D width

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from byhand import lengths_to_mask, same, shaken
from weft.core.emissions import Choice
from weft.core.kinds import Batch, Column
from weft.core.masks import last_real, reverse_real
from weft.core.pair import PAD
from weft.core.shapes import Symbols
from weft.learn.objectives import Ctc
from weft.nn.assemble import assemble
from weft.nn.cells import Gru, Recurrence
from weft.nn.dropout import Dropout, OverTime
from weft.nn.lstm import Lstm, LstmI
from weft.nn.unroll import LayerOptions, Reader, Stack, over_time
from weft.settings import compose

BATCH = Batch.of([[4, 5, 6, 7], [8, 4], [5]], [[4, 5, 6], [7, 8, 4], [5, 5, 5]])


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(7)


# --- the same values at every step


def test_a_mask_over_time_is_one_for_all_steps_and_another_for_each_sequence() -> None:
    drop = OverTime(0.5)
    drop.begin()
    kept = drop(torch.ones(8, 5, 32))
    assert torch.equal(kept, kept[:, :1].expand(-1, 5, -1))
    assert len({tuple(row) for row in kept[:, 0].tolist()}) == 8
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(drop(torch.ones(8, 32)), kept[:, 0])  # a step of the same sequences
    drop.begin()
    assert not torch.equal(drop(torch.ones(8, 5, 32)), kept)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_a_mask_over_time_keeps_the_mean(p: float) -> None:
    drop = OverTime(p)
    drop.begin()
    kept = drop(torch.ones(2000, 1, 50))
    assert float((kept == 0).double().mean()) == pytest.approx(p, abs=0.01)
    assert float(kept.mean()) == pytest.approx(1.0, abs=0.05)


def test_no_mask_acts_outside_training_or_with_no_dropout() -> None:
    x = torch.randn(2, 3, 4)
    assert OverTime(0.5).eval()(x) is x
    assert OverTime(0.0)(x) is x


def model_with(variational: bool, feed: bool, layers: int = 2) -> Any:
    part = {"kind": "recurrent", "cell": "gru", "width": 12, "layers": layers, "variational": variational}
    decoder = {**part, "attention": {"feed": feed}}
    tree = {"embed": {"width": 12}, "encoder": part, "decoder": decoder, "train": {"dropout": 0.5}}
    return assemble(compose(("flag", tree)).spec, Symbols(9), Symbols(9)).train()


class Watched:
    """The masks that every dropout of a model applied, in order, each (B, D)."""

    def __init__(self, model: nn.Module) -> None:
        self.masks: dict[str, list[Tensor]] = {}
        for name, part in model.named_modules():
            if isinstance(part, Dropout):
                part.register_forward_hook(self._note(name))

    def _note(self, name: str) -> Any:
        def hook(part: nn.Module, given: tuple[Tensor], made: Tensor) -> None:
            ratio = (made / given[0]).detach()
            steps = ratio.unbind(1) if ratio.dim() == 3 else (ratio,)
            self.masks.setdefault(name, []).extend(steps)

        return hook


def take_steps(model: Any) -> list[Tensor]:
    state = model.begin(BATCH.source)
    said = []
    for y in BATCH.given.values.unbind(1):
        log_probs, state = model.advance(y, state)
        said.append(log_probs)
    return said


@pytest.mark.parametrize("way", ["all at once", "fed", "step by step"])
@pytest.mark.parametrize("variational", [True, False])
def test_a_run_over_sequences_drops_the_same_values_at_every_step(variational: bool, way: str) -> None:
    model = model_with(variational, feed=way == "fed")
    with torch.no_grad():
        model.source_reader.table.weight[PAD] = 1.0  # else there is nothing to drop from
    seen = Watched(model)
    if way == "step by step":
        take_steps(model)
    else:
        model(BATCH)
    assert {name.split(".")[0] for name in seen.masks} == {"source_reader", "encoder", "target_reader", "decoder"}
    assert len(seen.masks) == 6  # symbols, between the layers, and the states, on each side
    for name, masks in seen.masks.items():
        assert len(masks) >= 4, name
        alike = all(torch.equal(mask, masks[0]) for mask in masks)
        assert alike is variational, name
        assert not torch.equal(masks[0][0], masks[0][1]), name


@pytest.mark.parametrize("feed", [True, False])
def test_all_at_once_equals_steps_while_the_same_values_are_dropped(feed: bool) -> None:
    model = model_with(True, feed)
    torch.manual_seed(3)
    whole = model(BATCH).log_probs
    torch.manual_seed(3)
    one_by_one = take_steps(model)
    for place, log_probs in enumerate(one_by_one):
        torch.testing.assert_close(log_probs, whole[:, place], atol=1e-5, rtol=1e-5)


def test_the_next_batch_is_dropped_from_anew() -> None:
    model = model_with(True, feed=False)
    first, second = model(BATCH).logits, model(BATCH).logits
    assert (first - second).abs().amax() > 1e-3


# --- residuals and norms


def normed(norm: nn.Module, x: Tensor) -> Tensor:
    """(x − mean) / √(variance + ε) · w + b"""
    assert isinstance(norm, nn.LayerNorm)
    apart = x - x.mean(-1, keepdim=True)
    return apart / (apart.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def made_stack(residual: bool, norm: bool) -> Stack:
    cells: list[Recurrence] = [Gru(3, 5), Gru(5, 5), Gru(5, 5)]
    stack: Stack = shaken(Stack(cells, LayerOptions(residual=residual, norm=norm)))
    return stack


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_layers_stand_on_each_other_as_the_equations_say(residual: bool, norm: bool) -> None:
    """hₗ = cellₗ(uₗ₋₁); uₗ = norm(hₗ + uₗ₋₁), the first layer without the sum."""
    stack, x = made_stack(residual, norm), torch.randn(2, 4, 3).double()
    final = tuple(torch.randn(2, 5).double() for _ in range(3))
    up = x
    for place, cell in enumerate(stack.cells):
        h = over_time(cell, up, (final[place],))[0]
        up = h + up if residual and place > 0 else h
        up = normed(stack.layers[place].norm, up) if norm else up
    same(stack.sequence(x, stack.start(2, final)), up)
    states = stack.start(2, final)
    for place, step in enumerate(x.unbind(1)):
        out, states = stack.step(step, states)
        same(out, up[:, place])


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_a_reader_of_both_directions_joins_them_before_sum_and_norm(residual: bool, norm: bool) -> None:
    cells = [[Lstm(3, 2), Lstm(4, 2)] for _ in range(2)]
    reader = shaken(Reader(*cells, LayerOptions(residual=residual, norm=norm)))
    x, lengths = torch.randn(2, 4, 3).double(), [4, 2]
    states, final, _ = reader(x, lengths_to_mask(torch.tensor(lengths)))
    for row, length in enumerate(lengths):
        up = x[row : row + 1, :length]
        for place, (ahead, back) in enumerate(zip(*cells)):
            there = over_time(ahead, up, ahead.start(1))[0]
            and_back = over_time(back, up.flip(1), back.start(1))[0].flip(1)
            both = torch.cat([there, and_back], dim=-1)
            last = torch.cat([there[:, -1], and_back[:, 0]], dim=-1)
            up = both + up if residual and place > 0 else both
            up = normed(reader.layers[place].norm, up) if norm else up
            same(final[place][row], (normed(reader.layers[place].norm, last) if norm else last)[0])
        same(states[row, :length], up[0])


HOLES = torch.tensor([[0, 1, 0, 1, 1, 0], [1, 0, 0, 0, 0, 1], [1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]]).bool()


@pytest.mark.parametrize("both_directions", [True, False])
@pytest.mark.parametrize(("cell", "whole_state"), [(Gru, False), (Lstm, False), (Lstm, True), (LstmI, True)])
def test_a_recurrence_skips_holes_in_the_mask(cell: type[Recurrence], both_directions: bool, whole_state: bool) -> None:
    forwards, backwards = ([cell(3, 4), cell(8 if both_directions else 4, 4)] for _ in range(2))
    options = LayerOptions(residual=True, norm=True)
    reader = shaken(Reader(forwards, backwards if both_directions else [], options, whole_state))
    x = torch.randn(4, 6, 3).double()
    states, final, memories = reader(x, HOLES)
    assert len(memories) == 2 * whole_state
    for row, real in enumerate(HOLES):
        alone, last, kept = reader(x[row : row + 1, real], torch.ones(1, int(real.sum())).bool())
        same(states[row, real], alone[0])
        for ours, theirs in zip(final + memories, last + kept, strict=True):
            same(ours[row], theirs[0])


def test_real_positions_are_reversed_around_holes() -> None:
    x = torch.arange(24).view(4, 6)
    turned = reverse_real(x, HOLES)
    for row, real in enumerate(HOLES):
        assert turned[row, real].tolist() == x[row, real].flip(0).tolist()
        assert torch.equal(turned[row, ~real], x[row, ~real])
    assert torch.equal(reverse_real(turned, HOLES), x)
    assert last_real(x[..., None], HOLES)[:, 0].tolist() == [4, 11, 17, 19]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_ctc_is_summed_over_real_positions_around_holes(smoothing: float) -> None:
    sources = [[4, 5], [4], [4, 5, 6, 4, 5], [4]]
    batch, logits = Batch.of(sources, [[5], [4], [5, 6, 4], [5]]), torch.randn(4, 6, 7)
    compact = torch.zeros_like(logits)
    for row, real in enumerate(HOLES):
        compact[row, : int(real.sum())] = logits[row, real]
    with_holes = replace(batch, source=Column(batch.source.values, HOLES))
    ours, wanted = Ctc(smoothing)(Choice(logits), with_holes), Ctc(smoothing)(Choice(compact), batch)
    torch.testing.assert_close((ours.total, ours.count), (wanted.total, wanted.count))
