"""`weft.compare`: train every variant alike, and rank them."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from weft.api import flags_of, given_data
from weft.compare.page import write_page
from weft.compare.plan import ComparisonPlan, Request, make_plan
from weft.compare.rank import Row, rank, table, variant_headings
from weft.compare.results import ComparisonFolder, Result
from weft.compare.runs import OpenComparison, impossible, read_test_sets, train_runs
from weft.compare.variants import Variant, combinations, named, read_vary
from weft.core.errors import Interrupted, UserError
from weft.core.pair import Pair
from weft.core.stopping import stopped_by
from weft.data.files import sides
from weft.learn.budget import read_seconds
from weft.runs.job import named_files
from weft.runs.report import Display
from weft.runs.report import reporter as default_reporter
from weft.settings import compose, read_file

MULTIPLES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
TOKENS = re.compile(r"(\d+(?:\.\d+)?)\s*([kMG]?)\s*tokens?")


@dataclass(frozen=True)
class Compared:
    """A finished comparison: the ranked rows, every run's result, and the folder."""

    path: Path
    plan: ComparisonPlan
    rows: list[Row]
    results: list[Result]

    @property
    def metric(self) -> str:
        return self.plan.metric

    @property
    def best(self) -> Row | None:
        """The variant that is significantly better than every other; None if there is no such variant."""
        return next((row for row in self.rows if row.best), None)

    @property
    def leaders(self) -> list[Row]:
        """The best variant; if there is none, the first and those that are not significantly different from it."""
        return [row for row in self.rows if row.best or row.tied]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and rows of the ranked table, as text."""
        return table(self.plan, self.rows)

    @property
    def word_columns(self) -> list[str]:
        """The headings of the columns that hold words: what varies, and notes."""
        return [*variant_headings(self.plan), "note"]

    def _repr_html_(self) -> str:
        headings, rows = self.table()
        lines = ["".join(f"<td>{html.escape(text)}</td>" for text in row) for row in rows]
        head = "".join(f"<th>{html.escape(text)}</th>" for text in headings)
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def compare(
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
    reporter: Display | None = None,
    command: str = "weft.compare(…)",
) -> Compared:
    """Train every variant with every seed under the same budget, score all on the same pairs, and rank them.

    Give either `vary`, to train every combination of values (`{"decoder.cell": ["lstm", "gru"]}`, or as `--vary` takes
    it: `["decoder.cell=lstm,gru"]`), or `variants` by name (`{"wide": {"decoder.width": 512}, …}`). `budget` is a time
    ("5m", or seconds) or a number of target tokens ("2Mtokens") for each run; `steps` or `epochs` can replace it.
    `tests` are further files, by name, that every run is scored on. The autopilot chooses once for all variants (see
    weft.compare.base). The same call with the same `out` resumes a comparison that was stopped.
    Progress goes to stderr; `reporter=weft.runs.report.Quiet()` prints nothing.
    """
    roles = {"source": source, "target": target, "features": features, "tag": tag}
    files, valid_files, columns = given_data(pairs, valid, roles)
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
    request = Request(
        pairs=_refuse_stdin(files),
        valid=_refuse_stdin(validation),
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
    _check_match(request)
    folder = ComparisonFolder(out or _default_out(request))
    return run_comparison(request, folder, reporter or default_reporter(brief=True))


compare_settings = compare  # its name in earlier versions


def run_comparison(request: Request, folder: ComparisonFolder, reporter: Display) -> Compared:
    """Make the plan (or read it, to resume), train the runs, rank them, and write the page."""
    try:
        _check_single_process()
        prepared = request.prepare(reporter.stage)
        identity = request.identity(prepared)
        old = folder.read_plan()
        new = None if old else make_plan(request, prepared)  # before the folder is made: a mistake leaves no trace
        with folder.open():
            plan = folder.resume(old, identity) if old else _begin(folder, new, reporter)
            test_sets = read_test_sets(request, prepared.valid, compose(("base", plan.base)).spec)
            results = train_runs(OpenComparison(request, plan, folder, test_sets), reporter)
            rows = rank(plan, results, folder)
            write_page(folder, plan, rows, request.command)
    except KeyboardInterrupt:
        what, todo = f"stopped by {stopped_by()}; finished runs are kept", "give the same command again to resume"
        raise Interrupted(what, str(folder.path), todo) from None
    finally:
        reporter.close()
    return Compared(folder.path, plan, rows, results)


def _begin(folder: ComparisonFolder, plan: ComparisonPlan | None, reporter: Display) -> ComparisonPlan:
    """Write the plan, and report what all variants share and which are impossible."""
    assert plan is not None
    for key, value, why in plan.chosen.reasons:
        reporter.note(f"chose {key} = {value} for all: {why}")
    for combination in plan.combinations:
        if dropped := combination.layers.dropped:
            reporter.note(f"{combination.label} does not use {', '.join(dropped)}: its kind has no such setting")
    folder.write("comparison.json", plan.to_json())
    for result in impossible(plan):
        folder.add(result)
    return plan


# the user's mistakes --------------------------------------------------------------------------------------------------


def read_budget(budget: str | float | None) -> tuple[float | None, float | None]:
    """Return seconds or tokens: `5m` and `90s` are times, `2Mtokens` and `300k tokens` are tokens."""
    if budget is None:
        return None, None
    if not isinstance(budget, str):
        return read_seconds(budget), None
    text = budget.strip()
    if match := TOKENS.fullmatch(text):
        tokens = float(match[1]) * MULTIPLES[match[2]]
        if tokens < 1:
            raise UserError("the budget is less than one token", f"--budget {text}", "give a number, like 2Mtokens")
        return None, tokens
    if "token" in text:
        raise UserError(f"'{text}' is not a number of tokens", "--budget", "write it like 2Mtokens or 300ktokens")
    return read_seconds(text), None


def _variants(vary: Mapping[str, Sequence[Any]], variants: Mapping[str, Mapping[str, Any]] | None) -> list[Variant]:
    if vary and variants:
        raise UserError("`vary` and `variants` are both given", "variants", "give only one of them")
    return named(variants) if variants else combinations(vary)


def _check_budget(tokens: float | None, steps: int | None, epochs: float | None) -> None:
    other = "--steps" if steps is not None else "--epochs" if epochs is not None else ""
    if tokens is not None and other:
        raise UserError(f"a budget in tokens and {other} are both given", "--budget", "give only one of them")


def _checked_seeds(seeds: int) -> int:
    if seeds < 1:
        raise UserError(
            "at least one seed is needed", f"--seeds {seeds}", "use 1 or more; 3 seeds give more reliable results"
        )
    return seeds


def _check_match(request: Request) -> None:
    varied = {key for variant in request.variants for key in variant.settings}
    if request.match and (widths := varied & {"encoder.width", "decoder.width"}):
        what = f"{' and '.join(sorted(widths))} cannot be varied while --match-parameters sets the widths"
        raise UserError(what, "--match-parameters", "leave --match-parameters out, or vary something else")


def _check_single_process() -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError("a comparison runs in one process", "torchrun", "start it with `weft compare` alone")


def _refuse_stdin(paths: tuple[str, ...]) -> tuple[str, ...]:
    if "-" in paths:
        what = "every run of a comparison reads the pairs, but stdin can be read only once"
        raise UserError(what, "PAIRS -", "save the pairs to a file, and name it")
    return paths


def _default_out(request: Request) -> Path:
    """Return `pairs-compare` for pairs.tsv, in the working folder."""
    if not request.pairs:
        raise UserError("no pairs are given", "PAIRS", "name a pairs file: weft compare pairs.tsv --vary …")
    return Path(f"{Path(sides(request.pairs[0])[0]).name.split('.')[0]}-compare")
