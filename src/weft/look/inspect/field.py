"""View: which positions can reach a node at layer n, and which do.

A head that looks at one position alone hands on what that position holds; with k such heads and the residual
connection, a node at layer n holds at most (k+1)ⁿ positions. With softmax every position can reach every node; how many
do is told by the gradient: the exponential of the entropy of ‖∂hⁿₜ/∂xₛ‖².
"""

# L layers · H heads · T positions · D width

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from weft.core.trace import Edit, trace
from weft.look.inspect.gradients import Captured, Root, recurrent_layers
from weft.look.inspect.plots import Array, Cell, Heat, Panel, Plot, Plots, Table
from weft.look.inspect.subject import Line, Subject
from weft.look.inspect.views import Options, View, check_attributed

PROBES = 8  # random directions by which the norm of a Jacobian is estimated


def why_not(subject: Subject) -> str:
    """Return why there is no field: a model without layers over positions has none."""
    return "" if _names(subject) else "this model has no layers over the positions of its input"


def _names(subject: Subject) -> list[str]:
    """Return the part whose field is shown: the encoder, or the decoder of a language model."""
    part, layers = ("decode", subject.spec.decoder) if subject.is_language_model else ("encode", subject.spec.encoder)
    return [] if layers.kind == "none" else [f"{part}.{number}" for number in range(layers.layers)]


def reached(looked: Array) -> list[list[frozenset[int]]]:
    """Return for each layer and position the positions whose content a node holds.

    `looked` (L, H, T) is the one position that each head looks at. Layer 0 of the result is the input itself.
    """
    nodes = [[frozenset([t]) for t in range(looked.shape[2])]]
    for heads in looked.astype(int):
        below = nodes[-1]
        nodes.append([below[t].union(*(below[heads[h, t]] for h in range(len(heads)))) for t in range(len(below))])
    return nodes


def effective(line: Line) -> list[Array]:
    """Return the squared norms ‖∂hⁿₜ/∂xₛ‖² of every layer n, as shares of each row (T, S)."""
    subject, model = line.subject, line.subject.model
    root = Root()
    where = "decode.inputs" if subject.is_language_model else "encode.inputs"
    each = {name: _captured(subject, name) for name in _names(subject)}
    edits: dict[str, Edit] = {where: root}
    for parts in each.values():
        edits |= parts
    with torch.enable_grad(), trace(edits, keep=lambda _: False):
        model(line.batch)
    return [_shares(list(parts), root) for parts in (_states(parts) for parts in each.values())]


def _captured(subject: Subject, name: str) -> dict[str, Captured]:
    cells = [cell for cell in recurrent_layers(subject.model) if cell == name or cell.startswith(f"{name}.")]
    return {f"{cell}.h": Captured() for cell in cells} or {f"{name}.h": Captured()}


def _states(parts: dict[str, Captured]) -> list[torch.Tensor]:
    """Return the states of every position of a layer, both directions together."""
    by_direction = []
    for name, captured in parts.items():
        steps = captured.steps
        each = list(steps[0][0]) if len(steps) == 1 and steps[0].dim() == 3 else [step[0] for step in steps]
        by_direction.append(each[::-1] if ".backward" in name else each)
    return [torch.cat(both) for both in zip(*by_direction, strict=True)]


def _shares(states: Sequence[torch.Tensor], root: Root) -> Array:
    (vectors,) = root.steps
    generator = torch.Generator().manual_seed(1)
    rows = []
    for state in states:
        drawn = torch.randn(PROBES, *state.shape, generator=generator).to(state)
        gradient = torch.autograd.grad(state, vectors, drawn, is_grads_batched=True, retain_graph=True)[0]
        rows.append((gradient[:, 0] ** 2).sum((0, -1)).cpu().numpy())  # (S,)
    shares = np.stack(rows)
    return np.asarray(shares / np.maximum(shares.sum(1, keepdims=True), 1e-30))


def size(shares: Array) -> float:
    """Return how many positions count, mean over rows: the exponential of the entropy of the shares."""
    positive = np.where(shares > 0, shares, 1.0)
    return float(np.exp(-(shares * np.log(positive)).sum(1)).mean())


def of_line(line: Line, options: Options) -> Plots:
    subject = line.subject
    tokens = line.given_tokens if subject.is_language_model else line.attended_tokens[: len(line.source_tokens)]
    check_attributed(subject, len(tokens))
    shares = effective(line)
    plots: dict[str, Plot] = {"sizes": _sizes(line, shares)}
    panels = [Panel(f"layer {number + 1}", each) for number, each in enumerate(shares)][::-1]
    plots["gradients"] = Heat(
        "Which positions reach a node", tokens, tokens, panels, "node", "input", "share", "Shares of ‖∂h/∂x‖²."
    )
    return plots


def _sizes(line: Line, shares: Sequence[Array]) -> Table:
    noted = line.seen.get("decode.self" if line.subject.is_language_model else "encode.self") or []
    rows: list[list[Cell]] = []
    sets = reached(np.stack([each[0].argmax(-1).cpu().numpy() for each in noted])) if noted else []
    for number, each in enumerate(shares):
        heads = noted[number].shape[1] if noted else 0
        counts = [len(node) for node in sets[number + 1]] if sets else []
        rows.append(
            [
                number + 1,
                size(each),
                float(np.mean(counts)) if counts else None,
                max(counts) if counts else None,
                (heads + 1) ** (number + 1) if heads else None,
                each.shape[1],
            ]
        )
    columns = ["layer", "effective (gradient)", "argmax heads: mean", "largest", "bound (k+1)ⁿ", "positions"]
    note = "Argmax heads: the exact set of positions if every head handed on only the position it looks at most."
    none = "This encoder is recurrent: every position before a node can reach it, so only the gradient counts."
    return Table("How many positions reach a node", columns, rows, note if sets else none)


VIEW = View(
    "field",
    "Receptive field",
    "Which positions can reach a node of each layer if heads look at one position alone, against (k+1)ⁿ, and which do "
    "reach it, by the gradient.",
    why_not,
    of_line,
)
