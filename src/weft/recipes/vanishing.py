"""How far gradients reach through each recurrent cell, before and after training, against what theory says.

An LSTM hands on its cell state through its forget gate, so that before training ∂cₜ/∂cₜ₋ₖ along the cell is about
σ(b_f)ᵏ. An Elman network with small states hands on Wᵏ, whose norm falls like ρ(W)ᵏ, the spectral radius of W.
"""

# K lags · D width · B lines · T steps

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from weft.core.trace import trace
from weft.look.inspect.gradients import Captured, jacobians
from weft.look.inspect.plots import Array
from weft.nn.assemble import CELLS
from weft.nn.cells import Recurrence
from weft.nn.lstm import Lstm
from weft.nn.unroll import over_time
from weft.recipes.study import Options

WIDTH, INPUTS, LENGTH, SYMBOLS, BATCH = 24, 8, 21, 4, 64
STEPS, SEEDS = 300, 5
BIASES = (0.0, 1.0, 2.0)


@dataclass(frozen=True)
class Reach:
    """‖∂s_T/∂s_{T−k}‖ / √D for k = 0, 1, … (K,), and the products of the forget gates (K, D) where there are some."""

    norm: Array
    gates: Array


def reach(cell: Recurrence, x: Tensor) -> Reach:
    """Follow the state of one line (1, T, I) back from its last step: c of an LSTM, else h."""
    states, hidden, gates = Captured(), Captured(), Captured()
    start = tuple(each.detach().requires_grad_() for each in cell.start(1))
    with torch.enable_grad(), trace({".c": states, ".h": hidden, ".f": gates}, keep=lambda _: False):
        over_time(cell, x, start)
    each = torch.stack(jacobians(states.steps or hidden.steps))  # (K, D, D)
    norms = each.flatten(1).norm(dim=-1) / each.shape[-1] ** 0.5
    if not gates.steps:
        return Reach(norms.numpy(), np.zeros((0, 0)))
    backwards = torch.cat([gate.detach() for gate in gates.steps[:0:-1]])  # (K − 1, D)
    products = torch.cat([torch.ones(1, backwards.shape[1]), backwards.cumprod(0)])
    return Reach(norms.numpy(), products.numpy())


def with_forget_bias(cell: Recurrence, bias: float) -> Recurrence:
    """Set the bias of the forget gate of an LSTM."""
    assert isinstance(cell, Lstm)
    with torch.no_grad():
        cell.input.bias[cell.width : 2 * cell.width] = bias
    return cell


class Echo(nn.Module):
    """A cell that reads symbols, the first of which it has to name at the end."""

    def __init__(self, cell: Recurrence) -> None:
        super().__init__()
        self.cell, self.embed, self.read = cell, nn.Embedding(SYMBOLS, INPUTS), nn.Linear(cell.width, SYMBOLS)

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.read(over_time(self.cell, self.embed(ids), self.cell.start(len(ids)))[0][:, -1])
        return out


def train(cell: Recurrence, steps: int) -> float:
    """Train a cell to remember the first of LENGTH symbols; return how often it is right at the end."""
    model = Echo(cell)
    optimiser, right = torch.optim.Adam(model.parameters(), lr=0.005), 0.0
    for _ in range(steps):
        ids = torch.randint(SYMBOLS, (BATCH, LENGTH))
        logits = model(ids)
        optimiser.zero_grad()
        nn.functional.cross_entropy(logits, ids[:, 0]).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        right = float((logits.argmax(-1) == ids[:, 0]).float().mean())
    return right


def variants() -> dict[str, tuple[str, float | None]]:
    """Return the cells by the name that the page shows, the LSTM with each forget bias."""
    others: dict[str, tuple[str, float | None]] = {name: (name, None) for name in CELLS if name != "lstm"}
    return {**{f"lstm, b_f = {bias:g}": ("lstm", bias) for bias in BIASES}, **others}


def new_cell(kind: str, bias: float | None, seed: int) -> Recurrence:
    """Return a cell with fresh weights from this seed."""
    torch.manual_seed(seed)
    cell = CELLS[kind](INPUTS, WIDTH)
    return cell if bias is None else with_forget_bias(cell, bias)


def measure(kind: str, bias: float | None, steps: int, seeds: int) -> tuple[list[Reach], list[Reach], list[float]]:
    """Return how far gradients reach before and after training, and how often each trained cell is right."""
    before, after, right = [], [], []
    for seed in range(1, seeds + 1):
        cell = new_cell(kind, bias, seed)
        x = torch.randn(1, LENGTH, INPUTS)
        before.append(reach(cell, x))
        right.append(train(cell, steps))
        after.append(reach(cell, x))
    return before, after, right


def interval(gates: Array) -> tuple[Array, Array]:
    """Return between what 95 % of the units' products of forget gates are, by lag."""
    low, high = np.quantile(gates, [0.025, 0.975], axis=1)
    return low, high


def follows(reaches: list[Reach], bias: float) -> bool:
    """Return whether σ(b_f)ᵏ is within the interval of the measured products at every lag."""
    gates = np.concatenate([each.gates for each in reaches], axis=1)
    low, high = interval(gates)
    curve = (1 / (1 + np.exp(-bias))) ** np.arange(len(gates))
    return bool(((low <= curve + 1e-6) & (curve <= high + 1e-6)).all())


