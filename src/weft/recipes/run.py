"""Running a recipe: its studies one after the other, and a page that shows what came of them."""

from __future__ import annotations

from pathlib import Path

from weft.core.errors import UserError, did_you_mean
from weft.grid.compare import Compared
from weft.grid.page import markdown, other_tests
from weft.grid.rank import HOW
from weft.learn.folder import RunFolder
from weft.recipes.book import RECIPES
from weft.recipes.study import Options, Recipe, Study

AS_IT_IS = "This was seen with the recipe's own budget and seeds; the figures above were made with others."


def find(name: str) -> Recipe:
    if name not in RECIPES:
        raise UserError(
            f"there is no recipe {name!r}; {did_you_mean(name, list(RECIPES))}", name, "see `weft recipe list`"
        )
    return RECIPES[name]


def run(recipe: Recipe, folder: Path, options: Options) -> Path:
    """Every study (those that ended are not made again), and README.md; the page's path."""
    command = f"    weft recipe run {recipe.name}{options.flags}"
    lines = [f"# {recipe.name}", "", recipe.question, "", command, "", recipe.about, ""]
    if recipe.by_hand is not None:
        if options.budget is not None:
            todo = "leave it out, or give --steps"
            raise UserError(
                "this recipe trains no runs, and has no budget of its own", f"--budget {options.budget}", todo
            )
        lines += recipe.by_hand(folder, options)
    for study in recipe.studies:
        title = [f"## {study.name.capitalize()}", ""] if len(recipe.studies) > 1 else []
        lines += [*title, *_shown(study, study.run(folder, options))]
    lines += ["## What one learns", "", *([AS_IT_IS, ""] if options.flags else []), recipe.learns, ""]
    RunFolder(folder).write("README.md", "\n".join(lines))
    return folder / "README.md"


def _shown(study: Study, compared: Compared) -> list[str]:
    """A study's table and pictures."""
    lengths = max(len(result.valid.lengths) for result in compared.results if result.valid)
    pictures = sorted(path.name for path in compared.path.glob("score-*.png"))
    if lengths == 1:  # there is nothing to see by length
        pictures.remove("score-length.png")
    return [
        *markdown(*compared.table()),
        "",
        HOW.replace("*", "\\*"),
        "",
        *(f"![{name.removesuffix('.png').replace('-', ' ')}]({study.name}/{name})\n" for name in pictures),
        *other_tests(compared.plan, compared.rows),
        *(study.also(compared) if study.also is not None else []),
    ]
