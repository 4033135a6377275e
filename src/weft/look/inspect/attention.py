"""View: what the model looked at. Maps by layer and head, and what they amount to in numbers and as an alignment."""

# L layers · H heads · T target length · S source length

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core.pair import SPECIALS, Pair
from weft.data.prepare import counted
from weft.look.inspect.alignment import (
    Links,
    agreement,
    backward_links,
    forward_links,
    in_words,
    known_order,
    pharaoh,
    symmetrised,
)
from weft.look.inspect.limits import MOST_PANELS, WINDOW
from weft.look.inspect.pieces import named
from weft.look.inspect.plots import Array, Cell, Facts, Heat, Panel, Plot, Plots, Table, as_json
from weft.look.inspect.sources import source_picture
from weft.look.inspect.subject import Line, Subject
from weft.look.inspect.views import DoesNotApply, Material, Options, View
from weft.nn.decoders.recurrent import RecurrentDecoder
from weft.nn.encoders import TransformerEncoder
from weft.nn.model import Aligned, Classifier, Seq2Seq, Writer
from weft.nn.pools import Query
from weft.predict.predictor import Predictor

MAPS = {  # the name of the note: the key in the report, its title, what the rows are
    "decode.cross": ("cross", "Output to input", "output"),
    "decode.copy": ("copy", "Copy attention", "output"),
    "pool.query": ("pool", "What the label is read from", "label"),
    "encode.self": ("encoder", "Input to input (self-attention of the encoder)", "input"),
    "decode.self": ("decoder", "Output to what is written (self-attention of the decoder)", "output"),
}
MAIN = ("cross", "pool", "copy", "encoder", "decoder")  # which of them speaks for the model, the first that there is


@dataclass(frozen=True)
class Maps:
    """The attention of one kind (L, H, T, S), with the names of its rows and columns."""

    key: str
    title: str
    row_name: str
    weights: Array
    rows: list[str]
    columns: list[str]

    @property
    def mean(self) -> Array:
        """The mean over the heads of the last layer (T, S)."""
        return np.asarray(self.weights[-1].mean(axis=0))

    @property
    def labels(self) -> list[tuple[int, int]]:
        return [(layer, head) for layer in range(self.weights.shape[0]) for head in range(self.weights.shape[1])]


def maps_of(line: Line, seen: Mapping[str, Sequence[Tensor]] | None = None) -> dict[str, Maps]:
    """Return the attention of a line by its key; `seen` is what another model noted for the same line."""
    seen = line.seen if seen is None else seen
    found = {}
    for note, (key, title, row_name) in MAPS.items():
        if seen.get(note):
            rows, columns = _names(line, key)
            weights = stacked(seen[note], len(rows))
            found[key] = Maps(key, title, row_name, weights, rows, named(columns, weights.shape[-1]))
    return found


def main_map(maps: Mapping[str, Maps]) -> Maps:
    """Return the map that speaks for the model."""
    return next(maps[key] for key in MAIN if key in maps)


def stacked(noted: Sequence[Tensor], length: int) -> Array:
    """Return (L, H, T, S) of what was noted for one line: one entry a layer, or one for each step of the only layer."""
    each = [_four(tensor)[0] for tensor in noted]  # (H, t, S)
    if each[0].shape[1] != length:
        each = [torch.cat(each, dim=1)]
    stack: Array = torch.stack(each).float().cpu().numpy()
    return stack


def _four(weights: Tensor) -> Tensor:
    """Return (B, H, T, S) of weights that have no heads (B, T, S) or no steps either (B, S)."""
    return weights if weights.dim() == 4 else (weights[:, None] if weights.dim() == 3 else weights[:, None, None])


def _names(line: Line, key: str) -> tuple[list[str], list[str]]:
    if key == "encoder":
        model = line.subject.model
        read = line.source_tokens[1:] if isinstance(model, Seq2Seq) and model.prompted else line.source_tokens
        return read, read
    if key == "decoder":
        return line.target_tokens, line.given_tokens
    return line.target_tokens, line.attended_tokens


SHOWN = "this view shows the attention of decoders, of Transformer encoders and of pools"
BESIDE = {"flow": ("source", "context"), "hops": ("context", "sentences")}  # by context.use: what attends to what


