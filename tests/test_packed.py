"""Packed matrices say what plain ones say, and the model stays what it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.core import native
from weft.core.kinds import Batch
from weft.nn import packed
from weft.nn.assemble import assemble
from weft.settings import compose

PART = {"kind": "transformer", "width": 256, "layers": 1, "heads": 4, "inner": 1024}
SYMBOLS = 4200
needs = pytest.mark.skipif(native.decoding() is None, reason="nothing was compiled: no compiler")


def model() -> nn.Module:
    torch.manual_seed(1)
    tree = {"encoder": PART, "decoder": PART, "embed": {"positions": "rotary"}}
    return assemble(compose(("flag", tree)).spec, SYMBOLS, SYMBOLS).eval()


def batch(rows: int) -> Batch:
    return Batch.of([[5, 6, 7, 8]] * rows, [[9, 10, 11]] * rows)


@needs
@pytest.mark.parametrize("rows", [1, 3, 64])
def test_it_says_the_same(rows: int) -> None:
    made = model()
    with torch.inference_mode():
        plain = made(batch(rows)).logits
        packed.pack(made)
        assert isinstance(made.head.product, packed.Packed)
        assert torch.allclose(made(batch(rows)).logits, plain, atol=1e-4)


@needs
def test_its_weights_can_still_be_read_and_learned_from() -> None:
    plain, made = model(), model()
    packed.pack(made)
    assert plain.state_dict().keys() == made.state_dict().keys()
    for each in (plain, made):
        each(batch(2)).logits.sum().backward()
    for (name, wanted), parameter in zip(plain.named_parameters(), made.parameters(), strict=True):
        assert torch.equal(parameter, wanted), name
        torch.testing.assert_close(parameter.grad, wanted.grad, atol=1e-3, rtol=1e-3, msg=name)


@needs
def test_unpacked_it_says_what_its_weights_say_now() -> None:
    made = model()
    with torch.inference_mode():
        with packed.packed(made):
            before = made(batch(3)).logits
            assert made.decoder.packed is not None
        assert made.decoder.packed is None
        assert not any(isinstance(module.__dict__.get("forward"), packed.Packed) for module in made.modules())
        for parameter in made.parameters():
            parameter.mul_(1.5)
        plain = made(batch(3)).logits
        assert not torch.allclose(plain, before)
        with packed.packed(made):
            assert torch.allclose(made(batch(3)).logits, plain, atol=1e-3)


@needs
def test_what_is_packed_already_stays_so() -> None:
    made = model()
    packed.pack(made)
    with packed.packed(made):
        pass
    assert made.decoder.packed is not None
    assert isinstance(made.head.product, packed.Packed)


@needs
def test_what_panels_are_not_made_for_is_computed_as_ever() -> None:
    layer = nn.Linear(8, 16)
    one = packed.Packed(native.decoding(), layer.weight, layer.bias)
    x = torch.randn(3, 8)
    assert torch.allclose(one(x), layer(x))
    with torch.inference_mode(), pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        one(x[:, :6])


def test_small_matrices_and_plain_torch_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    small = assemble(compose(("flag", {})).spec, 20, 20)
    packed.pack(small)
    assert not isinstance(small.head.product, packed.Packed)
    monkeypatch.setattr(native, "decoding", lambda: None)
    large = model()
    packed.pack(large)
    assert not isinstance(large.head.product, packed.Packed)
