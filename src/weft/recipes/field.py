"""How many positions a node of a Transformer can know, if each head attends to only one position.

With k heads and the residual connection, a node at layer n holds at most (k+1)ⁿ positions. It holds exactly so many
where no two paths end at the same position, and fewer where they do.
"""

# L layers · H heads · T positions

from __future__ import annotations

from pathlib import Path

import numpy as np

from weft.look.inspect.field import reached
from weft.look.inspect.plots import Array
from weft.recipes.study import Options

HEADS, LAYERS, POSITIONS = (1, 2, 3, 4), (1, 2, 3, 4), 700
SEEDS = 5


def apart(layers: int, heads: int, positions: int) -> Array:
    """Return where heads look (L, H, T) so that no two paths meet: head h of layer n looks h·(k+1)ⁿ further."""
    steps = np.array([[(head + 1) * (heads + 1) ** layer for head in range(heads)] for layer in range(layers)])
    return np.asarray((steps[..., None] + np.arange(positions)) % positions, dtype=np.float64)


def at_random(layers: int, heads: int, positions: int, seed: int) -> Array:
    """Return where heads look that look anywhere."""
    drawn = np.random.default_rng(seed).integers(0, positions, (layers, heads, positions))
    return drawn.astype(np.float64)


def nearby(layers: int, heads: int, positions: int) -> Array:
    """Return where heads look that look at their neighbours: head h of every layer looks h positions further."""
    steps = np.arange(1, heads + 1)[None, :, None]
    return np.asarray((np.arange(positions) + np.repeat(steps, layers, axis=0)) % positions, dtype=np.float64)


def counts(looked: Array) -> list[int]:
    """Return how many positions each node of the last layer holds."""
    return [len(node) for node in reached(looked)[-1]]


def run(folder: Path, options: Options) -> list[str]:
    """Count the fields of every number of heads and layers, and return the page's lines."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, curves = [], {}
    for heads in HEADS:
        for layers in LAYERS:
            bound = (heads + 1) ** layers
            exact = counts(apart(layers, heads, POSITIONS))
            each = [
                counts(at_random(layers, heads, POSITIONS, seed)) for seed in range(1, (options.seeds or SEEDS) + 1)
            ]
            close = counts(nearby(layers, heads, POSITIONS))
            curves[heads, layers] = bound, min(exact), float(np.mean(each)), close[0]
            spread = f"{np.mean(each):.1f} (at most {np.max(each)})"
            rows.append(f"| {heads} | {layers} | {bound} | {min(exact)} – {max(exact)} | {spread} | {close[0]} |")
    draw(curves, folder / "field.png")
    return [
        f"{POSITIONS} positions, every node of the last layer counted.",
        "",
        "| heads k | layers n | (k+1)ⁿ | paths never meet | heads look at random, mean | heads look at neighbours |",
        "|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
        "![positions that a node holds](field.png)",
        "",
    ]


def draw(curves: dict[tuple[int, int], tuple[int, int, float, int]], path: Path) -> None:
    """Draw the size of the field against the layer, by the number of heads."""
    from matplotlib.figure import Figure

    from weft.look.compared import COLOURS

    figure = Figure(figsize=(8, 4.4), dpi=110, layout="constrained")
    axes = figure.subplots()
    for index, heads in enumerate(HEADS):
        each = [curves[heads, layers] for layers in LAYERS]
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(LAYERS, [x[1] for x in each], "o-", color=colour, label=f"{heads} heads, paths never meet: (k+1)ⁿ")
        axes.plot(LAYERS, [x[2] for x in each], "--", color=colour, label=f"{heads} heads, anywhere")
        axes.plot(LAYERS, [x[3] for x in each], ":", color=colour, label=f"{heads} heads, neighbours")
    axes.set(xlabel="layers", ylabel="positions that a node holds", yscale="log", xticks=LAYERS)
    axes.grid(color="#e4e4e4")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure.savefig(path)
