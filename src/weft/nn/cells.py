"""Recurrent cells: the equations of DESIGN §7 and nothing else. Time, layers, direction and padding are in `unroll`.

Each cell splits its equations in two: `inputs(x)`, which depends on x alone (computed for all steps at once), and
`step(inputs, state)`, the rest. `fused()` names its matrices for the compiled code, which computes the same equations.
φ = tanh, σ = logistic, ∘ elementwise, h' the previous state.
"""

# B batch · I input width · D width

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from weft.core.trace import note
from weft.nn.fused import FusedCell


class Recurrence(nn.Module):
    """The base class of all cells: a width, a first state of zeros, and a step made of the two parts."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def start(self, rows: int) -> tuple[Tensor, ...]:
        return self.begin(next(self.parameters()).new_zeros(rows, self.width))

    def begin(self, summary: Tensor) -> tuple[Tensor, ...]:
        return (summary,)

    def inputs(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        raise NotImplementedError

    def fused(self) -> FusedCell | None:
        """Return its parameters for the compiled code; None: the cell runs in plain torch."""
        return None

    def forward(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        return self.step(self.inputs(x), state)


class Elman(Recurrence):
    """h = φ(W x + U h' + b)   (Elman 1990)"""

    compiled = "elman"

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(width)
        self.input = input_matrix(inputs, width)
        self.hidden = state_matrix(width, 1)

    def inputs(self, x: Tensor) -> Tensor:
        out: Tensor = self.input(x)
        return out

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        h = self.squash(inputs + self.hidden(state[0]))
        return h, (h,)

    @staticmethod
    def squash(total: Tensor) -> Tensor:
        return torch.tanh(total)

    def fused(self) -> FusedCell:
        return FusedCell(self.compiled, self.input.weight, self.input.bias, self.hidden.weight)


class ElmanSigmoid(Elman):
    """h = σ(W x + U h' + b)

    It is initialised so that 2h − 1 equals the state of the cell with φ: σ is flatter than φ, and never below 0.
    """

    compiled = "elman-sigmoid"

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width)
        with torch.no_grad():
            self.input.weight *= 2
            self.hidden.weight *= 4
            self.input.bias.copy_(self.hidden.weight.sum(1) / -2)

    @staticmethod
    def squash(total: Tensor) -> Tensor:
        return torch.sigmoid(total)


