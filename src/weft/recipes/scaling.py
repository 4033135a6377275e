"""What q·k should be divided by: √d, d, or nothing. What softmax can say at the start, and after training.

The components of q and k begin with mean 0 and variance 1, so q·k has variance d. Divided by √d it has variance 1 at
any width; divided by nothing, softmax begins at one key; divided by d, it begins at all keys alike.
"""

# N words · D width

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor, nn

from weft.recipes.runs import markdown_table
from weft.recipes.study import Options

WORDS, WIDTHS, STEPS, SEEDS = 32, (4, 16, 64, 256), 300, 5
DIVISORS: dict[str, Callable[[int], float]] = {
    "1": lambda width: 1.0,
    "√d": lambda width: float(width**0.5),
    "d": float,
}


class Lookup(nn.Module):
    """A learned dictionary: word i asks for entry p(i); q, k and v are learned from right answers alone."""

    def __init__(self, width: int, divisor: float) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Parameter(torch.randn(WORDS, width)) for _ in range(3))
        self.read, self.divisor = nn.Linear(width, WORDS), divisor

    def weights(self) -> Tensor:
        return torch.softmax(self.query @ self.key.T / self.divisor, dim=-1)  # (N, N)

    def forward(self) -> Tensor:
        out: Tensor = self.read(self.weights() @ self.value)
        return out


@dataclass(frozen=True)
class Seen:
    """What softmax says: its entropy as a share of log N, the mean largest weight, and the gradient at the queries."""

    entropy: float
    largest: float
    gradient: float


@dataclass(frozen=True)
class Outcome:
    """One width and divisor, before training and after it."""

    before: Seen
    after: Seen
    right: float


def look(model: Lookup, answers: Tensor) -> Seen:
    """Return what the weights say now; the gradient is that of the mean loss, per number."""
    model.zero_grad()
    nn.functional.cross_entropy(model(), answers).backward()  # type: ignore[no-untyped-call]
    assert model.query.grad is not None
    weights = model.weights().detach()
    entropy = -(weights * weights.clamp_min(1e-30).log()).sum(-1).mean() / torch.tensor(WORDS).log()
    return Seen(float(entropy), float(weights.amax(-1).mean()), float(model.query.grad.pow(2).mean().sqrt()))


def learn(width: int, divisor: float, steps: int, seed: int) -> Outcome:
    """Train one dictionary."""
    torch.manual_seed(seed)
    model, answers = Lookup(width, divisor), torch.randperm(WORDS)
    before = look(model, answers)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(), answers).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    right = float((model().argmax(-1) == answers).float().mean())
    return Outcome(before, look(model, answers), right)


def mean(each: list[Seen]) -> Seen:
    """Return the mean over seeds."""
    return Seen(*(fmean(getattr(one, name) for one in each) for name in ("entropy", "largest", "gradient")))


def run(folder: Path, options: Options) -> list[str]:
    """Train every width with every divisor, and return the page's lines."""
    folder.mkdir(parents=True, exist_ok=True)
    steps, seeds = options.steps or STEPS, range(1, (options.seeds or SEEDS) + 1)
    every = {
        (name, width): [learn(width, divisor(width), steps, seed) for seed in seeds]
        for name, divisor in DIVISORS.items()
        for width in WIDTHS
    }
    draw(every, folder / "scaling.png")
    rows = []
    for (name, width), each in every.items():
        before, after = mean([outcome.before for outcome in each]), mean([outcome.after for outcome in each])
        seen = [before.entropy, before.largest, f"{before.gradient:.1e}", after.entropy, after.largest]
        rows.append([f"q·k / {name}" if name != "1" else "q·k", width, *seen, fmean(o.right for o in each)])
    columns = ["score", "d", "entropy / log N, start", "largest weight, start", "gradient at q, start"]
    columns += ["entropy / log N, end", "largest weight, end", "answers right, end"]
    return [
        f"{WORDS} words, {steps} updates of Adam, the mean of {len(seeds)} seeds. An entropy of 1 means that all words "
        "have the same weight, and 0 that one has all of it.",
        "",
        *markdown_table(columns, rows, 2),
        "![what softmax says at the start and at the end, against width](scaling.png)",
        "",
    ]


def draw(every: dict[tuple[str, int], list[Outcome]], path: Path) -> None:
    """Draw entropy at the start, the largest weight and right answers at the end, against the width."""
    from matplotlib.figure import Figure

    from weft.look.compared import COLOURS

    drawn: dict[str, Callable[[Outcome], float]] = {
        "entropy / log N at the start": lambda outcome: outcome.before.entropy,
        "largest weight at the end": lambda outcome: outcome.after.largest,
        "share of right answers at the end": lambda outcome: outcome.right,
    }
    figure = Figure(figsize=(11, 3.6), dpi=110, layout="constrained")
    panels = figure.subplots(1, len(drawn))
    for axes, (title, value) in zip(panels, drawn.items()):
        for index, name in enumerate(DIVISORS):
            y = [fmean(value(outcome) for outcome in every[name, width]) for width in WIDTHS]
            style = ("o-", "s--", "^:")[index]
            axes.plot(WIDTHS, y, style, color=COLOURS[index], label="q·k" if name == "1" else f"q·k / {name}")
        axes.set(xlabel="width d", xscale="log", ylim=(0, 1.03), title=title)
        axes.set_xticks(WIDTHS, [str(width) for width in WIDTHS])
        axes.minorticks_off()
        axes.grid(color="#e4e4e4")
        axes.spines[["top", "right"]].set_visible(False)
    panels[-1].legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure.savefig(path)
