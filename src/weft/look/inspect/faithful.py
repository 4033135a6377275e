"""View: how far to trust an attention map. It is compared with what the output really depends on.

Attention weights need not be an explanation (Jain and Wallace 2019; Wiegreffe and Pinter 2019). So beside each map
stand leave-one-out, gradient × input and integrated gradients, the rank correlation of each with the map, the same for
a model with random weights and for permuted weights, and what permuting the weights changes in the output.
"""

# T target steps · S source positions

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from weft.core.emissions import Choice
from weft.core.pair import SPECIALS
from weft.core.trace import Edit, trace
from weft.look.inspect import attention
from weft.look.inspect.attention import Maps, main_map, maps_of
from weft.look.inspect.attribution import Attribution, attribution
from weft.look.inspect.plots import Array, Cell, Facts, Heat, Panel, Plot, Plots, Table
from weft.look.inspect.statistics import kendall
from weft.look.inspect.subject import Line, Subject
from weft.look.inspect.views import DoesNotApply, Options, View, check_attributed
from weft.nn.assemble import AnyModel
from weft.nn.model import Classifier, Seq2Seq

PERMUTATIONS = 40
LITTLE = 0.05  # total variation distance below which permuted attention changes the output little
LARGE_ERROR = 0.05  # completeness error, as a share of the difference, from which on it is a warning
NOTES = {"cross": "decode.cross", "pool": "pool.query", "copy": "decode.copy"}


def why_not(subject: Subject) -> str:
    """Return why a model's outputs cannot be attributed to its inputs."""
    if isinstance(subject.predictor.model, Seq2Seq | Classifier):
        return ""
    if subject.is_language_model:
        return "a language model has no input apart from its text"
    return "this model writes one symbol for each position of the input: leaving one out leaves no output to compare"


def of_line(line: Line, options: Options) -> Plots:
    rows, columns = len(line.target_tokens), len(line.rows.source[0])
    check_attributed(line.subject, columns, rows)
    if columns < 2:
        raise DoesNotApply("the input has only one symbol: nothing can be left out", "give a longer input")
    if line.batch.context is not None and len(line.attended_tokens) != len(line.source_tokens):
        raise DoesNotApply("the attention of this model spans source and context, which are not attributed separately")
    measured = attribution(line, line.subject.model)
    plots: dict[str, Plot] = {"maps": _maps(line, measured)}
    if not attention.why_not(line.subject) and main_map(maps_of(line)).key in NOTES:
        plots |= _judged(line, measured)
    plots["completeness"] = _completeness(measured)
    return plots


def _maps(line: Line, measured: Attribution) -> Heat:
    tokens = line.source_tokens
    panels = [
        Panel("left out: fall of log p", _wide(measured.left_out, len(tokens))),
        Panel("integrated gradients", _wide(measured.integrated, len(tokens))),
        Panel("gradient × input", _wide(measured.gradient, len(tokens))),
    ]
    note = "Blue: the output symbol needs this input symbol. Orange: it would be more probable without it. END has no "
    return Heat(
        "What each output symbol depends on",
        line.target_tokens,
        tokens,
        panels,
        scale="signed",
        note=note + "leave-one-out value.",
    )


def _wide(values: Array, columns: int) -> Array:
    """Return a matrix with as many columns as tokens: END is not left out, and a prompt is not read by the encoder."""
    missing = columns - values.shape[1]
    return np.pad(values, ((0, 0), (0, missing))) if missing > 0 else values


@dataclass(frozen=True)
class Compared:
    """An attention map and an attribution over the same output symbols and input symbols."""

    weights: Array  # (T, S)
    other: Array

    def tau(self) -> float:
        """Return the mean rank correlation of weights and sizes of attributions over the output symbols."""
        each = [kendall(w, np.abs(o)) for w, o in zip(self.weights, self.other, strict=True)]
        finite = [tau for tau in each if np.isfinite(tau)]
        return float(np.mean(finite)) if finite else float("nan")


def compared(maps: Maps, attributed: Array, offset: int) -> Compared:
    """Return the symbols that both have; attributions begin `offset` columns before the map."""
    rows = [i for i, name in enumerate(maps.rows) if name not in SPECIALS] or [0]
    columns = [i for i, name in enumerate(maps.columns) if name not in SPECIALS and i + offset < attributed.shape[1]]
    chosen = np.ix_(rows, [i + offset for i in columns])
    return Compared(maps.mean[np.ix_(rows, columns)], attributed[chosen])


