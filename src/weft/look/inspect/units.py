"""What single units of a model do over texts: the states of every layer, position by position.

A unit is named as on the page: `decode.1.c.17` is number 17 of the cell states of the decoder's first layer;
`encode.2.backward.h.3` one of a bidirectional encoder. Layers and units are counted from 1.
"""

# N positions of all lines · B lines · T length · D width

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from weft.core.errors import UserError
from weft.core.kinds import Batch, Column
from weft.core.pair import START, UNKNOWN, Pair
from weft.core.trace import trace
from weft.data.sides.side import Side
from weft.data.text.tokens import Tokeniser
from weft.look.inspect.limits import MOST_STATE_NUMBERS, MOST_TEXT
from weft.look.inspect.plots import Array
from weft.look.inspect.subject import Subject
from weft.nn.assemble import AnyModel
from weft.nn.model import LanguageModel, Seq2Seq

Ints = npt.NDArray[np.int64]
NOTED = re.compile(r"(encode|decode)\.(\d+)\.((?:forward|backward)\.)?([a-z])")
UNIT = re.compile(r"((?:encode|decode)\.\d+\.(?:(?:forward|backward)\.)?[a-z])\.(\d+)")
STATES, GATES = "hc", "ifozr"
AT_ONCE = 64  # lines in a batch
STRETCH = 500  # symbols of a running text that are read at once, with the state carried on


@dataclass(frozen=True)
class Reading:
    """The states of a model's units over some lines: of its encoder over the inputs, or of its decoder."""

    part: str  # encode or decode
    tokens: list[str]  # (N,)
    texts: list[str]  # of the lines
    ends: Ints | None  # (N,) how many characters of its line's text have been read; None for what is no text
    line: Ints  # (N,) the number of the line
    states: Mapping[str, Array]  # by layer, (N, D)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def names(self) -> list[str]:
        """The names of all units, in the order of `matrix`."""
        return [f"{layer}.{unit}" for layer, each in self.states.items() for unit in range(1, each.shape[1] + 1)]

    @property
    def matrix(self) -> Array:
        """The states of all units together (N, D)."""
        return np.concatenate(list(self.states.values()), axis=1)

    def unit(self, name: str) -> Array:
        """Return what one unit does (N,)."""
        layer, number = split_unit(name)
        return self.states[layer][:, number - 1]


def split_unit(name: str) -> tuple[str, int]:
    """Return the layer and the number of a unit."""
    match = UNIT.fullmatch(name)
    if match is None:
        todo = "write decode.1.h.17: unit 17 of the hidden states of the decoder's first layer (c: cell states)"
        raise UserError(f"{name!r} is not the name of a unit", "--unit", todo)
    return match[1], int(match[2])


def noted_name(layer: str) -> str:
    """Return the name under which a model notes the states of a layer, whose layers count from 0."""
    part, number, *rest = layer.split(".")
    return ".".join([part, str(int(number) - 1), *rest])


def shown_name(noted: str) -> str:
    """Return the name of a layer as the page shows it."""
    part, number, *rest = noted.split(".")
    return ".".join([part, str(int(number) + 1), *rest])


def is_noted(name: str, part: str, kinds: str = STATES) -> bool:
    """Return whether a note holds states (or gates) of the encoder or the decoder."""
    match = NOTED.fullmatch(name)
    return match is not None and match[1] == part and match[4] in kinds


def parts_of(subject: Subject) -> list[str]:
    """Return which parts have units: an encoder, a decoder, or both."""
    spec = subject.spec
    parts = [] if subject.is_language_model or spec.encoder.kind == "none" else ["encode"]
    return [*parts, "decode"] if subject.has_decoder else parts


def check_units(subject: Subject, pairs: Sequence[Pair], names: Sequence[str]) -> None:
    """Refuse a unit that no part of the model has, and say which there are."""
    if not names:
        return
    states = [read(subject, subject.model, pairs[:1], part).states for part in parts_of(subject)]
    widths = {layer: values.shape[1] for each in states for layer, values in each.items()}
    for name in names:
        layer, number = split_unit(name)
        if not 1 <= number <= widths.get(layer, 0):
            known = ", ".join(f"{each}.1 to {each}.{width}" for each, width in widths.items())
            raise UserError(f"there is no unit {name!r}", "--unit", f"choose from {known}")


@dataclass(frozen=True)
class _Lines:
    """Lines that were read together: what each position is, and the states there (B, T, D)."""

    numbers: Sequence[int]  # of the lines
    ids: Tensor  # (B, T) or (B, T, F)
    mask: Tensor  # (B, T)
    states: Mapping[str, Tensor]


