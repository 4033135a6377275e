"""README.md and the pictures of a comparison."""

from __future__ import annotations

from collections.abc import Sequence

from weft.compare.lengths import LengthClass
from weft.compare.plan import Plan
from weft.compare.rank import HOW, Row, table
from weft.compare.results import GridFolder, Result
from weft.compare.scoring import Scored
from weft.compare.variants import folder_name
from weft.data.prepare import counted
from weft.runs.report import clock
from weft.settings import flatten


def write_page(folder: GridFolder, plan: Plan, rows: Sequence[Row], command: str) -> None:
    """The pictures, then the page that shows them."""
    pictures = draw(folder, plan, rows)
    folder.write("README.md", page(folder.path.name, plan, rows, pictures, command))


def page(name: str, plan: Plan, rows: Sequence[Row], pictures: Sequence[tuple[str, str]], command: str) -> str:
    best = next(row for row in rows if row.best)
    return "\n".join(
        [
            f"# {name}",
            "",
            f"{_what(plan)} Best: **{best.cell.variant.label}**, {plan.metric} {best.score:.2f}.",
            "",
            *markdown(*table(plan, rows)),
            "",
            HOW.replace("*", "\\*"),
            "",
            *(f"![{title}]({file})" + "\n" for title, file in pictures),
            *other_tests(plan, rows),
            *_shared(plan, rows),
            "## Again",
            "",
            f"    {command}",
            "",
            "The same command goes on where it was stopped. Every run is an ordinary run folder under `runs/`, with "
            "its outputs in `outputs.jsonl`; `results.jsonl` has one line a run.",
            "",
        ]
    )


def _what(plan: Plan) -> str:
    train = plan.base["train"]
    if plan.asked["tokens"] is not None:
        budget = f"{plan.asked['tokens']:,.0f} target symbols"
    elif train["budget_seconds"]:
        budget = f"{clock(train['budget_seconds'])} (validation included)"
    else:
        budget = f"{train['steps']:,} steps" if train["steps"] else f"{train['epochs']:g} epochs"
    cells = counted(sum(not cell.refused for cell in plan.cells), "setting")
    return f"{cells}, each trained for {budget} with {counted(len(plan.seeds), 'seed')}."


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table; columns of numbers to the right."""
    numbers = [any(text[:1].isdigit() for row in rows for text in row[i : i + 1]) for i in range(len(heads))]
    return [
        f"| {' | '.join(heads)} |",
        f"|{'|'.join('---:' if right else '---' for right in numbers)}|",
        *(f"| {' | '.join(_cell(text) for text in row)} |" for row in rows),
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("\n", " ")


def other_tests(plan: Plan, rows: Sequence[Row]) -> list[str]:
    """The mean scores on other test files, if any."""
    names = list(plan.asked["tests"])
    if not names:
        return []
    made = []
    for row in (row for row in rows if row.results):
        means = [_mean([result.tests[name].metrics[plan.metric] for result in row.results]) for name in names]
        made.append([row.cell.variant.label, *(f"{mean:.2f}" for mean in means)])
    return ["## Other test sets", "", *markdown(["", *names], made), ""]


def _mean(values: Sequence[float | None]) -> float:
    return sum(value or 0.0 for value in values) / len(values)


def _shared(plan: Plan, rows: Sequence[Row]) -> list[str]:
    """What all have in common: the autopilot's choices and what was set."""
    said = {key for key, _ in flatten(plan.chosen.layer)} | {key for key, _ in flatten(plan.asked["set"])}
    said |= {key for key, _ in flatten(plan.asked["config"])}
    varied = {key for cell in plan.cells for key in (*cell.variant.settings, *cell.widths)}
    whole = dict(flatten(plan.base))
    lines = [f"| {key} | {_cell(str(whole[key]))} |" for key in sorted(said - varied) if key in whole]
    dropped = [
        f"{row.cell.variant.label} is of another kind and has no {', '.join(row.cell.layers.dropped)}.  "
        for row in rows
        if row.cell.layers.dropped
    ]
    return ["## What all share", "", "| setting | value |", "|---|---|", *lines, "", *dropped, ""]


# pictures -----------------------------------------------------------------------------------------------------------


def draw(folder: GridFolder, plan: Plan, rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Draw score against time, and against source length for the validation pairs and each test; titles and files."""
    from weft.look.compared import Line, draw_score_time  # matplotlib takes half a second to load

    shown = [row for row in rows if row.results]
    lines = [
        Line(
            row.cell.variant.label,
            row.cell.variant.places,
            tuple(tuple((x, y) for x, y in result.curve if y is not None) for result in row.results),
        )
        for row in shown
    ]
    most = plan.base["train"]["valid_pairs"]
    title = f"Score against training time (greedy search, at most {most:,} validation pairs)"
    draw_score_time(lines, folder.path / "score-time.png", plan.metric, title)
    made = [("score against training time", "score-time.png")]
    made.append(_draw_lengths(folder, plan, shown, "", "score-length.png"))
    for name in plan.asked["tests"]:
        made.append(_draw_lengths(folder, plan, shown, name, f"score-length-{folder_name(name)}.png"))
    return made


def _draw_lengths(folder: GridFolder, plan: Plan, rows: Sequence[Row], test: str, file: str) -> tuple[str, str]:
    from weft.look.compared import Line, draw_score_length

    def seed(result: Result) -> tuple[tuple[float, float], ...]:
        return tuple((float(place), one.score) for place, one in enumerate(_scored(result, test).lengths))

    lines = [Line(r.cell.variant.label, r.cell.variant.places, tuple(map(seed, r.results))) for r in rows]
    classes = [(class_name(one), one.pairs) for one in _scored(rows[0].results[0], test).lengths]
    title = "score against source length" + (f": {test}" if test else "")
    draw_score_length(lines, classes, folder.path / file, plan.metric, plan.unit, title.capitalize())
    return title, file


def _scored(result: Result, test: str) -> Scored:
    found = result.tests[test] if test else result.valid
    assert found is not None
    return found


def class_name(one: LengthClass) -> str:
    return str(one.low) if one.low == one.high else f"{one.low}–{one.high}"
