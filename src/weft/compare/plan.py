"""The plan of a comparison: what was asked, what all share, and each cell's settings, as it lies in comparison.json.

It is made once. A comparison that is taken up again reads it, so that later runs have the same choices as earlier ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from weft.choose import Choices
from weft.compare.base import Base, Layers, find_base, layers_of
from weft.compare.budget import epochs_for
from weft.compare.lengths import Unit, unit_of
from weft.compare.match import count_parameters, matched
from weft.compare.variants import Variant, Vary
from weft.core.errors import UserError
from weft.data.pairs import fingerprint
from weft.data.prepare import Prepared
from weft.runs.job import Job, files_of, requested_spec, speed_for
from weft.runs.ready import learn_tokenisers
from weft.score.metrics import table_of, with_current_names
from weft.settings import Clash, Layer, flatten, merge, put
from weft.spec import Spec

FORMAT = 1


@dataclass(frozen=True)
class Asked:
    """What the user wants compared."""

    pairs: tuple[str, ...]
    valid: tuple[str, ...]
    file_layer: Layer
    flag_layer: Layer
    variants: tuple[Variant, ...]
    vary: Vary = field(default_factory=dict)
    seeds: int = 3
    tokens: float | None = None
    match: bool = False
    tests: dict[str, str] = field(default_factory=dict)
    command: str = ""

    def prepare(self, progress: Any = None) -> Prepared:
        """The data; mistakes in the settings are told before they are read."""
        asked = requested_spec(Job(file_layer=self.file_layer, flag_layer=self.flag_layer))
        return Prepared(files_of(asked.data, self.pairs, self.valid), progress=progress)

    def identity(self, prepared: Prepared) -> dict[str, Any]:
        """What makes it this comparison and no other."""
        made = {
            "fingerprint of pairs": prepared.fingerprint,
            "fingerprint of --valid": prepared.valid_fingerprint or "none",
            "config": self.file_layer,
            "set": self.flag_layer,
            "variants": {v.label: ", ".join(f"{k}={x}" for k, x in v.settings.items()) for v in self.variants},
            "seeds": self.seeds,
            "tokens": self.tokens,
            "match_parameters": self.match,
            "tests": {name: fingerprint([file]) for name, file in self.tests.items()},
        }
        content: dict[str, Any] = json.loads(json.dumps(made))
        return content


@dataclass(frozen=True)
class Cell:
    """A variant with all its settings, or with the reason why it cannot be."""

    variant: Variant
    layers: Layers
    widths: dict[str, int] = field(default_factory=dict)  # that --match-parameters found
    refused: str = ""

    @property
    def name(self) -> str:
        return self.variant.name


@dataclass(frozen=True)
class Plan:
    asked: dict[str, Any]
    vary: Vary
    chosen: Choices
    base: dict[str, Any]
    metric: str
    unit: Unit
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]

    @property
    def runs(self) -> Iterator[tuple[Cell, int]]:
        """Each cell once, then again with the next seed, so that an unfinished comparison can be read."""
        return ((cell, seed) for seed in self.seeds for cell in self.cells if not cell.refused)

    @property
    def budget_seconds(self) -> float | None:
        seconds: float | None = self.base["train"]["budget_seconds"]
        return seconds

    def longer(self, asked: dict[str, Any]) -> Plan:
        """The same with more seeds."""
        return replace(self, asked=asked, seeds=seeds_from(self.seeds[0], asked["seeds"]))

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Plan:
        content = with_current_names(json.loads(text))
        content.pop("format")
        return cls(
            **{
                **content,
                "chosen": Choices(**content["chosen"]),
                "seeds": tuple(content["seeds"]),
                "cells": tuple(_cell_from(cell) for cell in content["cells"]),
            }
        )


def _cell_from(content: Mapping[str, Any]) -> Cell:
    variant = Variant(**{**content["variant"], "places": tuple(content["variant"]["places"])})
    layers = Layers(**{**content["layers"], "dropped": tuple(content["layers"]["dropped"])})
    return Cell(variant, layers, content["widths"], content["refused"])


def make_plan(asked: Asked, prepared: Prepared) -> Plan:
    """Let the autopilot choose, and settle each cell. It is an error only if no cell can be."""
    flags = asked.flag_layer
    if asked.tokens is not None:  # until the tokenisers are known
        flags = merge(flags, {"train": {"epochs": 1.0}})
    speed = speed_for(requested_spec(Job(file_layer=asked.file_layer, flag_layer=flags)))
    base = find_base(prepared.survey, speed, asked.file_layer, flags, asked.variants)
    _refuse_other_symbols(base, asked.variants)
    cells = [_settled(variant, base) for variant in asked.variants]
    _refuse_mistakes(base, asked.vary, cells)
    cells = [_sized(cell, base, prepared, asked) for cell in cells]
    if all(cell.refused for cell in cells):
        raise UserError(f"none of these can be: {cells[0].refused}", "--vary", "vary settings that go together")
    return Plan(
        asked.identity(prepared),
        asked.vary,
        base.chosen,
        base.spec.model_dump(mode="json"),
        base.spec.train.select,
        unit_of(base.spec),
        seeds_from(base.spec.train.seed, asked.seeds),
        tuple(cells),
    )


def _settled(variant: Variant, base: Base) -> Cell:
    layers = Layers(base.chosen.layer, base.file_layer, base.flag_layer)
    try:
        layers = layers_of(base, variant.settings)
        layers.compose()
    except UserError as error:
        return Cell(variant, layers, refused=_reason(error))
    return Cell(variant, layers)


def _reason(error: UserError) -> str:
    return f"{error.what}; {error.todo}" if isinstance(error, Clash) else error.what


def _refuse_other_symbols(base: Base, variants: Sequence[Variant]) -> None:
    """What is counted by the symbol says nothing about targets that are cut into others."""
    table, metric = table_of(), base.spec.train.select
    keys = {key for variant in variants for key in variant.settings}
    if not table[metric].from_outputs and (cut := sorted(keys & {"target.tokens", "target.size"})):
        raise UserError(
            f"train.select={metric} is counted by the symbol, and what a symbol is would vary",
            f"--vary {cut[0]}",
            "compare by what does not depend on it: --set train.select="
            + ", ".join(m.name for m in table.from_outputs[:-1])
            + f" or {table.from_outputs[-1].name}",
        )


def _refuse_mistakes(base: Base, vary: Vary, cells: list[Cell]) -> None:
    """A value that is wrong in itself and in every combination is a slip of the user's: say it before training."""
    for key, values in vary.items():
        for value in values:
            having = [cell for cell in cells if cell.variant.settings[key] == value]
            if not all(cell.refused for cell in having):
                continue
            try:
                layers_of(base, {key: value}).compose()
            except Clash:
                continue
            except UserError as error:
                raise UserError(error.what, f"--vary {key}", error.todo) from None


