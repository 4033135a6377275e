"""What the attention heads of a small Transformer for translation attend to, and which of them it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.recipes.runs import markdown_table, trained
from weft.recipes.study import Files, Options, public_paths
from weft.runs.log import LogFile

STEPS, WIDTH, LAYERS, HEADS = 700, 128, 2, 4
SETTINGS = {
    **{
        f"{part}.{name}": value
        for part in ("encoder", "decoder")
        for name, value in {
            "kind": "transformer",
            "width": WIDTH,
            "layers": LAYERS,
            "heads": HEADS,
            "inner": 2 * WIDTH,
        }.items()
    },
    **{f"{side}.{name}": v for side in ("source", "target") for name, v in (("tokens", "bpe"), ("size", 3_000))},
    "embed.width": WIDTH,
    "embed.positions": "sinusoid",
    "train.batch_tokens": 2_048,
    "train.rate": 0.003,
    "train.dropout": 0.1,
    "train.evaluations": 3,
    "train.valid_pairs": 200,
    "search.kind": "greedy",
}
PARTS = {"encoder": "Encoder, input to input", "decoder": "Decoder, output to output", "cross": "Output to input"}
TABLE_ROWS = 200  # of the validation sentences


def run(folder: Path, options: Options) -> list[str]:
    """Train a translator, inspect its heads, and return the page's lines."""
    paths = public_paths("multi30k/train.en", "multi30k/train.de", "multi30k/val.en", "multi30k/val.de")
    files = Files(f"{paths[0]}:{paths[1]}", f"{paths[2]}:{paths[3]}")
    model = trained(folder, "model", files, STEPS, SETTINGS, options)
    rows = [*zip(*(path.read_text(encoding="utf-8").splitlines()[:TABLE_ROWS] for path in paths[2:]), strict=True)]
    table = folder / "data" / "valid.tsv"
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    view = model.inspect(table=table, views="heads").numbers["summary"]["heads"]
    final = LogFile(model.folder.log).final()
    draw(view["ablation"], folder / "heads.png")
    lines = [
        f"{LAYERS} + {LAYERS} layers of width {WIDTH} with {HEADS} heads each, {final['steps']:,} updates, BLEU "
        f"{final['bleu']:.1f} on {final['pairs']:,} validation sentences (greedy). The first three tables "
        "show mean weights over 60 sentences, and the habit of a head: the pattern that it clearly prefers, if "
        f"there is one. The last table is measured on {TABLE_ROWS} sentences.",
        "",
    ]
    for key, title in PARTS.items():
        lines += [f"### {title}", "", *markdown_table(view[key]["columns"], _floats(view[key]["rows"]), 2)]
    lines += ["### Without a head", "", view["ablation"]["note"], ""]
    return [*lines, *ablations(view["ablation"]), "![loss without each head](heads.png)", ""]


def _floats(rows: list[list[Any]]) -> list[list[Any]]:
    """Return rows whose numbers after layer and head have a fraction, so that they are printed alike."""
    return [[*row[:2], *(float(cell) if isinstance(cell, int) else cell for cell in row[2:])] for row in rows]


def ablations(plot: dict[str, Any]) -> list[str]:
    """Return the ablated heads, the one that is needed most first."""
    rows = sorted(plot["rows"], key=lambda row: -row[3])
    return markdown_table(plot["columns"], [[*row[:3], *map(float, row[3:])] for row in rows], 3)


def draw(plot: dict[str, Any], path: Path) -> None:
    """Draw by how much the loss rises without each head, with its interval."""
    from matplotlib.figure import Figure

    from weft.look.compared import COLOURS

    figure = Figure(figsize=(8, 3.6), dpi=110, layout="constrained")
    axes = figure.subplots()
    keys = list(dict.fromkeys(row[0] for row in plot["rows"]))
    for place, (key, layer, head, loss, low, high, *_) in enumerate(plot["rows"]):
        axes.bar(place, loss, color=COLOURS[keys.index(key)], label=PARTS[key] if (layer, head) == (1, 1) else None)
        axes.plot([place, place], [low, high], color="#222222", linewidth=1)
    axes.set_xticks(range(len(plot["rows"])), [f"{row[1]}.{row[2]}" for row in plot["rows"]], fontsize=8)
    axes.set(xlabel="layer.head", ylabel="increase in loss without this head (nats)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path)
