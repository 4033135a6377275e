"""Starting from a run of another task (--init): which settings, tokens and weights of it the new run takes.

Settings: the encoder where both runs read text (or both something else of one kind), the decoder where both write text.
Tokens: a text of the new run is cut as that of the other run was, with the symbols that only the new data have added,
unless the other run knows few of them. Weights: what fits by name and shape; of embeddings and of whatever else has a
row for each token, the rows of tokens that both runs know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn

from weft.choose.numbers import NUMBERS
from weft.core.errors import UserError
from weft.core.pair import SPECIALS, UNKNOWN
from weft.data.prepare import Prepared
from weft.data.sides.corrupted import Corrupted, HiddenSymbols
from weft.data.sides.side import Side, cells
from weft.data.sides.sides import Sides
from weft.data.text.tokens import Tokeniser, joined
from weft.learn.model import model_of
from weft.nn.heads import Tokens
from weft.runs.folder import RunFolder
from weft.runs.weights import best_weights
from weft.settings import Layer, implied_kind
from weft.spec import NoDecoder, RecurrentDecoder, Spec
from weft.tasks import TASKS

CHECKED_ROWS = 1000
ROLES = {"target_reader": "target", "head": "target", "context_reader": "context"}  # by part of a model
FEWEST_KNOWN = 0.5  # share of the tokens of a text that the other run has to know for its tokeniser to be kept
CELLS = "decoder.stack.cells.", "encoder.reader.forwards."  # where a language model has them, and an encoder


def tokeniser_of(side: Side | None) -> Tokeniser | None:
    """Return the tokeniser of a side; None where it is not text."""
    if isinstance(side, HiddenSymbols | Corrupted):
        return side.tokeniser
    return side if isinstance(side, Tokeniser) else None


def _reads(sides: Sides) -> str:
    """Return the kind of what an encoder reads; of what is continued where there is none."""
    side = sides.target if sides.alone else sides.source
    return "text" if tokeniser_of(side) is not None else side.kind


def _old_tokeniser(sides: Sides, role: str) -> Tokeniser | None:
    """Return the tokeniser of the same role, or else of another."""
    known = {name: tokeniser_of(side) for name, side in sides.by_role.items()}
    return known.get(role) or known.get("target") or known.get("source")


class Origin:
    """The run that --init names, as a run of another task sees it."""

    def __init__(self, path: Path) -> None:
        self.path, folder = path, RunFolder(path)
        self.spec, self.sides = folder.read_spec(), folder.read_sides()

    def kept(self, prepared: Prepared, given: Layer) -> dict[str, Tokeniser]:
        """Return by role the tokenisers that the new run keeps; not where the user cuts text otherwise."""
        texts = [role for role, kind in prepared.survey.kinds.items() if kind == "text"]
        rows = list(islice(prepared.training(), CHECKED_ROWS))
        tokenisers = {role: old for role in texts if (old := _old_tokeniser(self.sides, role)) is not None}
        return {
            role: old
            for role, old in tokenisers.items()
            if given.get(role, {}).get("tokens") in (None, old.kind)
            and "size" not in given.get(role, {})
            and _known_share(old, cells(rows, role)) >= FEWEST_KNOWN
        }

    def settings(self, prepared: Prepared, task: str, kept: Mapping[str, Tokeniser], given: Layer) -> Layer:
        """Return the settings that let weights fit, where they are of the families that the user has `given`."""
        implied, kinds = TASKS[task].implied, prepared.survey.kinds
        reads = "text" if TASKS[task].corrupts else kinds["source"]
        layer: Layer = {}
        families = {side: implied_kind(side, given) for side in ("encoder", "decoder")}
        encoder = self._encoder()
        if implied.get("encoder.kind") != "none" and reads == _reads(self.sides) and encoder:
            layer |= encoder if families["encoder"] in (None, encoder["encoder"]["kind"]) else {}
        both_write = isinstance(self.sides.target, Tokeniser) and kinds["target"] == "text"
        same = families["decoder"] in (None, self.spec.decoder.kind) and not isinstance(self.spec.decoder, NoDecoder)
        if implied.get("decoder.kind") != "none" and both_write and same:
            layer["decoder"] = self.spec.decoder.model_dump(mode="json")
            if implied.get("encoder.kind") != "none" and self.spec.encoder.kind == "none":
                layer["decoder"].pop("attention")  # a language model has none to keep
        embed = self.spec.embed.model_dump(mode="json", exclude={"shared", "latent"})
        layer["embed"] = embed if {"encoder", "decoder"} & set(layer) else {"width": embed["width"]}
        sizes = {"target": self.spec.target.size, "source": self.spec.source.size}
        one = {"target": self.spec.target.size, "source": self.spec.target.size} if self.spec.one_table else sizes
        for role, old in kept.items():
            layer[role] = {"tokens": old.kind, "size": one.get(role, self.spec.target.size)}
        if self.spec.one_table and {"source", "target"} <= set(kept) and not TASKS[task].alone:
            layer["embed"]["shared"] = True
        if "source" in kept and self._holds_embeddings(task, prepared.survey.pairs):
            layer["train"] = {"freeze": ["embed"]}
        return layer

    def _holds_embeddings(self, task: str, pairs: int) -> bool:
        """Return whether embeddings that the other run started from latent directions, and held, are held here, too.

        A few labels would spoil them for the words that they do not have.
        """
        held = self.spec.embed.latent and "embed" in self.spec.train.freeze
        return held and TASKS[task].target in ("label", "labels") and pairs <= NUMBERS.few_rows

    def _encoder(self) -> Layer:
        """Return the settings of the encoder; a recurrent language model becomes one that reads forward."""
        decoder = self.spec.decoder
        if self.spec.encoder.kind != "none":
            return {"encoder": self.spec.encoder.model_dump(mode="json")}
        if not isinstance(decoder, RecurrentDecoder):
            return {}
        part = {name: getattr(decoder, name) for name in ("kind", "cell", "width", "layers", "layer_norm")}
        return {"encoder": {**part, "directions": "forward"}}

    def join(self, sides: Sides, kept: Mapping[str, Tokeniser], spec: Spec) -> Sides:
        """Return the sides of the new run with the symbols of the tokenisers that are kept."""
        target, source, context = sides.target, sides.source, sides.context
        if "target" in kept and isinstance(target, HiddenSymbols):
            target = HiddenSymbols(joined(kept["target"], target.tokeniser))
        elif "target" in kept and isinstance(target, Tokeniser):
            target = joined(kept["target"], target)
        if "source" in kept and isinstance(source, Tokeniser):
            source = joined(kept["source"], source)
        if "context" in kept and isinstance(context, Tokeniser):
            context = source if spec.context.shared else joined(kept["context"], context)
        return replace(sides, source=source, target=target, context=context)


def _known_share(tokeniser: Tokeniser, texts: Sequence[str]) -> float:
    """Return the share of the tokens of some texts that a tokeniser knows."""
    ids = [symbol for row in tokeniser.encode_all(texts) for symbol in row]
    return 1 - ids.count(UNKNOWN) / max(1, len(ids))


@dataclass(frozen=True)
class Taken:
    """A tensor of the new model, the tensor of the other run that it takes, and which rows, if not all."""

    new: str
    old: str
    rows: tuple[list[int], list[int]] | None = None  # in the new one, and in the old one


@dataclass(frozen=True)
class Transfer:
    """All that a new model takes, and the names of its tensors that it does not."""

    taken: list[Taken]
    left: list[str]
    vocabulary: int  # tokens of the largest table

    def apply(self, weights: Mapping[str, Tensor], model: nn.Module) -> None:
        """Copy the weights into the model."""
        parameters = dict(model.named_parameters())
        with torch.no_grad():
            for each in self.taken:
                if each.rows is None:
                    parameters[each.new].copy_(weights[each.old])
                else:
                    new, old = each.rows
                    parameters[each.new][new] = weights[each.old][old].to(parameters[each.new])

    def described(self) -> list[str]:
        """Return one or two sentences: what is taken, and what is not."""
        tokens = [len(each.rows[0]) for each in self.taken if each.rows is not None and _part(each.new) == "embeddings"]
        counts, left = Counter(_part(each.new) for each in self.taken), Counter(map(_part, self.left))
        names = [
            f"embeddings of {max(tokens):,} of {self.vocabulary:,} tokens" if name == "embeddings" and tokens else name
            for name in counts
        ]
        partly = [
            f"{left[name]} of {left[name] + counts[name]} tensors of the {name}" for name in left if name in counts
        ]
        missing = [*(name for name in left if name not in counts), *partly]
        lines = [f"takes {', '.join(names)}"]
        return [*lines, f"starts the rest from random weights ({', '.join(missing)})"] if missing else lines


def _part(name: str) -> str:
    """Return what a tensor belongs to, in words."""
    if name.endswith("table.weight"):
        return "embeddings"
    first = name.partition(".")[0]
    return {"source_reader": "encoder", "target_reader": "decoder", "context_reader": "context"}.get(first, first)


def transfer(origin: Origin, weights: Mapping[str, Tensor], spec: Spec, sides: Sides) -> Transfer:
    """Return what a model of these settings takes from the weights of another run."""
    with torch.device("meta"):  # shapes without numbers
        model = model_of(spec, sides)
    forward = origin.spec.encoder.kind == "none"
    taken, left = [], []
    for name, parameter in model.named_parameters():
        each = _matched(name, tuple(parameter.shape), model, origin.sides, weights, sides, forward)
        left.append(name) if each is None else taken.append(each)
    sizes = [len(t) for side in sides.by_role.values() if (t := tokeniser_of(side)) is not None]
    return Transfer(taken, left, max(sizes, default=0))


def _matched(
    name: str,
    shape: tuple[int, ...],
    model: nn.Module,
    old_sides: Sides,
    weights: Mapping[str, Tensor],
    sides: Sides,
    forward: bool,
) -> Taken | None:
    """Return where a tensor of the new model comes from; None: from nowhere."""
    head = model.head
    if name.endswith("table.weight") or (isinstance(head, Tokens) and name in ("head.weight", "head.bias")):
        return _rows_of(name, shape, old_sides, weights, sides)
    part = name.partition(".")[0]
    if part in ("encoder", "source_reader") and _reads(sides) != _reads(old_sides):
        return None
    if part == "head" and not (isinstance(head, Tokens) and "head.bias" in weights):
        return None
    old = name.replace(CELLS[1], CELLS[0]) if forward and name not in weights else name
    return Taken(name, old) if old in weights and tuple(weights[old].shape) == shape else None


def _rows_of(
    name: str, shape: tuple[int, ...], old_sides: Sides, weights: Mapping[str, Tensor], sides: Sides
) -> Taken | None:
    """Return the rows of tokens that both runs know; None if there are none."""
    role = ROLES.get(name.partition(".")[0], "source")
    tables = [f"{role}_reader.table.weight", "source_reader.table.weight", "target_reader.table.weight"]
    wanted = [name] if name == "head.bias" else [*([name] if name == "head.weight" else []), *tables]
    for old in (each for each in wanted if each in weights and tuple(weights[each].shape[1:]) == shape[1:]):
        old_role = "target" if old.startswith(("target_reader", "head")) else "source"
        ours, theirs = tokeniser_of(sides.by_role[role]), tokeniser_of(old_sides.by_role[old_role])
        if ours is None or theirs is None or len(theirs) != len(weights[old]):
            continue
        rows = _common(ours.names, theirs.names)
        if len(rows[0]) > len(SPECIALS):
            return Taken(name, old, rows)
    return None


def _common(ours: Sequence[str], theirs: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the ids of tokens that both have, by name; a name that stands for several tokens is left out."""
    if list(ours) == list(theirs):
        return list(range(len(ours))), list(range(len(ours)))
    first, often = len(SPECIALS), Counter(ours[len(SPECIALS) :]) + Counter(theirs[len(SPECIALS) :])
    ids = {name: number for number, name in enumerate(theirs) if number >= first}
    both = [(n, ids[name]) for n, name in enumerate(ours) if n >= first and name in ids and often[name] == 2]
    return [*range(first), *(new for new, _ in both)], [*range(first), *(old for _, old in both)]


def check_transfer(found: Transfer, origin: Origin, task: str) -> None:
    """Refuse a run that shares nothing with the new one."""
    if not found.taken:
        raise UserError(
            f"nothing of the run that --init names (--task {origin.spec.task}) fits this run (--task {task})",
            str(origin.path),
            "start from a run that reads or writes data of this kind, or leave --init out",
        )


def transfer_weights(init: Path, spec: Spec, sides: Sides, model: nn.Module) -> None:
    """Put the weights that fit into a new model."""
    origin, weights = Origin(init), best_weights(RunFolder(init))
    transfer(origin, weights, spec, sides).apply(weights, model)
