"""View: where the task is stored. One part of the model is reset or swapped, and the table is decoded again.

Weights are reset to what they were before training. What is computed for each line (the handed-over state, the
attention) is swapped with that of another line, or made even. Effects come with 95 % intervals over the lines.
"""

# N lines · B batch

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from weft.core.kinds import Memory
from weft.core.pair import Pair
from weft.core.trace import Edit, trace
from weft.look.inspect.encodings import handed_over, has_bottleneck
from weft.look.inspect.limits import MOST_MEASURED
from weft.look.inspect.plots import Cell, Plots, Table
from weft.look.inspect.statistics import LEAST_LINES, ratio_interval
from weft.look.inspect.subject import Subject
from weft.look.inspect.views import DoesNotApply, Material, View
from weft.nn.assemble import AnyModel
from weft.nn.decoders.recurrent import RecurrentDecoder
from weft.nn.model import Seq2Seq, Writer

DECODED = 50  # lines that are decoded again
LEAST = 2  # lines: a state is swapped with that of another
CHILDREN = {  # parts of a model by the name of the attribute
    "source_reader": "input embeddings",
    "encoder": "encoder weights",
    "context_reader": "weights that read the context",
    "bridge": "weights of the bridge",
    "target_reader": "output embeddings",
    "pool": "weights of the pool",
    "decoder": "decoder weights",
    "head": "weights of the output layer",
}
MAPS = {"decode.cross": "attention to the input", "encode.self": "self-attention of the encoder"}
MAPS |= {"decode.self": "self-attention of the decoder", "pool.query": "attention of the pool"}


@dataclass(frozen=True)
class Treatment:
    """A change of one part: a model with that change, or edits of what a model notes."""

    part: str
    change: str
    model: AnyModel
    edits: Mapping[str, Edit] = field(default_factory=dict)


class Handed(nn.Module):
    """A bridge whose result is changed."""

    def __init__(self, bridge: nn.Module, change: Callable[[Memory], Memory]) -> None:
        super().__init__()
        self.bridge, self.change = bridge, change

    def forward(self, memory: Memory) -> Memory:
        return self.change(self.bridge(memory))


def treatments(subject: Subject, pair: Pair) -> list[Treatment]:
    """Return every change that this model allows; the pair is read to see which attention there is."""
    attention = [Treatment(MAPS[name], "even weights", subject.model, {name: even}) for name in maps_in(subject, pair)]
    return [*_resets(subject), *_of_state(subject), *attention]


def maps_in(subject: Subject, pair: Pair) -> list[str]:
    """Return the kinds of attention that the model notes."""
    with torch.no_grad(), trace(keep=MAPS.__contains__) as seen:
        subject.model(subject.batch([pair]))
    return [name for name in MAPS if name in seen]


def _resets(subject: Subject) -> list[Treatment]:
    """Return models with the weights of one part as they were before training."""
    fresh = dict(subject.untrained().named_parameters())
    groups: dict[str, list[str]] = {}
    for name, _ in subject.model.named_parameters():
        groups.setdefault(_part(name), []).append(name)
    each = []
    for part, names in groups.items():
        model = _copy(subject)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if name in names:
                    weight.copy_(fresh[name])
        each.append(Treatment(part, "reset", model))
    return each


def _part(name: str) -> str:
    """Return which part a parameter belongs to; the weights of attention over the source are one of their own."""
    first, *rest = name.split(".")
    if first == "decoder" and ("attention" in rest or "cross" in rest):
        return "attention weights"
    return CHILDREN.get(first, first)


def _copy(subject: Subject) -> AnyModel:
    model = subject.untrained()
    model.load_state_dict(subject.model.state_dict())
    return model


def _of_state(subject: Subject) -> list[Treatment]:
    """Return models that hand over the state of another line, or nothing."""
    model = subject.model
    if not isinstance(model, Seq2Seq):
        return []
    changes: dict[tuple[str, str], Callable[[Memory], Memory]] = {}
    if isinstance(model.decoder, RecurrentDecoder):
        changes["handed-over state", "of another line"] = lambda memory: _with_final(memory, lambda x: x.roll(1, 0))
        changes["handed-over state", "zeros"] = lambda memory: _with_final(memory, torch.zeros_like)
    if not has_bottleneck(model):
        changes["attended states", "of another line"] = lambda memory: replace(
            memory, states=memory.states.roll(1, 0), mask=memory.mask.roll(1, 0)
        )
    each = []
    for (part, change), act in changes.items():
        copy = _copy(subject)
        assert isinstance(copy, Seq2Seq)
        copy.bridge = Handed(copy.bridge, act)
        each.append(Treatment(part, change, copy))
    return each


def _with_final(memory: Memory, act: Callable[[Tensor], Tensor]) -> Memory:
    return replace(memory, final=tuple(map(act, memory.final)), cells=tuple(map(act, memory.cells)))


def even(weights: Tensor) -> Tensor:
    """Return the same weight for every position that has any."""
    allowed = (weights > 0).to(weights.dtype)
    return allowed / allowed.sum(-1, keepdim=True).clamp(min=1)


@dataclass(frozen=True)
class Effect:
    """The loss gained by a change, in nats per symbol, and the share of outputs that were right before and are not."""

    loss: tuple[float, float, float]  # with its interval
    changed: float | None  # share of outputs that are not the same any more
    right: tuple[float, float, float] | None  # change of the share that is right, with its interval


