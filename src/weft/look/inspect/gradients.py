"""View: how far gradients reach. ‖∂sₜ/∂sₜ₋ₖ‖ of every recurrent layer and ‖∂loss/∂x‖, against the lag k.

s is the cell state c of an LSTM, else the hidden state h. The norm is Frobenius' over √D, so that the identity has 1.
Along the cell alone, ∂cₜ/∂cₜ₋ₖ = Π f, the product of the forget gates; before training that is about σ(b_f)ᵏ. The whole
derivative also has the way through h and the gates.
"""

# T length · D width · K lags

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from weft.core.trace import Edit, trace
from weft.look.inspect.attribution import step_log_probs
from weft.look.inspect.plots import Array, Cell, Curves, Plot, Plots, Series, Table
from weft.look.inspect.subject import Line, Subject
from weft.look.inspect.units import shown_name
from weft.look.inspect.views import Options, View, check_attributed
from weft.nn.assemble import AnyModel
from weft.nn.cells import Recurrence
from weft.nn.decoders.recurrent import RecurrentDecoder
from weft.nn.encoders import RecurrentEncoder
from weft.nn.lstm import Lstm
from weft.nn.model import Aligned, LanguageModel, Model, Writer

ENDS = 3  # of how many last steps the mean is taken


class Captured:
    """Keeps what is noted, with its gradient."""

    def __init__(self) -> None:
        self.steps: list[Tensor] = []

    def __call__(self, value: Tensor) -> Tensor:
        self.steps.append(value)
        return value


class Root(Captured):
    """Keeps vectors that gradients are taken at, and that everything after them depends on."""

    def __call__(self, value: Tensor) -> Tensor:
        return super().__call__(value.detach().requires_grad_())


def recurrent_layers(model: Model) -> dict[str, Recurrence]:
    """Return the recurrent cells of a model by the name under which their states are noted."""
    cells: dict[str, Recurrence] = {}
    if not isinstance(model, LanguageModel) and isinstance(model.encoder, RecurrentEncoder):
        for way, layers in (("forward", model.encoder.reader.forwards), ("backward", model.encoder.reader.backwards)):
            cells |= {f"encode.{n}.{way}": cell for n, cell in enumerate(layers) if isinstance(cell, Recurrence)}
    if isinstance(model, Writer) and isinstance(model.decoder, RecurrentDecoder):
        cells |= {
            f"decode.{n}": cell for n, cell in enumerate(model.decoder.stack.cells) if isinstance(cell, Recurrence)
        }
    return cells


@dataclass(frozen=True)
class Reach:
    """How a state depends on the one k steps before it, for k = 0, 1, … (K,)."""

    norm: Array
    largest: Array  # singular value
    diagonal: Array  # mean of the diagonal
    gates: Array  # (K, D): the product of the forget gates; empty where there are none


def reach(model: AnyModel, line: Line, name: str) -> Reach:
    """Return how the last states of a layer depend on earlier ones."""
    states, hidden, gates = Captured(), Captured(), Captured()
    edits: dict[str, Edit] = {f"{name}.c": states, f"{name}.h": hidden, f"{name}.f": gates}
    roots: dict[str, Edit] = {"encode.inputs": Root(), "decode.inputs": Root()}
    with torch.enable_grad(), trace({**edits, **roots}, keep=lambda _: False):
        model(line.batch)
    kept = states.steps or hidden.steps
    ends = range(max(1, len(kept) - ENDS), len(kept)) if len(kept) > 1 else range(1)
    each = [jacobians(kept[: end + 1]) for end in ends]
    lags = min(len(these) for these in each)
    stacked = torch.stack([torch.stack(these[:lags]) for these in each])  # (ends, K, D, D)
    width = stacked.shape[-1]
    products = [_products(gates.steps[: end + 1], lags) for end in ends] if gates.steps else []
    return Reach(
        (stacked.flatten(2).norm(dim=-1) / width**0.5).mean(0).numpy(),
        torch.linalg.matrix_norm(stacked, ord=2).mean(0).numpy(),
        stacked.diagonal(dim1=-2, dim2=-1).mean((0, -1)).numpy(),
        np.mean(products, axis=0) if products else np.zeros((0, 0)),
    )


def jacobians(states: list[Tensor]) -> list[Tensor]:
    """Return ∂s_T/∂s_{T−k} (D, D) for k = 0, 1, … of states (1, D) of one line."""
    last = states[-1]
    eye = torch.eye(last.shape[-1], device=last.device)[:, None]  # (D, 1, D)
    gradients = torch.autograd.grad(
        last, states[::-1], eye, is_grads_batched=True, retain_graph=True, allow_unused=True
    )
    return [torch.zeros(len(eye), len(eye)) if g is None else g[:, 0].detach().cpu() for g in gradients]


def _products(gates: list[Tensor], lags: int) -> Array:
    """Return the product of the last k forget gates (K, D), 1 for k = 0."""
    values = torch.stack([gate[0].detach() for gate in gates[::-1]])[: lags - 1]  # (K − 1, D)
    ones = torch.ones(1, values.shape[1] if len(values) else gates[0].shape[1])
    return np.asarray(torch.cat([ones, values.cumprod(0).cpu()]).numpy())


def forget_bias(cell: Recurrence) -> Array:
    """Return σ(b_f) of an LSTM (D,); nothing for other cells."""
    if not isinstance(cell, Lstm):
        return np.zeros(0)
    return np.asarray(torch.sigmoid(cell.input.bias.detach()[cell.width : 2 * cell.width]).cpu().numpy())