def elman_decay(scale: float, seed: int) -> tuple[float, float]:
    """Return by how much ‖∂hₜ/∂hₜ₋ₖ‖ of an Elman network with small states falls at each step, and its spectral radius.

    The rate is taken between lags 30 and 60: by Gelfand's formula, ‖Wᵏ‖^(1/k) comes near the radius only for large k.
    """
    cell = new_cell("elman", None, seed)
    (recurrent,) = [p for p in cell.parameters() if p.shape == (WIDTH, WIDTH)]
    with torch.no_grad():
        recurrent.copy_(scale * torch.randn(WIDTH, WIDTH) / WIDTH**0.5)
        for name, bias in cell.named_parameters():
            if name.endswith("bias"):
                bias.zero_()
    norms = reach(cell, 1e-4 * torch.randn(1, 61, INPUTS)).norm
    radius = float(torch.linalg.eigvals(recurrent.detach()).abs().max())
    return float((norms[60] / norms[30]) ** (1 / 30)), radius


def run(folder: Path, options: Options) -> list[str]:
    """Measure every cell, draw the curves, and return the page's lines."""
    folder.mkdir(parents=True, exist_ok=True)
    steps, seeds = options.steps or STEPS, options.seeds or SEEDS
    every = {name: measure(*variant, steps, seeds) for name, variant in variants().items()}
    draw(every, folder / "vanishing.png")
    return [
        f"Width {WIDTH}, the mean of {seeds} seeds. Each cell reads sequences of {LENGTH} symbols from an alphabet "
        f"of {SYMBOLS}, and learns in {steps} updates to name the first symbol at the end. A value of 1 in the table "
        "means that the gradient arrives unchanged.",
        "",
        "| cell | gradient over 5 steps, before | over 20, before | over 20, after | right after training, % |",
        "|---|---:|---:|---:|---:|",
        *(_row(name, *each) for name, each in every.items()),
        "",
        "The forget gates before training, against σ(b_f)ᵏ:",
        "",
        "| b_f | lag | σ(b_f)ᵏ | product of the gates | 95 % of the units | within, at every lag |",
        "|---:|---:|---:|---:|---|---|",
        *(_gates_row(bias, lag, every[f"lstm, b_f = {bias:g}"][0]) for bias in BIASES for lag in (1, 5, 20)),
        "",
        "How the gradient of an Elman network with small states changes at each step, beside the spectral radius of "
        "its recurrent weights:",
        "",
        "| spectral radius | factor of the gradient at each step |",
        "|---:|---:|",
        *_elman_rows(seeds),
        "",
        "![gradient against lag](vanishing.png)",
        "",
    ]


def _row(name: str, before: list[Reach], after: list[Reach], right: list[float]) -> str:
    five, twenty = (np.mean([each.norm[lag] for each in before]) for lag in (5, LENGTH - 1))
    trained = np.mean([each.norm[LENGTH - 1] for each in after])
    return f"| {name} | {five:.2g} | {twenty:.2g} | {trained:.2g} | {100 * np.mean(right):.0f} |"


def _gates_row(bias: float, lag: int, before: list[Reach]) -> str:
    gates = np.concatenate([each.gates for each in before], axis=1)
    low, high = interval(gates)
    theory, mean = (1 / (1 + np.exp(-bias))) ** lag, gates[lag].mean()
    within = "yes" if follows(before, bias) else "no"
    return f"| {bias:g} | {lag} | {theory:.2g} | {mean:.2g} | {low[lag]:.2g} – {high[lag]:.2g} | {within} |"


def _elman_rows(seeds: int) -> list[str]:
    each = [(scale, elman_decay(scale, seed)) for scale in (0.7, 0.9, 1.1) for seed in range(1, min(3, seeds) + 1)]
    return [f"| {radius:.3f} | {rate:.3f} |" for _, (rate, radius) in each]


def draw(every: dict[str, tuple[list[Reach], list[Reach], list[float]]], path: Path) -> None:
    """Draw the gradient against the lag, before training and after it."""
    from matplotlib.figure import Figure

    from weft.look.compared import COLOURS

    figure = Figure(figsize=(11, 4.4), dpi=110, layout="constrained")
    both = figure.subplots(1, 2, sharey=True)
    for index, (name, measured) in enumerate(every.items()):
        for axes, reaches in zip(both, measured[:2]):
            mean = np.mean([each.norm for each in reaches], axis=0)
            style = ("-", "--", ":")[index // len(COLOURS) % 3]
            axes.plot(np.maximum(mean, 1e-8), style, label=name, color=COLOURS[index % len(COLOURS)], linewidth=1.6)
    for axes, title in zip(both, ("before training", "after training")):
        axes.set(xlabel="lag k", title=title, yscale="log")
        axes.grid(color="#e4e4e4")
        axes.spines[["top", "right"]].set_visible(False)
    both[0].set_ylabel("‖∂sₜ/∂sₜ₋ₖ‖ / √D")
    both[1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure.savefig(path)
