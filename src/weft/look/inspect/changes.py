"""Changes to an input, an output or the inside of a model, written as text: `input:3=x`, `head:cross.1.2`, …

Positions, layers, heads and units are counted from 1, as the page shows them.
"""

# N hypotheses · B lines · H heads · T steps · S source length · D width

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from weft.core.errors import UserError
from weft.core.trace import Edit

FORMS = {
    "input:3=x": "replace the third input symbol by x",
    "input:3=": "leave it out",
    "output:2=y": "write y as the second output symbol, then go on",
    "attention:4=2": "while the fourth symbol is written, look at the second input symbol alone (2+3: at both alike)",
    "head:cross.1.2": "silence head 2 of layer 1 of the map cross (or encoder, decoder)",
    "unit:decode.1.17": "silence unit 17 of layer 1 of the decoder (of a recurrent encoder: encode.1.forward.17)",
}
PATTERN = re.compile(
    r"(input|output|attention):(\d{1,6})=(.*)|(head|unit):([a-z]+)\.(\d{1,4})\.((?:[a-z]+\.)?)(\d{1,6})"
)
NOTES = {"cross": "decode.cross", "encoder": "encode.self", "decoder": "decode.self"}


@dataclass(frozen=True)
class Change:
    """One change: what, where, and with what."""

    text: str
    kind: str
    position: int = 0  # from 0
    value: str = ""
    part: str = ""  # the map of a head, or encode or decode
    direction: str = ""  # of the layer of a recurrent encoder
    number: int = 0  # of the head or the unit, from 0


def parse(text: str) -> Change:
    """Return a change; UserError for text that is none."""
    match = PATTERN.fullmatch(text)
    if match is not None and (match[2] or match[6]) and "0" in (match[2], match[6], match[8]):
        what = "positions, layers, heads and units are counted from 1, so there is no 0"
        raise UserError(what, f"--what-if {text}", f"write {text.split(':')[0]}:1… or more")
    if match is None or match[2] == "0" or "0" in (match[6], match[8]):
        forms = ", ".join(FORMS)
        raise UserError(f"{text!r} is not a change", "--what-if", f"write one of these forms: {forms}")
    if match[1]:
        return Change(text, match[1], int(match[2]) - 1, match[3])
    if match[4] == "head" and (match[5] not in NOTES or match[7]):
        raise UserError(
            f"{match[5]!r} is not an attention of this model", f"--what-if {text}", f"choose from {', '.join(NOTES)}"
        )
    if match[4] == "unit" and match[5] not in ("encode", "decode"):
        raise UserError(f"{match[5]!r} is not a part", f"--what-if {text}", "choose from encode, decode")
    return Change(text, match[4], int(match[6]) - 1, "", match[5], match[7].rstrip("."), int(match[8]) - 1)


@dataclass
class AtCall:
    """Changes what is noted at some calls: a layer is every n-th call, a step the next round of all layers."""

    layers: int
    act: Callable[[Tensor, int, int], Tensor]  # value, step, layer
    calls: int = field(default=0)

    def __call__(self, value: Tensor) -> Tensor:
        step, layer = divmod(self.calls, self.layers)
        self.calls += 1
        return self.act(value, step, layer)


def model_edits(change: Change, layers: Mapping[str, int], columns: int) -> dict[str, Edit]:
    """Return the edits of the model that a change asks for, for decoding step by step; none for other changes.

    `layers` has the number of layers of each map, `columns` that of the source positions.
    """
    if change.kind == "head":
        return {NOTES[change.part]: AtCall(layers.get(change.part, 1), silence_head(change.position, change.number))}
    if change.kind == "unit":
        middle = f".{change.direction}" if change.direction else ""
        return {f"{change.part}.{change.position}{middle}.h": silence_unit(change.number)}
    if change.kind == "attention":
        row = _row(change, columns)
        return {
            "decode.cross": AtCall(
                layers.get("cross", 1), lambda value, step, _: _put(value, row, step == change.position)
            )
        }
    return {}


def silence_head(layer: int, head: int) -> Callable[[Tensor, int, int], Tensor]:
    """Return what sets the weights of one head (B, H, T, S) to nothing."""

    def act(value: Tensor, step: int, at: int) -> Tensor:
        if at != layer:
            return value
        kept = torch.ones(value.shape[1], 1, 1, dtype=value.dtype, device=value.device)
        kept[head] = 0
        return value * kept

    return act


def silence_unit(unit: int) -> Edit:
    """Return what sets one unit of hidden states (…, D) to 0."""

    def act(value: Tensor) -> Tensor:
        kept = torch.ones(value.shape[-1], dtype=value.dtype, device=value.device)
        kept[unit] = 0
        return value * kept

    return act


def _put(value: Tensor, row: Tensor, here: bool) -> Tensor:
    return row.to(value).expand_as(value) if here else value


def _row(change: Change, columns: int) -> Tensor:
    """Return the weights that an attention row is to have (S,)."""
    places = [int(place) for place in change.value.split("+") if place.isdecimal()]
    if not places or min(places) < 1 or max(places) > columns:
        todo = f"name positions from 1 to {columns}, as in attention:4=2 or attention:4=2+3"
        raise UserError(f"{change.value!r} names no input position", f"--what-if {change.text}", todo)
    row = torch.zeros(columns)
    for place in places:
        row[place - 1] += 1 / len(places)
    return row


def replaced(ids: Sequence[int], change: Change, encode: Callable[[str], list[int]]) -> list[int]:
    """Return ids with one symbol replaced, or left out."""
    if change.position >= len(ids):
        todo = f"give a position from 1 to {len(ids)}"
        raise UserError(f"there is no symbol {change.position + 1}", f"--what-if {change.text}", todo)
    new = encode(change.value) if change.value else []
    return [*ids[: change.position], *new, *ids[change.position + 1 :]]
