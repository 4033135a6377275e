"""The long short-term memory and its ablations (Jozefowicz 2015), with torch's fused kernel for the whole one."""

# B batch · T length · I input width · D width

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from weft.core import native
from weft.core.trace import note, tracing
from weft.nn.cells import Recurrence, input_matrix, state_matrix
from weft.nn.fused import FusedCell


class LongShort(Recurrence):
    """The base of the LSTM and its ablations: one matrix for all gates and the candidate, and a state of h and c."""

    compiled = "lstm"  # its name in the compiled code

    def __init__(self, inputs: int, width: int, gates: int) -> None:
        super().__init__(width)
        self.input = input_matrix(inputs, gates * width)
        self.hidden = state_matrix(width, gates)

    def begin(self, summary: Tensor) -> tuple[Tensor, ...]:
        return torch.tanh(summary), summary

    def inputs(self, x: Tensor) -> Tensor:
        out: Tensor = self.input(x)
        return out

    def fused(self) -> FusedCell:
        return FusedCell(self.compiled, self.input.weight, self.input.bias, self.hidden.weight)

    def with_bias_as_input(self) -> LongShort:
        """Return this cell with the bias as the weight of one more input, which is 1 where the bias is to act."""
        twin, weight, bias = copy(self), self.input.weight, self.input.bias
        twin._modules = {
            **self._modules,
            "input": _Product(torch.cat([weight, bias[:, None]], dim=1), torch.zeros_like(bias)),
        }
        return twin


class _Product(nn.Module):
    """W x + b of matrices that are computed from the parameters of a cell."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class Lstm(LongShort):
    """i,f,o = σ(W x + U h' + b); c̃ = φ(W x + U h' + b); c = i∘c̃ + f∘c'; h = o∘φ(c)   (Hochreiter 1997, Gers 2000)

    The gates are in torch's order i, f, c̃, o, so that the weights fit torch.nn.LSTM.
    """

    faster = True  # torch uses oneDNN's kernel (docs/LOG.md, "Cells")

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width, gates=4)

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        h, c = state
        from_state, compiled = self.hidden(h), native.pointwise()
        plain = inputs.dim() == 2 and native.is_plain(inputs, from_state, c)
        if compiled is not None and plain and not tracing():
            h, c = compiled.lstm_step(inputs, from_state, c)
            return h, (h, c)
        i, f, new, o = (inputs + from_state).chunk(4, dim=-1)
        i, f, o = note(".i", torch.sigmoid(i)), note(".f", torch.sigmoid(f)), note(".o", torch.sigmoid(o))
        c = f * c + i * torch.tanh(new)
        h = o * torch.tanh(c)
        return h, (h, c)

    def sequence(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Compute all steps by torch's kernel: (B, T, I) → (B, T, D) and the state after the last step."""
        if x.device.type == "cpu" and torch.is_autocast_enabled("cpu") and not _has_kernel_in_halves():
            with torch.autocast("cpu", enabled=False):
                return self._sequence(x.float(), tuple(s.float() for s in state))
        return self._sequence(x, state)

    def _sequence(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        bias = self.input.bias
        weights = [self.input.weight, self.hidden.weight, bias, torch.zeros_like(bias)]
        start = tuple(s[None].contiguous() for s in state)
        out, h, c = torch.lstm(x, start, weights, True, 1, 0.0, self.training, False, True)
        return out, (h[0], c[0])


def _has_kernel_in_halves() -> bool:
    """Whether oneDNN can run an LSTM in bfloat16: without AVX-512 it cannot, and torch does not check that."""
    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return not has_onednn or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


class LstmB(Lstm):
    """The LSTM whose forget bias starts at 1 (Gers 2000)."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width)
        torch.nn.init.ones_(self.input.bias.detach()[width : 2 * width])


class _Ablated(LongShort):
    """The LSTM without one gate, which is always open."""

    gates = "ifo"  # those that it has

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width, gates=3)

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        h, c = state
        first, second, new = (inputs + self.hidden(h)).chunk(3, dim=-1)
        opened = {name: note(f".{name}", torch.sigmoid(x)) for name, x in zip(self.gates, (first, second), strict=True)}
        kept = opened["f"] * c if "f" in opened else c
        new = torch.tanh(new)
        c = kept + (opened["i"] * new if "i" in opened else new)
        h = opened["o"] * torch.tanh(c) if "o" in opened else torch.tanh(c)
        return h, (h, c)


class LstmF(_Ablated):
    """f = 1: c = i∘c̃ + c'"""

    gates, compiled = "io", "lstm-f"


class LstmI(_Ablated):
    """i = 1: c = c̃ + f∘c'"""

    gates, compiled = "fo", "lstm-i"


class LstmO(_Ablated):
    """o = 1: h = φ(c)"""

    gates, compiled = "if", "lstm-o"
