"""The plan of a comparison: the request, what all variants share, and each variant's settings (comparison.json).

It is made once. A comparison that is resumed reads it, so that later runs have the same choices as earlier ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from weft.choose import Choices
from weft.compare.base import Base, Layers, find_base, layers_of
from weft.compare.match import count_parameters, match_widths
from weft.compare.scoring import LengthUnit, length_unit
from weft.compare.variants import Variant, Vary
from weft.compatibility import FORMAT
from weft.core.errors import UserError
from weft.core.shapes import Shapes
from weft.data.corpus import Corpus
from weft.data.pairs import fingerprint
from weft.data.prepare import Prepared, counted
from weft.learn.loop import epoch_of
from weft.runs.job import Job, files_of, requested_spec, speed_for
from weft.runs.ready import encoded, learn_sides
from weft.score.metrics import metric_named, table_of, with_current_names
from weft.settings import Clash, Layer, flatten, from_format, merge, put
from weft.spec import Spec

OLD_KEYS = {"asked": "request", "cells": "combinations"}  # of plans that earlier versions wrote


@dataclass(frozen=True)
class Request:
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
        """Check the settings, then read the data."""
        spec = requested_spec(Job(file_layer=self.file_layer, flag_layer=self.flag_layer))
        return Prepared(files_of(spec, self.pairs, self.valid), progress=progress)

    def identity(self, prepared: Prepared) -> dict[str, Any]:
        """Return what makes it this comparison and no other, as JSON holds it."""
        content = {
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
        as_json: dict[str, Any] = json.loads(json.dumps(content))
        return as_json


@dataclass(frozen=True)
class Combination:
    """A variant with all its settings, or with the reason why it is impossible."""

    variant: Variant
    layers: Layers
    widths: dict[str, int] = field(default_factory=dict)  # set by --match-parameters
    refused: str = ""

    @property
    def name(self) -> str:
        return self.variant.name

    @property
    def label(self) -> str:
        return self.variant.label

    @property
    def shown_settings(self) -> dict[str, Any]:
        """Return the settings that distinguish it, matched widths included."""
        return {**self.variant.settings, **self.widths}


@dataclass(frozen=True)
class ComparisonPlan:
    """What is trained, and by which metric it is compared."""

    request: dict[str, Any]
    vary: Vary
    chosen: Choices
    base: dict[str, Any]
    metric: str
    unit: LengthUnit
    seeds: tuple[int, ...]
    combinations: tuple[Combination, ...]

    @property
    def possible(self) -> list[Combination]:
        return [combination for combination in self.combinations if not combination.refused]

    @property
    def runs(self) -> Iterator[tuple[Combination, int]]:
        """Yield each combination once, then again with the next seed, so that an unfinished comparison can be read."""
        return ((combination, seed) for seed in self.seeds for combination in self.possible)

    @property
    def size(self) -> str:
        """Return `4 combinations`, or `4 variants` where they have names."""
        return counted(len(self.possible), "combination" if self.vary else "variant")

    @property
    def run_count(self) -> int:
        return len(self.seeds) * len(self.possible)

    @property
    def budget_seconds(self) -> float | None:
        seconds: float | None = self.base["train"]["budget_seconds"]
        return seconds

    def with_seeds_of(self, request: dict[str, Any]) -> ComparisonPlan:
        """Return the same plan with the seeds of a request for more of them."""
        return replace(self, request=request, seeds=seeds_from(self.seeds[0], request["seeds"]))

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ComparisonPlan:
        content = {OLD_KEYS.get(key, key): value for key, value in with_current_names(json.loads(text)).items()}
        _keep_meaning(content, content.pop("format"))
        return cls(
            **{
                **content,
                "chosen": Choices(**content["chosen"]),
                "seeds": tuple(content["seeds"]),
                "combinations": tuple(_combination_from(item) for item in content["combinations"]),
            }
        )


def _keep_meaning(content: dict[str, Any], made_by: int) -> None:
    """Let a comparison of an earlier version go on with what its settings meant then."""
    content["chosen"]["layer"] = from_format(content["chosen"]["layer"], made_by)
    for combination in content["combinations"]:
        combination["layers"]["chosen"] = from_format(combination["layers"]["chosen"], made_by)


def _combination_from(content: Mapping[str, Any]) -> Combination:
    variant = dict(content["variant"])
    indices = variant.pop("places", None) or variant.pop("value_indices", ())  # "places" in earlier versions
    layers = Layers(**{**content["layers"], "dropped": tuple(content["layers"]["dropped"])})
    return Combination(Variant(**variant, value_indices=tuple(indices)), layers, content["widths"], content["refused"])


def make_plan(request: Request, prepared: Prepared) -> ComparisonPlan:
    """Let the autopilot choose, and complete each variant's settings; raise an error only if none is possible."""
    flags = request.flag_layer
    if request.tokens is not None:  # until the tokenisers are known
        flags = merge(flags, {"train": {"epochs": 1.0}})
    speed = speed_for(requested_spec(Job(file_layer=request.file_layer, flag_layer=flags)))
    base = find_base(prepared.survey, speed, request.file_layer, flags, request.variants)
    _refuse_varying_symbols(base, request.variants)
    combinations = [_complete(variant, base) for variant in request.variants]
    _refuse_mistakes(base, request.vary, combinations)
    combinations = [_sized(combination, base, prepared, request) for combination in combinations]
    if all(combination.refused for combination in combinations):
        what = f"every variant is impossible: {combinations[0].refused}"
        raise UserError(what, "--vary", "vary settings that are compatible")
    return ComparisonPlan(
        request.identity(prepared),
        request.vary,
        base.chosen,
        base.spec.model_dump(mode="json"),
        base.spec.train.select,
        length_unit(base.spec),
        seeds_from(base.spec.train.seed, request.seeds),
        tuple(combinations),
    )