def _judged(line: Line, measured: Attribution) -> dict[str, Plot]:
    maps = main_map(maps_of(line))
    offset = len(line.source_tokens) - len(maps.columns)  # of leave-one-out, which counts a prompt
    by = {
        "left out": compared(maps, measured.left_out, offset),
        "integrated gradients": compared(maps, measured.integrated, 0),
        "gradient × input": compared(maps, measured.gradient, 0),
    }
    random = _of_random_model(line)
    rows: list[list[Cell]] = []
    for name, both in by.items():
        low, high = permuted_taus(both)
        rows.append([name, both.tau(), random[name], low, high])
    changed = changed_by_permuting(line, maps.key)
    columns = ["compared with", "τ of this model", "τ with random weights", "permuted: from", "to"]
    note = (
        "Kendall's τ of the map with the size of the attribution, mean over output symbols. Permuted: the range of "
        "τ for 95 % of random permutations of the same weights."
    )
    table = Table("Rank correlation with the attention", columns, rows, note)
    return {"correlation": table, "trust": _trust(by, changed)}


def _of_random_model(line: Line) -> dict[str, float]:
    """Return the same correlations for a model with random weights that writes the same output."""
    model = line.subject.untrained()
    with torch.no_grad(), trace() as seen:
        model(line.batch)
    maps, measured = main_map(maps_of(line, seen)), attribution(line, model)
    offset = len(line.source_tokens) - len(maps.columns)
    return {
        "left out": compared(maps, measured.left_out, offset).tau(),
        "integrated gradients": compared(maps, measured.integrated, 0).tau(),
        "gradient × input": compared(maps, measured.gradient, 0).tau(),
    }


def permuted_taus(both: Compared, seed: int = 1) -> tuple[float, float]:
    """Return the range of τ in which 95 % of random orders of the weights lie."""
    draw = np.random.default_rng(seed)
    taus = [Compared(draw.permuted(both.weights, axis=1), both.other).tau() for _ in range(PERMUTATIONS)]
    finite = [tau for tau in taus if np.isfinite(tau)] or [0.0]
    low, high = np.quantile(finite, [0.025, 0.975])
    return float(low), float(high)


def changed_by_permuting(line: Line, key: str, seed: int = 1) -> float:
    """Return the mean total variation distance between outputs with the weights and with permuted weights."""
    with torch.no_grad():
        before = _distributions(line.subject.model, line, {})
        after = [_distributions(line.subject.model, line, {NOTES[key]: Permute(seed + number)}) for number in range(8)]
    if before is None:
        return float("nan")
    return float(np.mean([0.5 * (before - each).abs().sum(-1).mean().item() for each in after if each is not None]))


class Permute:
    """Puts the weights of every row into a random order."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, weights: Tensor) -> Tensor:
        order = torch.rand(weights.shape, generator=self.generator).argsort(-1).to(weights.device)
        return weights.gather(-1, order)


def _distributions(model: AnyModel, line: Line, edits: dict[str, Edit]) -> Tensor | None:
    with trace(edits, keep=lambda _: False):
        emission = model(line.batch)
    return emission.log_probs[0].exp() if isinstance(emission, Choice) else None


def _trust(by: Mapping[str, Compared], changed: float) -> Facts:
    """Return a verdict: good only if the map agrees with every attribution better than a random order would."""
    items: dict[str, Cell] = {}
    disagree = []
    for name, both in by.items():
        tau, (_, high) = both.tau(), permuted_taus(both)
        called = name.replace("left out", "leave-one-out")
        items |= {f"τ with {called}": tau, f"random orders reach ({called})": high}
        disagree += [] if tau > high else [called]
    items["change of the output by permuted weights (0 to 1)"] = changed
    verdict = _verdict(disagree, changed)
    good = "The map agrees with what the output depends on, and the output depends on the map."
    return Facts("Can this map be trusted?", items, verdict or good, bool(verdict))


def _verdict(disagree: Sequence[str], changed: float) -> str:
    """Return what speaks against a map, if anything does; leave-one-out weighs most."""
    reasons = []
    if "leave-one-out" in disagree:
        reasons.append("its order agrees no better with leave-one-out than a random order would")
    if changed < LITTLE:
        reasons.append("permuting the weights hardly changes the output")
    if reasons:
        return f"Do not read this map as an explanation: {' and '.join(reasons)}."
    others = " and ".join(disagree)
    return f"Read this map with care: it agrees with leave-one-out, but not with {others}." if others else ""


def _completeness(measured: Attribution) -> Facts:
    size = float(np.abs(measured.difference).mean())
    error = float(measured.completeness.mean())
    share = error / size if size else float("nan")
    items: dict[str, Cell] = {
        "mean completeness error of integrated gradients (nats)": error,
        "mean difference to explain (nats)": size,
        "share": share,
    }
    warn = not share < LARGE_ERROR
    verdict = "The integrated gradients are not exact here: read them with care." if warn else ""
    return Facts("Completeness", items, verdict, warn)


VIEW = View(
    "faithful",
    "What the output depends on",
    "What the output really depends on: leaving a symbol out, gradient × input and integrated gradients, and their "
    "rank correlation (Kendall's τ) with the attention, beside a model with random weights and permuted attention.",
    why_not,
    of_line,
)
