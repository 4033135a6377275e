"""README.md and the pictures of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from weft.compare.plan import ComparisonPlan
from weft.compare.rank import EXPLANATION, Row, summary, table
from weft.compare.results import ComparisonFolder, Result
from weft.compare.scoring import Scores
from weft.compare.variants import folder_name
from weft.data.prepare import counted
from weft.runs.report import clock
from weft.settings import flatten
from weft.tasks import TASKS


def write_page(folder: ComparisonFolder, plan: ComparisonPlan, rows: Sequence[Row], command: str) -> None:
    """Draw the pictures, then write the page that shows them."""
    pictures = draw(folder, plan, rows)
    folder.write("README.md", page(folder.path.name, plan, rows, pictures, command))


def page(
    name: str, plan: ComparisonPlan, rows: Sequence[Row], pictures: Sequence[tuple[str, str]], command: str
) -> str:
    return "\n".join(
        [
            f"# {name}",
            "",
            f"{_training(plan)} {summary(plan, rows)}",
            "",
            *markdown(*table(plan, rows)),
            "",
            EXPLANATION.replace("*", "\\*"),
            "",
            *(f"![{title}]({file})" + "\n" for title, file in pictures),
            *other_tests(plan, rows),
            *_shared(plan, rows),
            "## Run it again",
            "",
            f"    {command}",
            "",
            "The same command resumes a comparison that was stopped. Every run is an ordinary run folder under "
            "`runs/`, with its outputs in `outputs.jsonl`; `results.jsonl` has one line per run.",
            "",
        ]
    )


def _training(plan: ComparisonPlan) -> str:
    """Return how many variants were trained, and for how long."""
    train = plan.base["train"]
    if plan.request["tokens"] is not None:
        budget = f"{plan.request['tokens']:,.0f} target tokens"
    elif train["budget_seconds"]:
        budget = f"{clock(train['budget_seconds'])} (validation included)"
    else:
        budget = f"{train['steps']:,} steps" if train["steps"] else f"{train['epochs']:g} epochs"
    return f"{plan.size}, each trained for {budget} with {counted(len(plan.seeds), 'seed')}."


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, columns of numbers aligned to the right."""
    numbers = [any(text[:1].isdigit() for row in rows for text in row[i : i + 1]) for i in range(len(headings))]
    return [
        f"| {' | '.join(headings)} |",
        f"|{'|'.join('---:' if right else '---' for right in numbers)}|",
        *(f"| {' | '.join(_escaped(text) for text in row)} |" for row in rows),
    ]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("\n", " ")


def other_tests(plan: ComparisonPlan, rows: Sequence[Row]) -> list[str]:
    """Return a section with the mean scores on other test files, if there are any."""
    names = list(plan.request["tests"])
    if not names:
        return []
    lines = []
    for row in (row for row in rows if row.results):
        means = [fmean(result.tests[name].metrics[plan.metric] or 0.0 for result in row.results) for name in names]
        lines.append([row.label, *(f"{mean:.2f}" for mean in means)])
    return ["## Other test sets", "", *markdown(["", *names], lines), ""]


def _shared(plan: ComparisonPlan, rows: Sequence[Row]) -> list[str]:
    """Return a section with the settings that all share: the autopilot's choices and the user's."""
    trees = plan.chosen.layer, plan.request["set"], plan.request["config"]
    keys = {key for tree in trees for key, _ in flatten(tree)}
    varied = {key for combination in plan.combinations for key in combination.shown_settings}
    base = dict(flatten(plan.base))
    lines = [f"| {key} | {_escaped(str(base[key]))} |" for key in sorted(keys - varied) if key in base]
    dropped = [
        f"{row.label} does not use {', '.join(row.combination.layers.dropped)}: its kind has no such setting.  "
        for row in rows
        if row.combination.layers.dropped
    ]
    return ["## Settings that all share", "", "| setting | value |", "|---|---|", *lines, "", *dropped, ""]


# pictures -----------------------------------------------------------------------------------------------------------


def draw(folder: ComparisonFolder, plan: ComparisonPlan, rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Draw score against time, and against source length for each set of pairs; return titles and file names."""
    from weft.look.compared import Line, draw_score_time  # matplotlib takes half a second to load

    scored = [row for row in rows if row.results]
    lines = []
    for row in scored:
        seeds = tuple(tuple((x, y) for x, y in result.curve if y is not None) for result in row.results)
        lines.append(Line(row.label, row.combination.variant.value_indices, seeds))
    most = plan.base["train"]["valid_pairs"]
    title = f"Score against training time (greedy search, at most {most:,} validation pairs)"
    draw_score_time(lines, folder.path / "score-time.png", _score_axis(plan), title)
    pictures = [("score against training time", "score-time.png")]
    pictures.append(_draw_lengths(folder, plan, scored, "", "score-length.png"))
    for name in plan.request["tests"]:
        pictures.append(_draw_lengths(folder, plan, scored, name, f"score-length-{folder_name(name)}.png"))
    return pictures


def _score_axis(plan: ComparisonPlan) -> str:
    """Return the name of the metric, as the task has it."""
    from weft.look.curves import label_of

    task = TASKS[plan.base["task"]]
    return label_of(plan.metric, {"target": task.scores or task.target or "text"})


def _draw_lengths(
    folder: ComparisonFolder, plan: ComparisonPlan, rows: Sequence[Row], test: str, file: str
) -> tuple[str, str]:
    from weft.look.compared import Line, draw_score_length

    def points(result: Result) -> tuple[tuple[float, float], ...]:
        return tuple((float(i), length.score) for i, length in enumerate(_scores(result, test).lengths))

    lines = [Line(r.label, r.combination.variant.value_indices, tuple(map(points, r.results))) for r in rows]
    classes = [(length.name, length.pairs) for length in _scores(rows[0].results[0], test).lengths]
    length = "length" if TASKS[plan.base["task"]].alone else "source length"
    title = f"score against {length}" + (f": {test}" if test else "")
    axis = f"{length} ({plan.unit})"
    draw_score_length(lines, classes, folder.path / file, _score_axis(plan), axis, title.capitalize())
    return title, file


def _scores(result: Result, test: str) -> Scores:
    scores = result.tests[test] if test else result.valid
    assert scores is not None
    return scores
