"""A decoder step in one call of compiled code equals the step in plain torch, whatever was selected before."""

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
from weft.core.shapes import Symbols
from weft.core.trace import trace
from weft.nn.assemble import POSITIONS, assemble
from weft.nn.decoders.transformer import DecoderBlock, TransformerDecoder
from weft.nn.multihead import MultiHead
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
    model = assemble(compose(("flag", tree)).spec, Symbols(SYMBOLS), Symbols(SYMBOLS)).eval()
    for parameter in model.parameters():  # also what begins at zero
        torch.nn.init.normal_(parameter, std=0.3)
    pack(model)
    stepper: Any = model.decoder
    assert isinstance(stepper, TransformerDecoder)
    return stepper


def memory(width: int = 24, lines: list[list[int]] = LINES) -> Memory:
    ids, mask = padded(lines, after=END)
    torch.manual_seed(3)
    states = torch.randn(*ids.shape, width)
    return Memory(states, mask, (states[:, 0],), ids)


def read(stepper: TransformerDecoder, y: Tensor) -> Tensor:
    """The vectors that a reader hands to the decoder (N, D)."""
    return torch.randn(SYMBOLS, stepper.width, generator=torch.Generator().manual_seed(4))[y]


@torch.inference_mode()
def outputs_of(stepper: TransformerDecoder, selections: list[list[int] | None], source: Memory) -> list[Tensor]:
    """Return the output of every step; before a step, the hypotheses of its selection are selected."""
    state, outputs, count = stepper.start(source), [], len(source.mask)
    for position, rows in enumerate(selections):
        if rows is not None:
            state, count = state.select(torch.tensor(rows)), len(rows)
        y = torch.arange(count) % (SYMBOLS - 6) + 4 + position % 3
        out, state = stepper.step(read(stepper, y), state)
        outputs.append(out)
    return outputs


def check_against_torch(
    stepper: TransformerDecoder, selections: list[list[int] | None], source: Memory | None = None
) -> None:
    source = memory(stepper.width) if source is None else source
    assert stepper.packed is not None
    packed, stepper.packed = stepper.packed, None
    plain = outputs_of(stepper, selections, source)
    stepper.packed = packed
    torch.testing.assert_close(outputs_of(stepper, selections, source), plain, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_outputs_are_equal_with_every_position_scheme(positions: str, norm: str) -> None:
    check_against_torch(decoder(positions, norm), [None, [0, 0, 1, 1, 2, 2], [1, 0, 3, 2, 5, 4], None, [2, 2, 5, 4]])


def test_outputs_are_equal_with_many_rows_and_with_few(threads: int) -> None:
    many = [row for row in range(3) for _ in range(9)]
    check_against_torch(decoder(), [None, many, [*range(26, -1, -1)], None, [0, 4, 8], None])


def test_the_cache_can_outgrow_its_first_capacity() -> None:
    check_against_torch(decoder(), [None, [0, 0, 1, 1, 2, 2], *([[1, 1, 3, 2, 4, 5]] * 20)])


@torch.inference_mode()
def test_two_steps_from_the_same_state_do_not_disturb_each_other() -> None:
    stepper = decoder()
    y, another = (read(stepper, torch.tensor(ids)) for ids in ([5, 6, 7], [8, 9, 10]))
    _, state = stepper.step(y, stepper.start(memory()))
    state = state.select(torch.tensor([2, 0, 1]))
    first, one = stepper.step(y, state)
    second, other = stepper.step(another, state)
    again, _ = stepper.step(y, state)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    after = [stepper.step(y, stepper.step(y, state_after)[1])[0] for state_after in (one, other)]
    assert torch.equal(after[0], stepper.step(y, stepper.step(y, stepper.step(y, state)[1])[1])[0])
    assert not torch.equal(after[0], after[1])


def test_a_row_does_not_depend_on_the_other_rows(threads: int) -> None:
    stepper, many = decoder(), [row for row in range(3) for _ in range(9)]
    alone, beside = (outputs_of(stepper, [rows, None, None], memory()) for rows in ([0], many))
    assert all(torch.equal(one[0], other[0]) for one, other in zip(alone, beside, strict=True))


def test_a_memory_that_is_a_slice_of_another_is_read_correctly(threads: int) -> None:
    whole = memory(lines=[[4, *line] for line in LINES])
    part = Memory(whole.states[:, 1:], whole.mask[:, 1:], whole.final, whole.source)
    check_against_torch(decoder(), [None, [0, 0, 2, 2], None], part)


@torch.inference_mode()
@pytest.mark.parametrize("positions", ["rotary", "none"])
def test_a_decoder_without_cross_attention_continues_what_is_written(positions: str) -> None:
    """Its memory has no positions; steps equal all at once, and selected rows go on alike."""
    torch.manual_seed(5)
    scheme = POSITIONS[positions](16)
    blocks = [DecoderBlock(MultiHead(16, 2), None, 16, 24, "pre", 0.0) for _ in range(2)]
    stepper = TransformerDecoder(scheme, blocks, 16, "pre").eval()
    nothing = Memory(torch.empty(3, 0, 16), torch.empty(3, 0, dtype=torch.bool))
    x = torch.randn(3, 5, 16)
    whole, state = stepper.unroll(x, stepper.start(nothing)), stepper.start(nothing)
    for position in range(2):
        out, state = stepper.step(x[:, position], state)
        torch.testing.assert_close(out, whole[:, position])
    order = torch.tensor([2, 0])
    state = state.select(order)
    out, state = stepper.step(x[order, 2], state)
    torch.testing.assert_close(out, whole[order, 2])
    torch.testing.assert_close(stepper.unroll(x[order, 3:], state), whole[order, 3:])
    pack(stepper)
    torch.testing.assert_close(stepper.unroll(x, stepper.start(nothing)), whole)


@torch.inference_mode()
def test_a_traced_step_notes_its_attention_weights() -> None:
    stepper = decoder()
    with trace() as seen:
        stepper.step(read(stepper, torch.tensor([5, 6, 7])), stepper.start(memory()))
    assert len(seen["decode.cross"]) == 2


def test_a_decoder_with_another_score_is_not_packed() -> None:
    assert decoder(attention={"score": "additive"}).packed is None


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 31, 100])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (7, 16), (33, 40), (64, 250)])
def test_a_product_with_panels_equals_torchs(threads: int, rows: int, inputs: int, outputs: int, lanes: int) -> None:
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
def test_two_threads_compute_what_one_computes(rows: int) -> None:
    compiled, width, capacity = native.decoding(), 128, 9
    assert compiled is not None
    torch.manual_seed(rows)
    blocks, before = random_blocks(width, 512, 3), torch.get_num_threads()
    source = [(torch.randn(rows, 4, 7, width // 4), torch.randn(rows, 4, 7, width // 4)) for _ in range(3)]
    for length in (1, 2, capacity) * 4:
        row_of = torch.cat([torch.randint(rows, (length - 1, rows)), torch.arange(rows)[None]])
        cache, x, results = torch.randn(capacity, rows, 3 * 2 * width), torch.randn(rows, width), []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            copy = cache.clone()
            mask = torch.ones(rows, 1, 1, 7, dtype=torch.bool)
            results += [compiled.step(x, blocks, StepInputs(source, mask, None, 1, copy, length, row_of)), copy]
        torch.set_num_threads(before)
        assert torch.equal(results[0], results[2])
        assert torch.equal(results[1], results[3])
