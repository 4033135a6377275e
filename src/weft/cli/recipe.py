"""`weft recipe list` and `weft recipe run`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import common

app = typer.Typer(cls=common.Group, no_args_is_help=True, help="Named experiments that finish on two CPU cores.")


@app.command(name="list", cls=common.Command)
def list_() -> None:
    """Every recipe with its question.

    [bold]Examples[/]
      weft recipe list
    """
    from weft.recipes.book import RECIPES

    rows = [[recipe.name, recipe.question] for recipe in RECIPES.values()]
    common.show(common.table(["recipe", "question"], rows, words=True))


@app.command(cls=common.Command)
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of `weft recipe list`.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="The folder to make, or to go on with.", show_default="NAME-recipe")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="For each run: a time, or target tokens as 2Mtokens.", show_default="the recipe's", metavar="BUDGET"
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Updates of each run, instead of a budget.", metavar="N")] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Runs of each variant.", show_default="the recipe's", metavar="N", min=1)
    ] = None,
) -> None:
    """Run an experiment and write its page: the question, the table, the pictures, and what one learns.

    Recipes make their data, or read a public set from the folder that the variable WEFT_DATA names. Ctrl-C stops; the
    same command goes on.

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
