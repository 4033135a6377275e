"""`compare_settings`: train every variant alike, and rank them."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from weft.api import flags_of, given_data
from weft.compare.budget import read_budget
from weft.compare.page import write_page
from weft.compare.plan import Asked, Plan, make_plan
from weft.compare.rank import Row, ranked, table, what_heads
from weft.compare.results import GridFolder, Result
from weft.compare.runs import Comparing, make_runs, sets_of
from weft.compare.variants import Variant, combinations, named, read_vary
from weft.compare.watch import RunReporter, Watcher
from weft.compare.watch import watcher as speaking_watcher
from weft.core.errors import UserError
from weft.core.pair import Pair
from weft.data.files import sides
from weft.runs.job import named_files
from weft.settings import compose, read_file


@dataclass(frozen=True)
class Compared:
    """A finished comparison: the ranked rows, every run's result, and where all is."""

    path: Path
    plan: Plan
    rows: list[Row]
    results: list[Result]

    @property
    def metric(self) -> str:
        return self.plan.metric

    @property
    def best(self) -> Row:
        return self.rows[0]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Heads and rows of the ranked table, as text."""
        return table(self.plan, self.rows)

    @property
    def word_columns(self) -> list[str]:
        """The heads of the columns that say what varies."""
        return what_heads(self.plan)

    def _repr_html_(self) -> str:
        heads, rows = self.table()
        lines = ["".join(f"<td>{html.escape(text)}</td>" for text in row) for row in rows]
        head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def compare_settings(
    pairs: str | Path | Sequence[str | Path] | Sequence[Pair] | Sequence[tuple[str, str]],
    *,
    vary: Mapping[str, Sequence[Any]] | Sequence[str] = (),
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    out: str | Path | None = None,
    valid: str | Path | Sequence[str | Path] | Sequence[Pair] | Sequence[tuple[str, str]] | None = None,
    tests: Mapping[str, str | Path] | None = None,
    budget: str | float | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    seeds: int = 3,
    match_parameters: bool = False,
    config: str | Path | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    source: str | int | None = None,
    target: str | int | None = None,
    features: str | int | None = None,
    tag: str | int | None = None,
    on_bad_line: Literal["stop", "skip"] | None = None,
    watcher: Watcher | None = None,
    command: str = "weft.compare_settings(…)",
) -> Compared:
    """Train every variant with every seed under the same budget, score all on the same pairs, and rank them.

    What differs is either `vary`, of which every combination is made (`{"decoder.cell": ["lstm", "gru"]}`, or as
    `--vary` takes it: `["decoder.cell=lstm,gru"]`), or `variants` by name (`{"wide": {"decoder.width": 512}, …}`).
    `budget` is a time ("5m", seconds) or target symbols ("2M tokens") for each run, or give `steps` or `epochs`.
    `tests` are more files, by name, that every run is scored on. The autopilot chooses once for all, as
    weft.compare.base
    tells. The same call on the same `out` goes on where it was stopped.
    """
    files, valid_files, columns = given_data(pairs, valid, source, target, features, tag)
    seconds, tokens = read_budget(budget)
    _check_budget(tokens, steps, epochs)
    given = {
        **columns,
        "data.on_bad_line": on_bad_line,
        "train.budget_seconds": seconds,
        "train.steps": steps,
        "train.epochs": epochs,
    }
    file_layer, flag_layer = read_file(config) if config is not None else {}, flags_of(settings, given)
    files, validation = named_files(files, valid_files, file_layer, flag_layer)
    varied = dict(vary) if isinstance(vary, Mapping) else read_vary(vary)
    asked = Asked(
        pairs=_files(files),
        valid=_files(validation),
        file_layer=file_layer,
        flag_layer=flag_layer,
        variants=tuple(_variants(varied, variants)),
        vary={key: list(values) for key, values in varied.items()},
        seeds=_checked_seeds(seeds),
        tokens=tokens,
        match=match_parameters,
        tests={name: str(file) for name, file in (tests or {}).items()},
        command=command,
    )
    _check_match(asked)
    return run_comparison(asked, GridFolder(out or _default_out(asked)), watcher or speaking_watcher())


def run_comparison(asked: Asked, folder: GridFolder, watcher: Watcher) -> Compared:
    """Plan it (or read the plan that was made), make the runs, rank them, and write the page."""
    try:
        _check_alone()
        prepared = asked.prepare(watcher.stage)
        identity = asked.identity(prepared)
        old = folder.read_plan()
        new = None if old else make_plan(asked, prepared)  # before the folder is made: a mistake leaves no trace
        with folder.open():
            plan = folder.go_on(old, identity) if old else _begin(folder, new, watcher)
            data = compose(("base", plan.base)).spec.data
            sets = sets_of(asked, prepared.valid, data)
            made = make_runs(Comparing(asked, plan, folder, sets, watcher, RunReporter(watcher)))
            rows = ranked(plan, made, folder)
            write_page(folder, plan, rows, asked.command)
    finally:
        watcher.close()
    return Compared(folder.path, plan, rows, made)


def _begin(folder: GridFolder, plan: Plan | None, watcher: Watcher) -> Plan:
    """Write the plan down, and say what all share and what cannot be."""
    assert plan is not None
    for key, value, why in plan.chosen.reasons:
        watcher.note(f"chose {key} = {value} for all: {why}")
    for cell in plan.cells:
        if cell.layers.dropped:
            watcher.note(f"{cell.variant.label} is of another kind and has no {', '.join(cell.layers.dropped)}")
        if cell.refused:
            folder.add(Result(cell.name, 0, "impossible", cell.variant.settings, reason=cell.refused))
    folder.write("comparison.json", plan.to_json())
    return plan


# what is refused ----------------------------------------------------------------------------------------------------


def _variants(vary: Mapping[str, Sequence[Any]], variants: Mapping[str, Mapping[str, Any]] | None) -> list[Variant]:
    if vary and variants:
        raise UserError("both vary and variants are given", "variants", "give one of them")
    return named(variants) if variants else combinations(vary)


def _check_budget(tokens: float | None, steps: int | None, epochs: float | None) -> None:
    other = "--steps" if steps is not None else "--epochs" if epochs is not None else ""
    if tokens is not None and other:
        raise UserError(f"a budget of tokens and {other} are both given", "--budget", "keep one")


def _checked_seeds(seeds: int) -> int:
    if seeds < 1:
        raise UserError("there must be at least one seed", f"--seeds {seeds}", "give 1 or more; 3 tell more than 1")
    return seeds


def _check_match(asked: Asked) -> None:
    varied = {key for variant in asked.variants for key in variant.settings}
    if asked.match and (widths := varied & {"encoder.width", "decoder.width"}):
        what = f"{' and '.join(sorted(widths))} cannot be varied while the parameters are matched by the widths"
        raise UserError(what, "--match-parameters", "leave --match-parameters out, or vary something else")


def _check_alone() -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError("a comparison is made by one process", "torchrun", "start it with `weft compare` alone")


def _files(paths: tuple[str, ...]) -> tuple[str, ...]:
    if "-" in paths:
        what = "the pairs of a comparison are read by every run, and stdin only once"
        raise UserError(what, "PAIRS -", "save them to a file, and name it")
    return paths


def _default_out(asked: Asked) -> Path:
    """`pairs-compare` for pairs.tsv, beside where the user stands."""
    if not asked.pairs:
        raise UserError("no pairs are given", "PAIRS", "name a pairs file: weft compare pairs.tsv --vary …")
    return Path(f"{Path(sides(asked.pairs[0])[0]).name.split('.')[0]}-compare")