class Measured:
    """The table under the unchanged model, with which every change is compared."""

    def __init__(self, subject: Subject, pairs: Sequence[Pair]) -> None:
        self.subject, self.pairs = subject, pairs
        self.decodes = (subject.writes_text or not subject.has_decoder) and not subject.is_language_model
        self.losses, self.symbols = self._losses(subject.model, {})
        self.outputs = self._outputs(subject.model, {})

    def effect(self, treatment: Treatment) -> Effect:
        """Return what a change does to the loss and the outputs."""
        losses, _ = self._losses(treatment.model, treatment.edits)
        gained = [after - before for after, before in zip(losses, self.losses, strict=True)]
        loss = ratio_interval(gained, self.symbols)
        if not self.decodes:
            return Effect(loss, None, None)
        outputs = self._outputs(treatment.model, treatment.edits)
        pairs = self.pairs[:DECODED]
        better = [(a in p.targets) - (b in p.targets) for a, b, p in zip(outputs, self.outputs, pairs, strict=True)]
        changed = float(np.mean([a != b for a, b in zip(outputs, self.outputs, strict=True)]))
        return Effect(loss, changed, ratio_interval([float(x) for x in better], [1.0] * len(better)))

    def _losses(self, model: AnyModel, edits: Mapping[str, Edit]) -> tuple[list[float], list[float]]:
        """Return −log p of each right output, and how many symbols it has."""
        predictor = self.subject.with_model(model)
        with trace(edits, keep=lambda _: False) if edits else nullcontext():
            if isinstance(model, Writer):
                scores = predictor.step_scores(self.pairs)
                return [-sum(each) for each in scores], [float(len(each)) for each in scores]
            return [-each for each in predictor.log_probs(self.pairs)], [1.0] * len(self.pairs)

    def _outputs(self, model: AnyModel, edits: Mapping[str, Edit]) -> list[str]:
        if not self.decodes:
            return []
        predictor = self.subject.with_model(model)
        search = self.subject.spec.search.model_copy(update={"kind": "greedy"})
        with trace(edits, keep=lambda _: False) if edits else nullcontext():
            predictions = predictor.predict(self.pairs[:DECODED], predictor.plan(search))
        return [prediction.outputs[0].text for prediction in predictions]


def of_all(material: Material) -> Plots:
    subject, pairs = material.subject, list(material.pairs)[:MOST_MEASURED]
    if len(pairs) < LEAST or not all(pair.target for pair in pairs):
        raise DoesNotApply(f"this view needs at least {LEAST} lines", "give several inputs, or --table FILE")
    measured = Measured(subject, pairs)
    every = [(treatment, measured.effect(treatment)) for treatment in treatments(subject, pairs[0])]
    return {"effects": _effects(measured, every), "fixed": _fixed(subject, pairs)}


def _effects(measured: Measured, every: Sequence[tuple[Treatment, Effect]]) -> Table:
    rows: list[list[Cell]] = []
    for treatment, effect in sorted(every, key=lambda each: -each[1].loss[0]):
        row: list[Cell] = [treatment.part, treatment.change, *effect.loss]
        if effect.changed is not None and effect.right is not None:
            row += [100 * effect.changed, *(100 * share for share in effect.right)]
        rows.append(row)
    columns = ["part", "change", "increase in loss", "from", "to"]
    columns += ["outputs changed (%)", "right (points)", "from", "to"] if measured.decodes else []
    loss = sum(measured.losses) / max(1.0, sum(measured.symbols))
    note = f"Nats per symbol over {len(measured.pairs)} lines; unchanged, the loss is {loss:.3f}."
    if measured.decodes:
        note += f" The first {len(measured.outputs)} lines were decoded again, greedily."
    warn = [index for index, row in enumerate(rows) if isinstance(row[3], float) and row[3] > 0]
    title = "Effect of resetting or replacing one part"
    if len(measured.pairs) < LEAST_LINES:
        kept = [index for index, name in enumerate(columns) if name not in ("from", "to")]
        few = f"{note} These are too few lines for intervals (at least {LEAST_LINES})."
        return Table(title, [columns[i] for i in kept], [[row[i] for i in kept] for row in rows], few)
    return Table(title, columns, rows, f"{note} Intervals are of 95 %.", warn, marks="their interval is above 0")


def _fixed(subject: Subject, pairs: Sequence[Pair]) -> Table:
    """Return what is the same for every line, and what is computed anew."""
    counts: dict[str, int] = {}
    for name, weight in subject.model.named_parameters():
        counts[_part(name)] = counts.get(_part(name), 0) + weight.numel()
    rows: list[list[Cell]] = [[part, count, "no", 0.0] for part, count in counts.items()]
    states = handed_over(subject, subject.model, pairs)
    spread = float(states.var(0).sum() / max(1e-12, (states**2).mean(0).sum()))
    name = "state after the text" if subject.is_language_model else "handed-over state"
    rows.append([name, states.shape[1], "yes", spread])
    rows += [[MAPS[name], None, "yes", None] for name in maps_in(subject, pairs[0])]
    note = (
        "Weights are fixed after training. Spread: the share of a state's mean square that is due to differences "
        "between lines."
    )
    return Table("What changes at inference", ["part", "numbers", "changes with the input", "spread"], rows, note)


VIEW = View(
    "storage",
    "Where the task is stored",
    "Each part of the model in turn loses what it has learned (weights as before training) or holds (the handed-over "
    "state of another line, even attention): what that does to the loss and to the outputs of a table.",
    of_all=of_all,
)
