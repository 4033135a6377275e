"""The pages of finished recipes into docs/recipes: each page, and its pictures under names of their own.

weft recipe run case --out /tmp/recipes/case
python bench/pages.py /tmp/recipes docs/recipes
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

PICTURE = re.compile(r"!\[(.*?)\]\((.*?\.png)\)")


def copy_page(name: str, recipe: Path, docs: Path) -> None:
    """README.md of a recipe's folder as NAME.md, with its pictures beside it."""

    def picture(found: re.Match[str]) -> str:
        target = f"{name}-{Path(found[2]).as_posix().replace('/', '-')}"
        shutil.copyfile(recipe / found[2], docs / target)
        return f"![{found[1]}]({target})"

    page = (recipe / "README.md").read_text(encoding="utf-8")
    (docs / f"{name}.md").write_text(PICTURE.sub(picture, page), encoding="utf-8")


def main() -> None:
    recipes, docs = Path(sys.argv[1]), Path(sys.argv[2])
    docs.mkdir(parents=True, exist_ok=True)
    for folder in sorted(recipes.iterdir()):
        if (folder / "README.md").exists():
            copy_page(folder.name, folder, docs)
            print(f"{folder.name}: {docs / folder.name}.md")


if __name__ == "__main__":
    main()