def read(
    subject: Subject, model: AnyModel, pairs: Sequence[Pair], part: str, most: int = MOST_TEXT, kinds: str = STATES
) -> Reading:
    """Return what the units of a part do over the first lines: at most so many symbols, or as many as memory allows."""
    sides = subject.sides
    side, texts = (
        (sides.source, [p.source for p in pairs]) if part == "encode" else (sides.target, [p.target for p in pairs])
    )
    allowed = min(most, MOST_STATE_NUMBERS // _width(subject))
    counts = np.cumsum([len(text) + 1 for text in texts])
    pairs = pairs[: max(1, int(np.searchsorted(counts, allowed, side="right")))]
    groups = list(_groups(subject, model, pairs, part, kinds))
    order = np.argsort([number for group in groups for number in group.numbers], kind="stable")
    where = [(group, row) for group in groups for row in range(len(group.numbers))]
    tokens, lines, ends = list[str](), list[int](), list[int]()
    states: dict[str, list[Array]] = defaultdict(list)
    for group, row in (where[i] for i in order):
        number, real = group.numbers[row], group.mask[row]
        for name, values in group.states.items():
            states[name].append(values[row][real].float().cpu().numpy())
        count, ids = int(real.sum()), group.ids[row]
        names = subject.names(side, ids[: len(real)][real[: len(ids)]], pairs[number].source)
        tokens += names if len(names) == count else [f"frame {i}" for i in range(1, count + 1)]
        lines += [number] * count
        ends += _ends(side, ids.tolist(), texts[number])[:count] if ids.dim() == 1 else []
    known = np.array(ends, dtype=np.int64) if len(ends) == len(tokens) else None
    together = {name: np.concatenate(each) for name, each in states.items()}
    return Reading(part, tokens, texts[: len(pairs)], known, np.array(lines, dtype=np.int64), together)


def _width(subject: Subject) -> int:
    """Return about how many numbers there are for each symbol."""
    return sum(
        2 * part.width * max(1, part.layers)
        for part in (subject.spec.encoder, subject.spec.decoder)
        if part.kind != "none"
    )


def _ends(side: Side, ids: Sequence[int], text: str) -> list[int]:
    """Return how many characters of a text have been read after each symbol; marks and END read none."""
    if not isinstance(side, Tokeniser) or side.backward:
        return []
    try:
        offsets = iter(side.offsets(text))
    except NotImplementedError:
        return []
    ends, read_so_far = [], 0
    for i in ids:
        if i >= side.first or i == UNKNOWN:
            read_so_far = next(offsets, (0, len(text)))[1]
        ends.append(read_so_far)
    return ends


def _groups(subject: Subject, model: AnyModel, pairs: Sequence[Pair], part: str, kinds: str) -> Iterator[_Lines]:
    if part == "encode":
        yield from _encoded(subject, model, pairs, kinds)
    elif isinstance(model, LanguageModel) and subject.sides.running is not None:
        yield from _running(subject, model, pairs, kinds)
    else:
        yield from _decoded(subject, model, pairs, kinds)


def _encoded(subject: Subject, model: AnyModel, pairs: Sequence[Pair], kinds: str) -> Iterator[_Lines]:
    """Read inputs with the encoder, lines of equal length together: padding would change the order of the steps."""
    rows = subject.sides.inputs(pairs).source
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        by_length[len(row)].append(number)
    for numbers in by_length.values():
        for first in range(0, len(numbers), AT_ONCE):
            chosen = numbers[first : first + AT_ONCE]
            batch = subject.batch([pairs[i] for i in chosen])
            source = batch.source
            if isinstance(model, Seq2Seq) and model.prompted:
                source = Column(source.values[:, 1:], source.mask[:, 1:])
            with torch.no_grad(), trace(keep=lambda name: is_noted(name, "encode", kinds)) as seen:
                memory = model.encode(source, batch.context)
            turned = model.encoder.reverse
            states = {shown_name(n): _over_time(each, ".backward" in n or turned) for n, each in seen.items()}
            mask = memory.mask
            length = min([mask.shape[1], *(values.shape[1] for values in states.values())])
            yield _Lines(chosen, source.values, mask[:, :length], {n: v[:, :length] for n, v in states.items()})


def _decoded(subject: Subject, model: AnyModel, pairs: Sequence[Pair], kinds: str) -> Iterator[_Lines]:
    """Read right outputs with the decoder: a state belongs to the symbol that was read last, so START is left out."""
    for first in range(0, len(pairs), AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, len(pairs)))
        batch = subject.batch([pairs[i] for i in numbers])
        with torch.no_grad(), trace(keep=lambda name: is_noted(name, "decode", kinds)) as seen:
            model.decode(batch)
        states = {shown_name(name): _over_time(each)[:, 1:] for name, each in seen.items()}
        yield _Lines(numbers, batch.given.values[:, 1:], batch.given.mask[:, 1:], states)


def _running(subject: Subject, model: LanguageModel[Any], pairs: Sequence[Pair], kinds: str) -> Iterator[_Lines]:
    """Read a running text: with the state carried on where the model learned that way, else in windows."""
    running = subject.sides.running
    assert running is not None
    rows = subject.sides.encode(pairs).target
    state = model.start(1, subject.device)
    begun = False
    for number, row in enumerate(rows):
        each: dict[str, list[Tensor]] = defaultdict(list)
        ids = [int(i) for i in row]
        stretch = STRETCH if running.carried else running.window
        for first in range(0, len(ids), stretch):
            fresh = not (running.carried and begun)
            given = torch.tensor([[*([START] if fresh else []), *ids[first : first + stretch]]], device=subject.device)
            state = model.start(1, subject.device) if fresh else state
            column = Column(given, torch.ones_like(given, dtype=torch.bool))
            with torch.no_grad(), trace(keep=lambda name: is_noted(name, "decode", kinds)) as seen:
                state = model.decode_from(Batch(Column.of_nothing(1), column, column), state)[2]
            for name, noted in seen.items():
                each[shown_name(name)].append(_over_time(noted)[:, 1 if fresh else 0 :])
            begun = True
        values = torch.tensor([ids], device=subject.device)
        states = {name: torch.cat(parts, dim=1) for name, parts in each.items()}
        if ids:
            yield _Lines([number], values, torch.ones_like(values, dtype=torch.bool), states)


def _over_time(noted: Sequence[Tensor], turned: bool = False) -> Tensor:
    """Return states (B, T, D) of what was noted at each step (B, D), or of all steps at once."""
    states = noted[0] if noted[0].dim() == 3 else torch.stack(list(noted), dim=1)
    return states.flip(1) if turned else states