class Gru(Recurrence):
    """z,r = σ(W x + U h' + b); h = (1−z)∘h' + z∘φ(W x + U (r∘h') + b)   (Cho 2014)

    The reset gate acts before the matrix product; in torch.nn.GRU it acts after it.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(width)
        self.input = input_matrix(inputs, 3 * width)
        self.gates = state_matrix(width, 2)
        self.candidate = state_matrix(width, 1)

    def inputs(self, x: Tensor) -> Tensor:
        out: Tensor = self.input(x)
        return out

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        (before,) = state
        for_gates, for_candidate = torch.split(inputs, [2 * self.width, self.width], dim=-1)
        z, r = torch.sigmoid(for_gates + self.gates(before)).chunk(2, dim=-1)
        z, r = note(".z", z), note(".r", r)
        h = blend(before, torch.tanh(for_candidate + self.candidate(r * before)), z)
        return h, (h,)

    def fused(self) -> FusedCell:
        return FusedCell("gru", self.input.weight, self.input.bias, self.gates.weight, self.candidate.weight)


class GruAfter(Recurrence):
    """z,r = σ(W x + U h' + b); h = z∘h' + (1−z)∘φ(W x + b + r∘(U h' + c))   (as in torch.nn.GRU)

    The gates are in torch's order r, z, candidate, so that the weights fit torch.nn.GRU.
    """

    faster = False  # whether torch's kernel is faster than Weft's compiled code

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(width)
        self.input = input_matrix(inputs, 3 * width)
        self.hidden = state_matrix(width, 3)
        self.bias = nn.Parameter(torch.zeros(width))  # c, inside the reset

    def inputs(self, x: Tensor) -> Tensor:
        out: Tensor = self.input(x)
        return out

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        (before,) = state
        r_x, z_x, new_x = inputs.chunk(3, dim=-1)
        r_h, z_h, new_h = self.hidden(before).chunk(3, dim=-1)
        z, r = note(".z", torch.sigmoid(z_x + z_h)), note(".r", torch.sigmoid(r_x + r_h))
        h = blend(torch.tanh(new_x + r * (new_h + self.bias)), before, z)
        return h, (h,)

    def sequence(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Compute all steps by torch's kernel: (B, T, I) → (B, T, D) and the state after the last step."""
        inside = torch.cat([torch.zeros_like(self.bias), torch.zeros_like(self.bias), self.bias])
        weights = [self.input.weight, self.hidden.weight, self.input.bias, inside]
        out, h = torch.gru(x, state[0][None].contiguous(), weights, True, 1, 0.0, self.training, False, True)
        return out, (h[0],)

    def fused(self) -> FusedCell:
        return FusedCell("gru-after", self.input.weight, self.input.bias, self.hidden.weight, extra=self.bias)


class Mut1(Recurrence):
    """z = σ(W x + b); r = σ(W x + U h' + b); h = φ(U(r∘h') + φ(x) + b)∘z + h'∘(1−z)   (Jozefowicz 2015)"""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(width)
        self.gates_in = input_matrix(inputs, 2 * width)
        self.direct = to_width(inputs, width)
        self.reset, self.candidate = state_matrix(width, 1), state_matrix(width, 1)
        self.bias = nn.Parameter(torch.zeros(width))

    def inputs(self, x: Tensor) -> Tensor:
        return torch.cat([self.gates_in(x), torch.tanh(self.direct(x)) + self.bias], dim=-1)

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        (before,) = state
        z, r, new = inputs.chunk(3, dim=-1)
        z, r = note(".z", torch.sigmoid(z)), note(".r", torch.sigmoid(r + self.reset(before)))
        h = blend(before, torch.tanh(self.candidate(r * before) + new), z)
        return h, (h,)

    def fused(self) -> FusedCell:
        weight = torch.cat([self.gates_in.weight, matrix_of(self.direct, self.width)])
        bias = torch.cat([self.gates_in.bias, torch.zeros_like(self.bias)])
        return FusedCell("mut1", weight, bias, self.reset.weight, self.candidate.weight, self.bias)


class Mut2(Recurrence):
    """z = σ(W x + U h' + b); r = σ(x + U h' + b); h = φ(U(r∘h') + W x + b)∘z + h'∘(1−z)   (Jozefowicz 2015)"""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(width)
        self.input = input_matrix(inputs, 2 * width)
        self.direct = to_width(inputs, width)
        self.gates, self.candidate = state_matrix(width, 2), state_matrix(width, 1)
        self.bias = nn.Parameter(torch.zeros(width))

    def inputs(self, x: Tensor) -> Tensor:
        z, new = self.input(x).chunk(2, dim=-1)
        return torch.cat([z, self.direct(x) + self.bias, new], dim=-1)

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        (before,) = state
        for_gates, new = torch.split(inputs, [2 * self.width, self.width], dim=-1)
        z, r = torch.sigmoid(for_gates + self.gates(before)).chunk(2, dim=-1)
        z, r = note(".z", z), note(".r", r)
        h = blend(before, torch.tanh(self.candidate(r * before) + new), z)
        return h, (h,)

    def fused(self) -> FusedCell:
        """Return it as a gru whose reset gate adds x itself."""
        (of_z, of_new), (z, new) = self.input.weight.chunk(2), self.input.bias.chunk(2)
        weight = torch.cat([of_z, matrix_of(self.direct, self.width), of_new])
        return FusedCell("gru", weight, torch.cat([z, self.bias, new]), self.gates.weight, self.candidate.weight)


class Mut3(Gru):
    """z = σ(W x + U φ(h') + b); r = σ(W x + U h' + b); h = φ(U(r∘h') + W x + b)∘z + h'∘(1−z)   (Jozefowicz 2015)"""

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        (before,) = state
        z, r, new = inputs.chunk(3, dim=-1)
        of_z, of_r = self.gates.weight.chunk(2)
        z = note(".z", torch.sigmoid(z + linear(torch.tanh(before), of_z)))
        r = note(".r", torch.sigmoid(r + linear(before, of_r)))
        h = blend(before, torch.tanh(self.candidate(r * before) + new), z)
        return h, (h,)

    def fused(self) -> FusedCell:
        return FusedCell("mut3", self.input.weight, self.input.bias, self.gates.weight, self.candidate.weight)


def blend(old: Tensor, new: Tensor, share: Tensor) -> Tensor:
    """Return (1 − share)∘old + share∘new in the widest of their dtypes: under autocast, states are wider than gates."""
    wide = torch.promote_types(torch.promote_types(old.dtype, new.dtype), share.dtype)
    return torch.lerp(old.to(wide), new.to(wide), share.to(wide))


def to_width(inputs: int, width: int) -> nn.Module:
    """Return a module that gives x itself, projected if the cell has another width."""
    return nn.Identity() if inputs == width else nn.Linear(inputs, width, bias=False)


def matrix_of(direct: nn.Module, width: int) -> Tensor:
    """Return the matrix of a module that `to_width` made."""
    return direct.weight if isinstance(direct, nn.Linear) else torch.eye(width)


def input_matrix(inputs: int, outputs: int) -> nn.Linear:
    """Return W and b."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def state_matrix(width: int, gates: int) -> nn.Linear:
    """Return U for several gates, each orthogonal, so that its powers neither vanish nor explode at the start."""
    layer = nn.Linear(width, gates * width, bias=False)
    for gate in layer.weight.detach().chunk(gates):
        nn.init.orthogonal_(gate)
    return layer
