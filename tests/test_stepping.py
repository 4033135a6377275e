"""A decoder's step in one call of compiled code is the step in plain torch, whatever was selected before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from weft.core import native
from weft.core.kinds import Memory, padded
from weft.core.native.decoding import Block, Blocks, Norm, Panels, StepInputs
from weft.core.pair import END
from weft.core.trace import trace
from weft.nn.assemble import POSITIONS, assemble
from weft.nn.decoders.transformer import TransformerDecoder
from weft.nn.packed import pack
from weft.settings import compose

pytestmark = pytest.mark.skipif(native.decoding() is None, reason="nothing was compiled: no compiler")
SYMBOLS = 30
LINES = [[5, 6, 7, 8, 9, 3], [10, 11, 3], [12, 3]]


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def decoder(positions: str = "sinusoid", norm: str = "pre", **more: Any) -> TransformerDecoder:
    torch.manual_seed(2)
    part = {"kind": "transformer", "width": 24, "layers": 2, "heads": 2, "inner": 40, "norm": norm, **more}
    tree = {"encoder": part, "decoder": part, "embed": {"positions": positions, "width": 24}}
    model = assemble(compose(("flag", tree)).spec, SYMBOLS, SYMBOLS).eval()
    for parameter in model.parameters():  # also what begins at zero
        torch.nn.init.normal_(parameter, std=0.3)
    pack(model)
    made: Any = model.decoder
    assert isinstance(made, TransformerDecoder)
    return made


def memory(width: int = 24, lines: list[list[int]] = LINES) -> Memory:
    ids, mask = padded(lines, after=END)
    torch.manual_seed(3)
    states = torch.randn(*ids.shape, width)
    return Memory(states, mask, (states[:, 0],), ids)


@torch.inference_mode()
def said(made: TransformerDecoder, selections: list[list[int] | None], read: Memory) -> list[Tensor]:
    """What is said by every step, between which some hypotheses are selected."""
    state, found, count = made.start(read), [], len(read.mask)
    for place, rows in enumerate(selections):
        if rows is not None:
            state, count = state.select(torch.tensor(rows)), len(rows)
        y = torch.arange(count) % (SYMBOLS - 6) + 4 + place % 3
        out, state = made.step(y, state)
        found.append(out)
    return found


def both(made: TransformerDecoder, selections: list[list[int] | None], read: Memory | None = None) -> None:
    read = memory(made.width) if read is None else read
    assert made.packed is not None
    packed, made.packed = made.packed, None
    plain = said(made, selections, read)
    made.packed = packed
    torch.testing.assert_close(said(made, selections, read), plain, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_it_says_the_same_with_every_scheme_of_positions(positions: str, norm: str) -> None:
    both(decoder(positions, norm), [None, [0, 0, 1, 1, 2, 2], [1, 0, 3, 2, 5, 4], None, [2, 2, 5, 4]])


def test_many_rows_are_shared_among_threads_and_so_are_the_outputs_of_few(threads: int) -> None:
    many = [row for row in range(3) for _ in range(9)]
    both(decoder(), [None, many, [*range(26, -1, -1)], None, [0, 4, 8], None])


def test_more_places_than_there_is_room_for_at_first() -> None:
    both(decoder(), [None, [0, 0, 1, 1, 2, 2], *([[1, 1, 3, 2, 4, 5]] * 20)])


@torch.inference_mode()
def test_who_goes_on_from_the_same_state_twice_gets_the_same_twice() -> None:
    made, y = decoder(), torch.tensor([5, 6, 7])
    _, state = made.step(y, made.start(memory()))
    state = state.select(torch.tensor([2, 0, 1]))
    first, one = made.step(y, state)
    second, other = made.step(y + 3, state)
    again, _ = made.step(y, state)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    after = [made.step(y, made.step(y, going)[1])[0] for going in (one, other)]
    assert torch.equal(after[0], made.step(y, made.step(y, made.step(y, state)[1])[1])[0])
    assert not torch.equal(after[0], after[1])


def test_a_row_is_the_same_whatever_stands_beside_it(threads: int) -> None:
    made, many = decoder(), [row for row in range(3) for _ in range(9)]
    alone, beside = (said(made, [rows, None, None], memory()) for rows in ([0], many))
    assert all(torch.equal(one[0], other[0]) for one, other in zip(alone, beside, strict=True))


def test_sources_of_which_a_part_was_read(threads: int) -> None:
    whole = memory(lines=[[4, *line] for line in LINES])
    part = Memory(whole.states[:, 1:], whole.mask[:, 1:], whole.final, whole.source)
    both(decoder(), [None, [0, 0, 2, 2], None], part)


@torch.inference_mode()
def test_what_is_traced_runs_in_the_open() -> None:
    made = decoder()
    with trace() as seen:
        made.step(torch.tensor([5, 6, 7]), made.start(memory()))
    assert len(seen["decode.cross"]) == 2


def test_other_scores_have_no_compiled_step() -> None:
    assert decoder(attention={"score": "additive"}).packed is None


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 31, 100])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (7, 16), (33, 40), (64, 250)])
def test_a_product_with_panels_is_the_product(threads: int, rows: int, inputs: int, outputs: int, lanes: int) -> None:
    compiled = native.decoding()
    assert compiled is not None
    before, compiled.lanes = compiled.lanes, lanes
    x, weight, bias = torch.randn(rows, 2, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    for given in (bias, None):
        wanted = torch.nn.functional.linear(x, weight, given)
        torch.testing.assert_close(compiled.product(x, Panels(weight, given)), wanted, atol=1e-4, rtol=1e-4)
    turned = x.transpose(0, 1)
    wanted = torch.nn.functional.linear(turned, weight)
    torch.testing.assert_close(compiled.product(turned, Panels(weight, None)), wanted, atol=1e-4, rtol=1e-4)
    compiled.lanes = before


def random_blocks(width: int, inner: int, count: int) -> Blocks:
    def panels(outputs: int, inputs: int) -> Panels:
        return Panels(torch.randn(outputs, inputs) * inputs**-0.5, torch.randn(outputs))

    def block() -> Block:
        attention = [panels(3 * width, width), *(panels(width, width) for _ in range(3))]
        norms = [Norm(torch.randn(width), torch.randn(width)) for _ in range(3)]
        return Block([*attention, panels(inner, width), panels(width, inner)], norms)

    return Blocks([block() for _ in range(count)], None, 4, norm_first=True, epsilon=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("rows", [1, 5, 8, 64, 130])
def test_threads_do_not_touch_each_others_rows(rows: int) -> None:
    compiled, width, places = native.decoding(), 128, 9
    assert compiled is not None
    torch.manual_seed(rows)
    blocks, before = random_blocks(width, 512, 3), torch.get_num_threads()
    source = [(torch.randn(rows, 4, 7, width // 4), torch.randn(rows, 4, 7, width // 4)) for _ in range(3)]
    for length in (1, 2, places) * 4:
        origin = torch.cat([torch.randint(rows, (length - 1, rows)), torch.arange(rows)[None]])
        room, x, found = torch.randn(places, rows, 3 * 2 * width), torch.randn(rows, width), []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            own = room.clone()
            mask = torch.ones(rows, 1, 1, 7, dtype=torch.bool)
            found += [compiled.step(x, blocks, StepInputs(source, mask, None, 1, own, length, origin)), own]
        torch.set_num_threads(before)
        assert torch.equal(found[0], found[2])
        assert torch.equal(found[1], found[3])
