"""Run a recipe: its studies one after the other, and a page with their results."""

from __future__ import annotations

from pathlib import Path

from weft.compare.compare import Compared
from weft.compare.page import markdown, other_tests
from weft.compare.rank import EXPLANATION
from weft.compare.scoring import Scores
from weft.compare.variants import folder_name
from weft.core.errors import Interrupted, UserError, did_you_mean
from weft.core.stopping import stopped_by
from weft.recipes.book import RECIPES
from weft.recipes.study import Options, Recipe, Study
from weft.runs.folder import RunFolder, refuse_other_files

PAGE = "README.md"
OTHER_SETTINGS = (
    "These conclusions were drawn from runs with the recipe's default budget and seeds; the figures above come from "
    "the options given above."
)


def find(name: str) -> Recipe:
    if name not in RECIPES:
        raise UserError(f"there is no recipe {name!r}; {did_you_mean(name, RECIPES)}", name, "see `weft recipe list`")
    return RECIPES[name]


def run(recipe: Recipe, folder: Path, options: Options) -> Path:
    """Run every study that is not done yet, write README.md, and return its path."""
    try:
        return _run(recipe, folder, options)
    except KeyboardInterrupt:
        what, todo = f"stopped by {stopped_by()}; finished runs are kept", "give the same command again to continue"
        raise Interrupted(what, str(folder), todo) from None


def _run(recipe: Recipe, folder: Path, options: Options) -> Path:
    command = f"    weft recipe run {recipe.name}{options.flags}"
    lines = [_title(recipe), "", recipe.question, "", command, "", recipe.about, ""]
    if recipe.by_hand is not None and options.budget is not None:
        what, todo = "this recipe has no budget: it counts updates", "leave --budget out, or give --steps"
        raise UserError(what, f"--budget {options.budget}", todo)
    _check_folder(recipe, folder)
    if recipe.by_hand is not None:
        lines += recipe.by_hand(folder, options)
    for study in recipe.studies:
        title = [f"## {study.name.capitalize()}", ""] if len(recipe.studies) > 1 else []
        lines += [*title, *_section(study, study.run(folder, options))]
    lines += ["## Conclusions", "", *([OTHER_SETTINGS, ""] if options.flags else []), recipe.learns, ""]
    RunFolder(folder).write(PAGE, "\n".join(lines))
    return folder / PAGE


def _title(recipe: Recipe) -> str:
    return f"# {recipe.name}"


def _check_folder(recipe: Recipe, folder: Path) -> None:
    """Refuse a folder with files that this recipe did not write."""
    page = folder / PAGE
    is_other = page.is_file() and page.read_text(encoding="utf-8", errors="replace").split("\n")[0] != _title(recipe)
    written = {"data", "runs", f"{recipe.name}.png", *(study.name for study in recipe.studies)}
    refuse_other_files(folder, written if is_other else written | {PAGE})


def _flat(compared: Compared) -> set[str]:
    """Return the pictures of scores by length that show nothing, because all rows are in one class of lengths."""
    each: dict[str, list[Scores | None]] = {"": [result.valid for result in compared.results]}
    each |= {name: [result.tests.get(name) for result in compared.results] for name in compared.plan.request["tests"]}
    classes = {name: max((len(scores.lengths) for scores in of if scores), default=0) for name, of in each.items()}
    return {
        f"score-length{f'-{folder_name(name)}' if name else ''}.png" for name, count in classes.items() if count < 2
    }


def _section(study: Study, compared: Compared) -> list[str]:
    """Return a study's table and pictures, in Markdown."""
    pictures = sorted(path.name for path in compared.path.glob("score-*.png") if path.name not in _flat(compared))
    return [
        *markdown(*compared.table()),
        "",
        EXPLANATION.replace("*", "\\*"),
        "",
        *(f"![{name.removesuffix('.png').replace('-', ' ')}]({study.name}/{name})\n" for name in pictures),
        *other_tests(compared.plan, compared.rows),
        *(study.also(compared) if study.also is not None else []),
    ]
