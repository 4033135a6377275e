"""Recurrences: the equations of DESIGN §6 and nothing else. Time, layers, direction and padding belong to `unroll`.

Each cell splits its equations in two: `inputs(x)`, what x alone decides (computed for all steps at once), and
`step(inputs, state)`, the rest. φ = tanh, σ = logistic, ∘ elementwise, h' the state before.
"""

# B batch · I input width · D width

from __future__ import annotations

import torch
from torch import Tensor, nn


class Recurrence(nn.Module):
    """What the cells share: a width, a start of zeros, and the joining of the two halves."""

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

    def forward(self, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        return self.step(self.inputs(x), state)


class Elman(Recurrence):
    """h = φ(W x + U h' + b)   (Elman 1990)"""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(width)
        self.input = input_matrix(inputs, width)
        self.hidden = state_matrix(width, 1)

    def inputs(self, x: Tensor) -> Tensor:
        out: Tensor = self.input(x)
        return out

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        h = torch.tanh(inputs + self.hidden(state[0]))
        return h, (h,)


class Gru(Recurrence):
    """z,r = σ(W x + U h' + b); h = (1−z)∘h' + z∘φ(W x + U (r∘h') + b)   (Cho 2014)

    The reset gate acts before the matrix; torch.nn.GRU lets it act after.
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
        h = torch.lerp(before, torch.tanh(for_candidate + self.candidate(r * before)), z)
        return h, (h,)


def input_matrix(inputs: int, outputs: int) -> nn.Linear:
    """W and b."""
    made = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(made.weight)
    nn.init.zeros_(made.bias)
    return made


def state_matrix(width: int, gates: int) -> nn.Linear:
    """U for several gates, each orthogonal: powers of it neither die nor explode at the start."""
    made = nn.Linear(width, gates * width, bias=False)
    for gate in made.weight.detach().chunk(gates):
        nn.init.orthogonal_(gate)
    return made
