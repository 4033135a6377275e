"""`weft recipe list` and `weft recipe run`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import common

app = typer.Typer(
    cls=common.Group,
    no_args_is_help=True,
    help=("Run small experiments, each with a question, a table of results and plots."),
)


@app.command(name="list", cls=common.Command)
def list_() -> None:
    """List the recipes (small experiments), each with the question that it answers.

    [bold]Examples[/]
      weft recipe list
    """
    from weft.recipes.book import RECIPES

    rows = [[recipe.name, recipe.question] for recipe in RECIPES.values()]
    common.show(common.table(["recipe", "question"], rows, words=True), width=common.READABLE)


@app.command(cls=common.Command)
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from weft recipe list.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to create or to continue.", show_default="NAME-recipe", metavar="FOLDER"),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="The budget of each run: a time such as 90s, or target tokens such as 2Mtokens.",
            show_default="the recipe's",
            metavar="BUDGET",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="The number of updates per run, instead of a budget.", metavar="N")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="The number of runs per variant.", show_default="the recipe's", metavar="N", min=1),
    ] = None,
) -> None:
    """Run an experiment and write a page with its question, results, plots and conclusions.

    Recipes make their own data, or read a public data set from the folder that the variable WEFT_DATA names. To
    continue after Ctrl-C, run the same command again.

    [bold]Examples[/]
      weft recipe run case
      weft recipe run sort --budget 2m --seeds 3 --out sorting
    """
    from weft.cli.train import command_line
    from weft.recipes.run import find
    from weft.recipes.run import run as run_recipe
    from weft.recipes.study import Options

    recipe = find(name)
    if budget is not None and steps is not None:
        raise typer.BadParameter("--budget and --steps exclude each other", param_hint="--steps")
    folder = out or Path(f"{name}-recipe")
    page = run_recipe(recipe, folder, Options(budget, steps, seeds, command_line()))
    text = page.read_text(encoding="utf-8")
    common.show(text.rstrip(), "", f"page {page}")
