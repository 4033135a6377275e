"""A packed model gives the outputs of the plain one, and can be unpacked."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.core import native
from weft.core.kinds import Batch
from weft.core.shapes import Symbols
from weft.nn import packed
from weft.nn.assemble import assemble
from weft.settings import compose

PART = {"kind": "transformer", "width": 256, "layers": 1, "heads": 4, "inner": 1024}
SYMBOLS = 4200
needs = pytest.mark.skipif(native.decoding() is None, reason="nothing was compiled: no compiler")


def model() -> nn.Module:
    torch.manual_seed(1)
    tree = {"encoder": PART, "decoder": PART, "embed": {"positions": "rotary"}}
    return assemble(compose(("flag", tree)).spec, Symbols(SYMBOLS), Symbols(SYMBOLS)).eval()


def batch(rows: int) -> Batch:
    return Batch.of([[5, 6, 7, 8]] * rows, [[9, 10, 11]] * rows)


@needs
@pytest.mark.parametrize("rows", [1, 3, 64])
def test_a_packed_model_gives_the_same_output(rows: int) -> None:
    packable = model()
    with torch.inference_mode():
        plain = packable(batch(rows)).logits
        packed.pack(packable)
        assert isinstance(packable.head.product, packed.Packed)
        assert torch.allclose(packable(batch(rows)).logits, plain, atol=1e-4)


@needs
def test_the_weights_of_a_packed_model_can_be_read_and_get_gradients() -> None:
    plain, packable = model(), model()
    packed.pack(packable)
    assert plain.state_dict().keys() == packable.state_dict().keys()
    for each in (plain, packable):
        each(batch(2)).logits.sum().backward()
    for (name, wanted), parameter in zip(plain.named_parameters(), packable.parameters(), strict=True):
        assert torch.equal(parameter, wanted), name
        torch.testing.assert_close(parameter.grad, wanted.grad, atol=1e-3, rtol=1e-3, msg=name)


@needs
def test_an_unpacked_model_uses_its_present_weights() -> None:
    packable = model()
    with torch.inference_mode():
        with packed.packed(packable):
            before = packable(batch(3)).logits
            assert packable.decoder.packed is not None
        assert packable.decoder.packed is None
        assert not any(isinstance(module.__dict__.get("forward"), packed.Packed) for module in packable.modules())
        for parameter in packable.parameters():
            parameter.mul_(1.5)
        plain = packable(batch(3)).logits
        assert not torch.allclose(plain, before)
        with packed.packed(packable):
            assert torch.allclose(packable(batch(3)).logits, plain, atol=1e-3)


@needs
def test_a_model_that_is_packed_already_stays_packed() -> None:
    packable = model()
    packed.pack(packable)
    with packed.packed(packable):
        pass
    assert packable.decoder.packed is not None
    assert isinstance(packable.head.product, packed.Packed)


@needs
def test_what_panels_do_not_support_runs_in_plain_torch() -> None:
    layer = nn.Linear(8, 16)
    panels = packed.Packed(native.decoding(), layer.weight, layer.bias)
    x = torch.randn(3, 8)
    assert torch.allclose(panels(x), layer(x))
    with torch.inference_mode(), pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        panels(x[:, :6])


def test_small_matrices_are_not_packed_nor_any_without_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    small = assemble(compose(("flag", {})).spec, Symbols(20), Symbols(20))
    packed.pack(small)
    assert not isinstance(small.head.product, packed.Packed)
    monkeypatch.setattr(native, "decoding", lambda: None)
    large = model()
    packed.pack(large)
    assert not isinstance(large.head.product, packed.Packed)