def why_not(subject: Subject) -> str:
    """Return why a model has no attention to show."""
    model = subject.predictor.model
    attends = isinstance(subject.encoder, TransformerEncoder)
    attends |= isinstance(model, Classifier) and isinstance(model.pool, Query)
    if isinstance(model, Writer):
        decoder = model.decoder
        attends |= not isinstance(decoder, RecurrentDecoder) or decoder.attention is not None or model.head.sees_source
    if attends:
        return ""
    if subject.is_language_model:
        return "this model has no attention: it keeps what it has read in its state"
    if isinstance(model, Aligned):
        return "this model has no attention: each position of its encoder emits a symbol or a blank (CTC)"
    if not isinstance(model, Writer):
        if subject.spec.data.context is not None and subject.spec.context.use in BESIDE:
            return f"{SHOWN}, not that between {' and '.join(BESIDE[subject.spec.context.use])}"
        summary = "a summary of " if isinstance(model, Classifier) else ""
        return f"this model has no attention: its output is predicted from {summary}the encoder's states"
    return "this model has no attention: its decoder sees only the state that the encoder hands over"


def of_line(line: Line, options: Options) -> Plots:
    maps = maps_of(line)
    if not maps:
        raise DoesNotApply("this model has no attention")
    plots: dict[str, Plot] = {}
    for key, each in maps.items() if not options.brief else [(main_map(maps).key, main_map(maps))]:
        plots[key] = _heat(line, each, options.brief)
    plots["statistics"] = _statistics(maps)
    main = main_map(maps)
    if main.key in ("cross", "copy"):
        plots["alignment"] = _alignment(main)
    return plots


def _heat(line: Line, maps: Maps, brief: bool) -> Heat:
    few = not brief and len(maps.labels) <= MOST_PANELS
    panels = [Panel(f"layer {la + 1}, head {h + 1}", maps.weights[la, h]) for la, h in maps.labels] if few else []
    if len(maps.labels) != 1 or not panels:
        panels.insert(0, Panel("mean over the heads of the last layer", maps.mean))
    rows, columns = min(WINDOW, len(maps.rows)), min(WINDOW, len(maps.columns))
    whole = (rows, columns) == (len(maps.rows), len(maps.columns))
    cut = "" if whole else f"Only the first {rows} rows and {columns} columns are shown, of {len(maps.rows)} and "
    note = "" if whole else f"{cut}{len(maps.columns)}."
    if not few and not brief:
        note += f" There are {len(maps.labels)} heads; only their mean is shown."
    shown = [Panel(panel.name, panel.values[:rows, :columns]) for panel in panels]
    column_name = "written" if maps.key == "decoder" else "input"
    heat = Heat(maps.title, maps.rows[:rows], maps.columns[:columns], shown, maps.row_name, column_name, "share", note)
    if maps.key not in ("cross", "pool"):
        return heat
    source = source_picture(line)
    if source.grid_rows and source.grid_rows * source.grid_columns == columns:
        return replace(heat, picture=source.picture, grid_rows=source.grid_rows)
    return replace(heat, track=source.track[:, :columns] if source.track.size else None)


def entropy(weights: Array) -> float:
    """Return the mean entropy of the rows, in nats: 0 where each looks at one position only."""
    positive = np.where(weights > 0, weights, 1.0)
    return float(-(weights * np.log(positive)).sum(-1).mean())


def monotonicity(weights: Array) -> float:
    """Return the share of steps whose mean position is not before that of the step before; 1 for a single step."""
    places = weights @ np.arange(weights.shape[1])
    return float(np.mean(np.diff(places) >= -1e-6)) if len(places) > 1 else 1.0


def coverage(weights: Array) -> float:
    """Return the share of columns that get a whole unit of weight or its part: Σₛ min(1, Σₜ α) / S."""
    return float(np.minimum(1.0, weights.sum(axis=0)).mean())


