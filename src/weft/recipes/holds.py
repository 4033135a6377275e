"""What the state between encoder and decoder holds, with attention and without it, by probes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.api import Run
from weft.recipes import makers
from weft.recipes.runs import markdown_table, trained
from weft.recipes.study import Options, generated
from weft.runs.log import LogFile

STEPS, LONGEST = 1_500, 12
TRAINING, JUDGED = 20_000, 2_000  # sentences; half of the latter train the probes
COMMON = {
    "encoder.kind": "recurrent",
    "decoder.kind": "recurrent",
    "encoder.cell": "gru",
    "decoder.cell": "gru",
    "encoder.directions": "forward",
    "encoder.width": 128,
    "decoder.width": 128,
    "embed.width": 32,
    "bridge.kind": "last",
    "source.tokens": "characters",
    "target.tokens": "characters",
    "data.unseen": "unknown",
    "train.dropout": 0.0,
    "train.batch_tokens": 1_024,
    "train.rate": 0.004,
    "train.evaluations": 4,
    "train.select": "exact",
    "objective.smoothing": 0.0,
    "search.kind": "greedy",
}
VARIANTS = {
    "without attention": {"decoder.attention.score": "none"},
    "with attention": {"decoder.attention.score": "additive"},
}
HELD = ("length", "prompt", "bag of symbols", "order of two symbols")


def run(folder: Path, options: Options) -> list[str]:
    """Train a model with attention and one without, probe what each hands over, and return the page's lines."""
    files = generated(makers.cased(3, LONGEST), TRAINING, JUDGED)(folder / "data")
    assert files.valid is not None
    views, exact = {}, {}
    for name, settings in VARIANTS.items():
        model = trained(folder, name.replace(" ", "-"), files, STEPS, {**COMMON, **settings}, options, tag=3)
        views[name] = held(model, files.valid)
        exact[name] = float(LogFile(model.folder.log).final()["exact"])
    draw(views, folder / "bottleneck-holds.png")
    return [
        f"Two GRU models of width 128 were trained for {options.steps or STEPS:,} updates. Of the validation "
        "sentences, "
        + " and ".join(f"{value:.1f} % are right {name}" for name, value in exact.items())
        + f". {next(iter(views.values()))['probes']['note']}",
        "",
        *probe_rows(views),
        "![the k-th character from the start and from the end](bottleneck-holds.png)",
        "",
    ]


def held(run: Run, table: str) -> dict[str, Any]:
    """Return what the view `bottleneck` shows of a table."""
    view: dict[str, Any] = run.inspect(table=table, views="bottleneck").numbers["summary"]["bottleneck"]
    return view


def probe_rows(views: dict[str, dict[str, Any]]) -> list[str]:
    """Return what linear probes read off each model, side by side."""
    rows: list[list[Any]] = []
    for name, view in views.items():
        probes = [row for row in view["probes"]["rows"] if row[1] == "linear"]
        rows += [[row[0], name, *(float(cell) for cell in row[2:])] for row in probes]
    rows.sort(key=lambda row: HELD.index(row[0]))
    return markdown_table(["holds", "model", *next(iter(views.values()))["probes"]["columns"][2:]], rows, 1)


def draw(views: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw how often a linear probe names the k-th character, from the start and from the end."""
    from matplotlib.figure import Figure

    from weft.look.compared import COLOURS

    figure = Figure(figsize=(9, 3.8), dpi=110, layout="constrained")
    both = figure.subplots(1, 2, sharey=True)
    for axes, key, title in zip(both, ("from_start", "from_end"), ("from the start", "from the end")):
        for index, (name, view) in enumerate(views.items()):
            curves = {series["name"]: series["y"] for series in view[key]["series"]}
            axes.plot(view[key]["x"], curves["trained"], "o-", color=COLOURS[index], label=name)
            axes.plot(view[key]["x"], curves["untrained"], "--", color=COLOURS[index], label=f"{name}, untrained")
        axes.plot(view[key]["x"], curves["most frequent answer"], ":", color="#666666", label="most frequent character")
        axes.set(xlabel=f"k, {title}", ylim=(0, 102))
        axes.grid(color="#e4e4e4")
        axes.spines[["top", "right"]].set_visible(False)
    both[0].set_ylabel("k-th character named by a linear probe (%)")
    both[1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure.savefig(path)
