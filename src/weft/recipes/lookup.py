"""Attention as a differentiable dictionary: which ways of looking up can be learned, and which gradients they give.

The answer to word i is the value of entry p(i), p a random permutation. The vectors of queries, keys and values are
learned from right answers alone.
"""

# B words · D width · S entries

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor, nn

from weft.nn.assemble import SCORES, WEIGHERS
from weft.recipes.study import Options

WORDS, WIDTH, STEPS = 24, 16, 400
LOOKUPS = {  # the attention score and the weigher of each
    "exact": ("rbf", "exact"),
    "nearest (inner product)": ("dot", "nearest"),
    "nearest (rbf)": ("rbf", "nearest"),
    "straight-through": ("dot", "straight-through"),
    "soft, inner product": ("dot", "softmax"),
    "soft, cosine": ("cosine", "softmax"),
    "soft, rbf": ("rbf", "softmax"),
    "sparsemax": ("dot", "sparsemax"),
}


class Dictionary(nn.Module):
    """Learned queries, keys and values: answer = Σ weigh(score(q, k))ᵢ vᵢ, read off by a matrix."""

    def __init__(self, score: str, weigh: str) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Parameter(torch.randn(WORDS, WIDTH)) for _ in range(3))
        self.score, self.weigh = SCORES[score](WIDTH, WIDTH), WEIGHERS[weigh]
        self.read = nn.Linear(WIDTH, WORDS)

    def weights(self) -> Tensor:
        weights: Tensor = self.weigh(self.score(self.query[None], self.score.keys(self.key[None])))
        return weights[0]  # (B, S)

    def forward(self) -> Tensor:
        out: Tensor = self.read(self.weights() @ self.value)
        return out


@dataclass(frozen=True)
class Learned:
    """Results of one lookup: share of right answers, mean largest weight, gradients of the first update, curve."""

    right: float
    sharp: float
    gradients: dict[str, float]
    curve: list[float]


def learn(score: str, weigh: str, steps: int, seed: int = 1) -> Learned:
    """Train one lookup; the answer to word i is word p(i), p a random permutation."""
    torch.manual_seed(seed)
    model, answers = Dictionary(score, weigh), torch.randperm(WORDS)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    curve, gradients = [], {}
    for step in range(steps):
        logits = model()
        loss = nn.functional.cross_entropy(logits, answers)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if step == 0:
            gradients = {
                name: _gradient_norm(part)
                for name, part in model.named_parameters()
                if name in ("query", "key", "value")
            }
        optimiser.step()
        curve.append(float((logits.argmax(-1) == answers).float().mean()))
    with torch.no_grad():
        right = float((model().argmax(-1) == answers).float().mean())
        sharp = float(model.weights().amax(-1).mean())
    return Learned(right, sharp, gradients, curve)


def _gradient_norm(part: Tensor) -> float:
    return 0.0 if part.grad is None else float(part.grad.norm())


def run(folder: Path, options: Options) -> list[str]:
    """Train every lookup with every seed, draw the curves, and return the page's lines."""
    folder.mkdir(parents=True, exist_ok=True)
    steps, seeds = options.steps or STEPS, range(1, (options.seeds or 5) + 1)
    learned = {name: [learn(*lookup, steps, seed) for seed in seeds] for name, lookup in LOOKUPS.items()}
    draw(learned, folder / "lookup.png")
    rows = []
    for name, runs in learned.items():
        gradients = [fmean(run.gradients[part] for run in runs) for part in ("query", "key", "value")]
        figures = f"{100 * fmean(run.right for run in runs):.1f} | {fmean(run.sharp for run in runs):.2f}"
        rows.append(f"| {name} | {figures} | " + " | ".join(f"{gradient:.4f}" for gradient in gradients) + " |")
    return [
        f"{WORDS} words, {steps} updates, the mean of {len(seeds)} seeds. Gradients are those of the first update.",
        "",
        "| lookup | answers right, % | largest weight | gradient at query | at key | at value |",
        "|---|---:|---:|---:|---:|---:|",
        *rows,
        "",
        "![right answers during training](lookup.png)",
        "",
    ]


def draw(learned: dict[str, list[Learned]], path: Path) -> None:
    """Draw the share of right answers during training, the mean over seeds."""
    import numpy as np
    from matplotlib.figure import Figure

    from weft.look.compared import COLOURS

    figure = Figure(figsize=(9, 4.8), dpi=110, layout="constrained")
    axes = figure.subplots()
    for index, (name, runs) in enumerate(learned.items()):
        mean = 100 * np.mean([run.curve for run in runs], axis=0)
        axes.plot(mean, label=name, color=COLOURS[index % len(COLOURS)], linewidth=1.8)
    axes.set(
        xlabel="update", ylabel="answers right (%)", ylim=(0, 102), title="A dictionary that learns by its answers"
    )
    axes.grid(color="#e4e4e4")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure.savefig(path)