def loss_gradients(model: AnyModel, line: Line, also: Mapping[str, Edit] | None = None) -> tuple[Array, Array]:
    """Return ‖∂ log p of the last step / ∂x‖ at the inputs of encoder (S,) and decoder (T,)."""
    read, written = Root(), Root()
    edits: dict[str, Edit] = {"encode.inputs": read, "decode.inputs": written, **(also or {})}
    with torch.enable_grad(), trace(edits, keep=lambda _: False):
        score = step_log_probs(model, line.batch)[0, -1]
        roots = [root.steps[0] for root in (read, written) if root.steps]
        gradients = torch.autograd.grad(score, roots, allow_unused=True)
    norms = [np.zeros(r.shape[1]) if g is None else g[0].norm(dim=-1).cpu().numpy() for g, r in zip(gradients, roots)]
    if isinstance(model, LanguageModel):
        return np.zeros(0), norms[0]
    if model.encoder.reverse:
        norms[0] = norms[0][::-1]
    return norms[0], norms[1]


def of_line(line: Line, options: Options) -> Plots:
    check_attributed(line.subject, len(line.source_tokens), len(line.target_tokens))
    trained, untrained = line.subject.model, line.subject.untrained()
    plots: dict[str, Plot] = {}
    saturation: list[list[Cell]] = []
    for name, cell in recurrent_layers(trained).items():
        after, before = reach(trained, line, name), reach(untrained, line, name)
        plots[shown_name(name)] = _curves(shown_name(name), cell, recurrent_layers(untrained)[name], after, before)
        saturation += _saturation(name, line)
    if saturation:
        columns = ["layer", "gate", "mean", "closed (below 0.1)", "open (above 0.9)"]
        plots["saturation"] = Table("How far open the gates are", columns, saturation)
    if isinstance(trained, Writer):
        plots |= _of_loss(line, trained, untrained)
    return plots


def _curves(name: str, cell: Recurrence, fresh: Recurrence, after: Reach, before: Reach) -> Curves:
    lags = list(range(len(after.norm)))
    state = "c" if isinstance(cell, Lstm) or after.gates.size else "h"
    series = [Series("trained", after.norm.tolist()), Series("untrained", before.norm.tolist())]
    if after.gates.size:
        low, high = np.quantile(after.gates, [0.1, 0.9], axis=1)
        series.append(
            Series("trained: product of the forget gates", after.gates.mean(1).tolist(), low.tolist(), high.tolist())
        )
        low, high = np.quantile(before.gates, [0.1, 0.9], axis=1)
        series.append(Series("untrained: the same", before.gates.mean(1).tolist(), low.tolist(), high.tolist()))
    bias = forget_bias(fresh)
    if bias.size:
        series.append(Series("σ(b_f)ᵏ before training", [float(np.mean(bias**k)) for k in lags]))
    title = f"{name}: how a state depends on the one k steps before"
    note = "Norms over √D. The shaded band holds 80 % of the units. A curve that falls fast: the gradient vanishes."
    return Curves(title, "lag k", f"‖∂{state}ₜ/∂{state}ₜ₋ₖ‖", lags, series, log=True, note=note)


def _saturation(name: str, line: Line) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for gate in "ifozr":
        noted = line.seen.get(f"{name}.{gate}")
        if noted:
            values = torch.cat([each.flatten() for each in noted])
            closed, opened = (values < 0.1).float().mean(), (values > 0.9).float().mean()
            rows.append([shown_name(name), gate, float(values.mean()), float(closed), float(opened)])
    return rows


def _of_loss(line: Line, trained: AnyModel, untrained: AnyModel) -> dict[str, Plot]:
    """Return the gradient of the last step's loss at every input, with attention and with attention silenced."""
    cases: dict[str, Callable[[], tuple[Array, Array]]] = {
        "trained": lambda: loss_gradients(trained, line),
        "untrained": lambda: loss_gradients(untrained, line),
    }
    if line.seen.get("decode.cross"):
        silent: dict[str, Edit] = {"decode.cross": torch.zeros_like}
        cases["trained, attention silenced"] = lambda: loss_gradients(trained, line, silent)
    each = {name: case() for name, case in cases.items()}
    plots: dict[str, Plot] = {}
    for index, (key, where) in enumerate((("at_source", "the input"), ("at_target", "what was written"))):
        by_lag = {name: gradients[index][::-1].tolist() for name, gradients in each.items()}
        length = len(next(iter(by_lag.values())))
        if length:
            title = f"The loss of the last output symbol, and {where}"
            series = [Series(name, values) for name, values in by_lag.items()]
            plots[key] = Curves(title, "symbols before the end", "‖∂loss/∂x‖", list(range(length)), series, log=True)
    return plots


def why_not(subject: Subject) -> str:
    """Return why gradients cannot be followed."""
    model = subject.predictor.model
    if recurrent_layers(model) or isinstance(model, Writer):
        return ""
    kind = "a CTC model" if isinstance(model, Aligned) else "this model"
    return f"{kind} has no recurrent layer and no decoder: every position is one step away from every other"


VIEW = View(
    "gradients",
    "How far gradients reach",
    "How strongly a state depends on the state k steps before, before and after training, and the loss on each input. "
    "Where the curve falls fast, what is far away cannot be learned.",
    why_not,
    of_line,
)