def _statistics(maps: Mapping[str, Maps]) -> Table:
    rows: list[list[Cell]] = []
    for key, each in maps.items():
        for layer, head in each.labels:
            weights = each.weights[layer, head]
            rows.append([key, layer + 1, head + 1, *measures(weights)])
    return Table(
        "Every head in numbers",
        ["map", "layer", "head", "entropy", "monotonicity", "coverage", "largest weight", "row sum, worst"],
        rows,
        "Entropy is in nats: 0 means that one position gets all the attention, log S that all S positions get equal "
        "attention. Monotonicity is the share of steps that do not look back. Coverage is the share of the input "
        "that is looked at. Rows of softmax sum to 1.",
    )


def measures(weights: Array) -> list[float]:
    """Return entropy, monotonicity, coverage, mean largest weight, and the row sum that is farthest from 1."""
    sums = weights.sum(axis=1)
    worst = float(sums[np.abs(sums - 1).argmax()])
    return [entropy(weights), monotonicity(weights), coverage(weights), float(weights.max(axis=1).mean()), worst]


@dataclass(frozen=True)
class Implied:
    """The alignment that a map implies, between symbols of text: END and marks are no part of it."""

    source: list[str]
    target: list[str]
    forward: Links
    backward: Links
    weights: Array

    @property
    def both(self) -> Links:
        return symmetrised(self.forward, self.backward)


def implied(maps: Maps) -> Implied:
    """Return the alignment of the mean map."""
    rows = [i for i, name in enumerate(maps.rows) if name not in SPECIALS]
    columns = [i for i, name in enumerate(maps.columns) if name not in SPECIALS]
    inner = maps.mean[np.ix_(rows, columns)]
    names = [maps.columns[i] for i in columns], [maps.rows[i] for i in rows]
    if not inner.size:
        return Implied(*names, frozenset(), frozenset(), inner)
    return Implied(*names, forward_links(inner), backward_links(inner), inner)


def _alignment(maps: Maps) -> Facts:
    links = implied(maps)
    items: dict[str, Any] = {
        "output to input": pharaoh(links.forward),
        "input to output": pharaoh(links.backward),
        "symmetrised": pharaoh(links.both),
        "in words": in_words(links.both, links.source, links.target),
    }
    order = known_order(links.source, links.target)
    if order is not None:
        items[f"agreement with the known order ({order[0]})"] = agreement(links.weights, order[1], links.source)
    note = "Pairs are input-output, counted from 0 without marks and END; symmetrised by grow-diag-final-and."
    return Facts("The alignment it implies", items, note=note)


def of_all(material: Material) -> Plots:
    """Return the means of the measures over all lines that are shown."""
    rows: dict[tuple[str, int, int], list[list[float]]] = {}
    for line in material.lines:
        for key, each in maps_of(line).items():
            for layer, head in each.labels:
                rows.setdefault((key, layer + 1, head + 1), []).append(measures(each.weights[layer, head])[:4])
    table: list[list[Cell]] = [[*label, *map(float, np.mean(values, axis=0))] for label, values in rows.items()]
    columns = ["map", "layer", "head", "entropy", "monotonicity", "coverage", "largest weight"]
    rows_of_table = len(material.table)
    worst = f"the {len(material.lines)} worst lines of {rows_of_table:,}" if rows_of_table > len(material.lines) else ""
    return {"statistics": Table(f"Mean over {worst or counted(len(material.lines), 'line')}", columns, table)}


def attention_numbers(
    predictor: Predictor, inputs: Sequence[Pair], outputs: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return the attention view of each input as JSON objects, for servers and notebooks.

    `outputs` are what the model wrote; without them it predicts. Each object has `input`, `output`, `source_tokens`,
    `target_tokens` and `attention`, which is what `weft inspect --json` has under `views.attention`: by kind of map,
    `rows`, `columns` and `panels` of `values`. A model without attention has an empty `attention`.
    """
    subject = Subject(predictor)
    if outputs is None:
        lines = subject.lines(inputs)
    else:
        lines = [line for pair, text in zip(inputs, outputs, strict=True) for line in subject.lines([pair], text)]
    shows = not why_not(subject)
    return [as_json({**line.to_json(), "attention": dict(of_line(line, Options())) if shows else {}}) for line in lines]


VIEW = View(
    "attention",
    "Attention",
    "What the model looked at while it wrote each symbol. A strongly coloured square: this output symbol took much "
    "from that input symbol. Point at a symbol to see its links; `faithful` says how far to trust them.",
    why_not,
    of_line,
    of_all,
    "line",
)