def _sized(cell: Cell, base: Base, prepared: Prepared, asked: Asked) -> Cell:
    """The cell with matched widths and with its share of a budget in tokens, if these are asked for."""
    if cell.refused or not (asked.match or asked.tokens is not None):
        return cell
    layers, widths = cell.layers, cell.widths
    if asked.match:
        wanted = count_parameters(base.spec, _symbols(prepared, base.spec))
        try:
            widths = matched(layers, wanted, _symbols(prepared, layers.compose()))
        except UserError as error:
            return Cell(cell.variant, layers, refused=error.what)
        layers = layers.changed(widths)
    if asked.tokens is not None:
        spec = layers.compose()
        corpus = prepared.corpus(*learn_tokenisers(prepared, spec), spec.data.augmented)
        epochs = epochs_for(asked.tokens, corpus, spec)
        layers = layers.changed({"train.epochs": epochs})
    return Cell(cell.variant, layers, widths)


def _symbols(prepared: Prepared, spec: Spec) -> tuple[int, int]:
    source, target = learn_tokenisers(prepared, spec)
    return len(source), len(target)


def seeds_from(first: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + count))


def job_of(cell: Cell, seed: int, plan: Plan, asked: Asked) -> Job:
    """The ordinary training job of one run (its folder is said elsewhere)."""
    flags = merge(cell.layers.flag_layer)
    put(flags, "train.seed", seed)
    own = dict(flatten(cell.layers.compose().model_dump(mode="json")))
    reasons = [reason for reason in plan.chosen.reasons if str(own.get(reason[0])) == reason[1]]
    return Job(
        pairs=asked.pairs,
        valid=asked.valid,
        file_layer=cell.layers.file_layer,
        flag_layer=flags,
        resume=True,
        command=asked.command,
        chosen=Choices(cell.layers.chosen, reasons),
    )