def _complete(variant: Variant, base: Base) -> Combination:
    layers = Layers(base.chosen.layer, base.file_layer, base.flag_layer)
    try:
        layers = layers_of(base, variant.settings)
        layers.compose()
    except UserError as error:
        return Combination(variant, layers, refused=_reason(error))
    return Combination(variant, layers)


def _reason(error: UserError) -> str:
    return f"{error.what}; {error.todo}" if isinstance(error, Clash) else error.what


def _refuse_varying_symbols(base: Base, variants: Sequence[Variant]) -> None:
    """Refuse a metric that is counted per symbol where the symbols themselves would vary."""
    metric = base.spec.train.select
    keys = {key for variant in variants for key in variant.settings}
    if not metric_named(metric).from_outputs and (varied := sorted(keys & {"target.tokens", "target.size"})):
        raise UserError(
            f"train.select={metric} is measured per token, but the tokens would differ between the runs",
            f"--vary {varied[0]}",
            "compare with a metric of complete outputs: --set "
            f"train.select={listed([m.name for m in table_of().from_outputs])}",
        )


def listed(names: Sequence[str]) -> str:
    """Return `exact, cer or bleu`."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _refuse_mistakes(base: Base, vary: Vary, combinations: list[Combination]) -> None:
    """Refuse a value that is wrong in itself and in every combination, before anything is trained."""
    for key, values in vary.items():
        for value in values:
            with_value = [c for c in combinations if c.variant.settings[key] == value]
            if not all(combination.refused for combination in with_value):
                continue
            try:
                layers_of(base, {key: value}).compose()
            except Clash:
                continue
            except UserError as error:
                raise UserError(error.what, f"--vary {key}", error.todo) from None


def _sized(combination: Combination, base: Base, prepared: Prepared, request: Request) -> Combination:
    """Set matched widths and the epochs of a budget in tokens, where the request has them."""
    if combination.refused or not (request.match or request.tokens is not None):
        return combination
    layers, widths = combination.layers, combination.widths
    if request.match:
        wanted = count_parameters(base.spec, _shapes(prepared, base.spec))
        try:
            widths = match_widths(layers, wanted, _shapes(prepared, layers.compose()))
        except UserError as error:
            return Combination(combination.variant, layers, refused=error.what)
        layers = layers.changed(widths)
    if request.tokens is not None:
        spec = layers.compose()
        corpus = encoded(prepared, learn_sides(prepared, spec), spec)
        layers = layers.changed({"train.epochs": _epochs_for(request.tokens, corpus, spec)})
    return Combination(combination.variant, layers, widths)


def _epochs_for(tokens: float, corpus: Corpus, spec: Spec) -> float:
    """Return the epochs in which the model learns from so many target symbols (to the end of the last batch)."""
    return tokens / max(1, int(corpus.target_lengths[epoch_of(corpus, spec, 0).rows].sum()))


def _shapes(prepared: Prepared, spec: Spec) -> Shapes:
    return learn_sides(prepared, spec).shapes


def seeds_from(first: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + count))


def job_of(combination: Combination, seed: int, plan: ComparisonPlan, request: Request) -> Job:
    """Return the ordinary training job of one run, without its folder."""
    flags = merge(combination.layers.flag_layer)
    put(flags, "train.seed", seed)
    settings = dict(flatten(combination.layers.compose().model_dump(mode="json")))
    reasons = [reason for reason in plan.chosen.reasons if str(settings.get(reason[0])) == reason[1]]
    return Job(
        pairs=request.pairs,
        valid=request.valid,
        file_layer=combination.layers.file_layer,
        flag_layer=flags,
        resume=True,
        command=request.command,
        chosen=Choices(combination.layers.chosen, reasons),
    )
